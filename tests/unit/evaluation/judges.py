"""Judges for tests: an agent over pydantic-ai's own function model, on a virtual clock."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelResponse, ToolCallPart
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.rubrics import JudgeOptions, Rubric, Task
from airflow_provider_assistant.evaluation.verdicts import Verdicts

__all__ = ["FRIENDLY", "TOKENS", "Model", "ModelAPIError", "ModelHTTPError", "judge_of", "tasks"]

FRIENDLY = Rubric("friendly", "The answer is friendly.")
TOKENS = 100


class Model:
    """
    A model that gives an answer the score that it names, such as "0.5".

    :param fault: Called with the number of the request and the answer; returns an error to raise, or a reply.
    :param seconds: Time for a reply.
    """

    def __init__(self, fault=lambda number, answer: None, seconds=0.0):
        self.fault = fault
        self.seconds = seconds
        self.asked = []
        self.instructions = []

    async def reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(self.seconds)
        asked = json.loads(messages[0].parts[-1].content)
        self.asked.append(asked)
        self.instructions.append(info.instructions)
        fault = self.fault(len(self.asked) - 1, asked["answer"])
        if isinstance(fault, Exception):
            raise fault
        verdict = fault or {"reason": f"It says {asked['answer']}.", "score": float(asked["answer"])}
        call = ToolCallPart(info.output_tools[0].name, verdict)
        return ModelResponse([call], usage=RequestUsage(input_tokens=TOKENS - 10, output_tokens=10))

    def agent(self, **arguments):
        return Agent(FunctionModel(self.reply, model_name="word-overlap"), **arguments)


def judge_of(model, **options):
    return Verdicts(JudgeOptions.parse(options), create_agent=model.agent)


def tasks(*answers, rubric=FRIENDLY):
    return [Task(rubric, Case(f"q{number}", f"Question {number}?", answer)) for number, answer in enumerate(answers)]
