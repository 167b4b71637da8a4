"""The request to a judge for one answer or for two, and its reply: a chat completion with a JSON schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.call import Call, CallInfo
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.judging.prompts import ANSWER, PAIR, PROMPT_VERSION
from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantResponseError
from airflow_provider_assistant.keys import is_missing

ENDPOINT = "judge"
REASON_LENGTH = 1000
# How far the first of two answers is the better one.
PREFERENCES = {"first": 1.0, "tie": 0.5, "second": 0.0}


class Verdict(BaseModel):
    """
    The verdict of a judge on one answer, or on two.

    :param score: From 0 to 1; of two answers: 1 if the first is better, 0 if the second is, and 0.5 for a tie.
    :param verdict: ``pass`` or ``fail``; of two answers ``first``, ``second`` or ``tie``.
    :param reason: Why, with the words that decide.
    :param input_tokens: Number of tokens of the prompt; 0 if the host does not report it.
    """

    model_config = ConfigDict(frozen=True)

    score: float = Field(ge=0, le=1)
    verdict: Literal["pass", "fail", "first", "second", "tie"]
    reason: str
    input_tokens: int = 0
    output_tokens: int = 0


class _AnswerReply(BaseModel):
    score: float = Field(ge=0, le=1)
    verdict: Literal["pass", "fail"]
    reason: str


class _PairReply(BaseModel):
    better: Literal["first", "second", "tie"]
    reason: str


_Reply = TypeVar("_Reply", _AnswerReply, _PairReply)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """
    One answer to judge by one rubric, or two answers to compare.

    :param answer: Text of the answer, or of the first of two.
    :param passages: Passages that the answer should be based on.
    :param is_label: Whether a person has labelled this answer, and it is not the answer of this evaluation.
    :param second: Text of the second answer; None if there is only one to judge.
    """

    key: str
    rubric: Rubric
    question: str
    answer: str
    expected: str | None
    passages: tuple[str, ...]
    is_label: bool = False
    repetition: int = 1
    second: str | None = None

    @classmethod
    def of(cls, case: Case, rubric: Rubric, answer: str, *, is_label: bool = False) -> JudgeRequest | None:
        """
        Return the request for an answer, or None if the rubric is not applicable to the question.

        :raises AssistantInputError: The column ``passages`` does not hold texts.
        """
        # A built-in rubric gets only the texts that it is about; a rubric of the user gets all of them.
        is_of_user = rubric.reference is None
        needs_expected = rubric.reference == "expected"
        needs_passages = rubric.reference == "passages"
        expected = None
        if is_of_user or needs_expected:
            expected = case.expected
        passages: tuple[str, ...] = ()
        if is_of_user or needs_passages:
            passages = _passages(case)
        if needs_expected and expected is None:
            return None
        if needs_passages and not passages:
            return None
        return cls(
            key=case.key,
            rubric=rubric,
            question=case.message,
            answer=answer,
            expected=expected,
            passages=passages,
            is_label=is_label,
            repetition=case.repetition,
        )

    def content_hash(self, model: str) -> str:
        """Return the hash of everything that the verdict depends on."""
        rubric = self.rubric
        # Do not change this list: a retry finds the saved verdicts by their hashes.
        parts: list[Any] = [
            self.question,
            self.answer,
            self.expected,
            self.passages,
            rubric.name,
            rubric.text,
            model,
        ]
        if self.second is not None:
            parts.append(self.second)
        parts.append(PROMPT_VERSION)
        content = json.dumps(parts).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def call(self, model: str) -> Call[Verdict]:
        """Return the API call: ``POST …/chat/completions`` with temperature 0."""
        is_pair = self.second is not None
        prompt = PAIR if is_pair else ANSWER
        body = {
            "model": model,
            "temperature": 0,
            "messages": [
                {"role": "system", "content": prompt.system.format(rubric=self.rubric.text)},
                {"role": "user", "content": json.dumps(self._payload(), ensure_ascii=False)},
            ],
            "response_format": prompt.response_format,
        }
        subject = f"{self.rubric.scorer} of question {self.key!r}"
        parse = parse_preference if is_pair else parse_verdict
        return Call(
            endpoint=ENDPOINT,
            method="POST",
            path="/chat/completions",
            subject=subject,
            parse=parse,
            json=body,
            idempotent=True,
        )

    def _payload(self) -> dict[str, Any]:
        if self.second is None:
            payload: dict[str, Any] = {"question": self.question, "answer": self.answer}
        else:
            payload = {"question": self.question, "first": self.answer, "second": self.second}
        if self.expected is not None:
            payload["expected"] = self.expected
        if self.passages:
            payload["passages"] = self.passages
        return payload


def parse_verdict(body: Any, _: CallInfo) -> Verdict:
    """
    Return the verdict on one answer in a chat completion.

    :raises AssistantResponseError: The body is not a chat completion, or its text is not a verdict.
    """
    reply, usage = _reply(body, _AnswerReply)
    return _verdict(reply.score, reply.verdict, reply.reason, usage)


def parse_preference(body: Any, _: CallInfo) -> Verdict:
    """
    Return the verdict on two answers in a chat completion.

    :raises AssistantResponseError: The body is not a chat completion, or its text does not name the better answer.
    """
    reply, usage = _reply(body, _PairReply)
    return _verdict(PREFERENCES[reply.better], reply.better, reply.reason, usage)


def _reply(body: Any, kind: type[_Reply]) -> tuple[_Reply, _Usage]:
    """Return the object in the text of a chat completion, and the tokens that it cost."""
    try:
        completion = _Completion.model_validate(body)
    except ValidationError as error:
        reason = _first_reason(error)
        raise AssistantResponseError(f"a body that is not a chat completion: {reason}") from None
    message = completion.choices[0].message
    if message.refusal:
        raise AssistantResponseError(f"the model refused to judge: {message.refusal[:REASON_LENGTH]!r}")
    try:
        json_text = _json_in(message.content or "")
        reply = kind.model_validate(strict_json.loads(json_text))
    except ValidationError as error:
        reason = _first_reason(error)
        raise AssistantResponseError(f"the reply of the model is not a verdict: {reason}") from None
    except ValueError as error:
        raise AssistantResponseError(f"the reply of the model is not a verdict: {error}") from None
    return reply, completion.usage or _Usage()


def _verdict(score: float, verdict: Any, reason: str, usage: _Usage) -> Verdict:
    return Verdict(
        score=score,
        verdict=verdict,
        reason=reason[:REASON_LENGTH],
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
    )


def _json_in(text: str) -> str:
    """Return the JSON object in a text: hosts that ignore the schema often wrap it into a Markdown block."""
    start = text.find("{")
    if start < 0:
        return text
    # The last brace: a reason may contain others.
    end = text.rfind("}")
    return text[start : end + 1]


def _first_reason(error: ValidationError) -> str:
    # Without the input: it may hold a user's data.
    details = error.errors(include_input=False, include_url=False)[0]
    message: str = details["msg"]
    field = ".".join(str(name) for name in details["loc"])
    if not field:
        return message
    return f"{field}: {message}"


def _passages(case: Case) -> tuple[str, ...]:
    given = case.row.get("passages")
    if is_missing(given):
        return ()
    texts = given
    if isinstance(given, str):
        texts = [given]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise AssistantInputError(
            f"question {case.key!r}: passages must be a text or a list of texts, not {type(given).__name__}",
            field="passages",
        )
    return tuple(text for text in texts if text.strip())
