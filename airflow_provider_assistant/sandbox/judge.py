"""A judge behind OpenAI's ``POST /v1/chat/completions``: it compares words, so the same request gets the same verdict.

It shares no code with the client. Like a model, it sees the messages only: a user message with a JSON object, and the
JSON schema that the reply must have.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import APIRouter, Request
from pydantic_core import from_json

from airflow_provider_assistant.sandbox import search
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.requests import Embedded, read_object

PASSES_FROM = 0.6
# The most that an answer gets if a number or a negation is wrong, however many words it shares.
WRONG_FACT = 0.3
# A smaller lead of an answer is a tie.
SAME_BELOW = 0.05
_COMPARED = ("first", "second")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NEGATION = re.compile(r"\b(?:not|no|never|cannot|without|nicht|kein\w*|nie)\b|n[’']t\b", re.IGNORECASE)  # noqa: RUF001
_RUDE = re.compile(r"\b(?:stupid|idiot\w*|dumb|shut up|nonsense|obviously|your (?:own )?fault)\b|!!", re.IGNORECASE)
_CHARACTERS_PER_TOKEN = 4


router = APIRouter()


@router.post("/chat/completions")
async def complete_chat(request: Request, service: Embedded) -> dict[str, Any]:
    """Judge the answer in the last user message, or compare its two answers."""
    body = await read_object(request)
    if not isinstance(body.get("model"), str):
        raise ApiError(400, "model is required.", code="missing_field", field="model")
    prompt, question = _prompt_and_question(body)
    verdict = _verdict(question, service.settings.judge_position_bias)
    reply = {name: verdict[name] for name in _required_properties(body, verdict)}
    text = json.dumps(reply, ensure_ascii=False)
    prompt_tokens = len(prompt) // _CHARACTERS_PER_TOKEN + 1
    completion_tokens = len(text) // _CHARACTERS_PER_TOKEN + 1
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-sandbox",
        "object": "chat.completion",
        "created": int(service.clock()),
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def judge(question: dict[str, Any]) -> tuple[float, str]:
    """Return the score of an answer, from 0 to 1, and the reason.

    With ``expected``, the score is the share of its content words that the answer has; with ``passages``, the share of
    the answer's content words that the passages have. A number or a negation that differs limits it to 0.3. Without
    both, only rude words and shouting lower it.

    :param question: ``answer``, and optionally ``expected`` or ``passages``.
    """
    answer = str(question["answer"])
    is_negated = bool(_NEGATION.search(answer))
    expected = question.get("expected")
    if expected:
        return _overlap(
            wanted=str(expected),
            text=answer,
            answer=answer,
            is_text_negated=is_negated,
        )
    passages = question.get("passages")
    if passages:
        text = " ".join(map(str, passages))
        # Passages say more than one answer, so a negation in them need not be about it.
        # They count as negated only if the answer is negated, too.
        is_text_negated = is_negated and bool(_NEGATION.search(text))
        return _overlap(wanted=answer, text=text, answer=answer, is_text_negated=is_text_negated)
    rude_words = _RUDE.findall(answer)
    if not rude_words:
        rude_words = [word for word in answer.split() if len(word) > 4 and word.isupper()]
    if rude_words:
        return 0.0, f"The answer is not polite: it says {_quoted(str(rude_words[0]))}."
    return 1.0, f"The answer says {_quoted(answer)}, which is polite."


def compare(question: dict[str, Any], position_bias: float = 0.0) -> tuple[str, str]:
    """Return which of two answers is better, ``first``, ``second`` or ``tie``, and the reason.

    The better answer is the one with the higher score of :func:`judge`, by at least 0.05.

    :param question: ``first``, ``second``, and optionally ``expected``.
    :param position_bias: what the first answer gets on top of its score.
    """
    first_score, first_reason = judge({**question, "answer": question["first"]})
    second_score, second_reason = judge({**question, "answer": question["second"]})
    lead_of_first = first_score + position_bias - second_score
    if abs(lead_of_first) < SAME_BELOW:
        better = "tie"
    elif lead_of_first > 0:
        better = "first"
    else:
        better = "second"
    return better, f"First: {first_reason} Second: {second_reason}"


def _verdict(question: dict[str, Any], position_bias: float) -> dict[str, Any]:
    """Return the properties of the reply."""
    if "answer" not in question:
        better, reason = compare(question, position_bias)
        return {"reason": reason, "better": better}
    score, reason = judge(question)
    verdict = "fail"
    if score >= PASSES_FROM:
        verdict = "pass"
    return {"reason": reason, "score": score, "verdict": verdict}


def _overlap(
    *,
    wanted: str,
    text: str,
    answer: str,
    is_text_negated: bool,
) -> tuple[float, str]:
    """Return the share of the content words of ``wanted`` that ``text`` has, and the reason.

    :param answer: which of the two is the answer; the reason quotes it.
    """
    beginning = f"The answer says {_quoted(answer)}"
    wanted_words = search.terms(wanted)
    text_words = set(search.terms(text))
    missing_words = [word for word in wanted_words if word not in text_words]
    score = 1.0
    if wanted_words:
        score = 1 - len(missing_words) / len(wanted_words)
    missing_numbers = set(_NUMBER.findall(wanted)) - set(_NUMBER.findall(text))
    if missing_numbers:
        number = min(missing_numbers)
        return min(score, WRONG_FACT), f"{beginning}; {number} is in only one of the two texts."
    is_wanted_negated = bool(_NEGATION.search(wanted))
    if is_wanted_negated != is_text_negated:
        return min(score, WRONG_FACT), f"{beginning}; only one of the two texts has a negation."
    if missing_words:
        listed = ", ".join(missing_words[:5])
        return round(score, 4), f"{beginning}; these words are missing: {listed}."
    return 1.0, f"{beginning}; no word is missing."


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > 80:
        line = line[:80] + "…"
    return f'"{line}"'


def _prompt_and_question(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the whole prompt, and the JSON object in the last user message."""
    try:
        messages = [(message["role"], message["content"]) for message in body["messages"]]
        user_texts = [text for role, text in messages if role == "user"]
        question = from_json(user_texts[-1])
        answer_names: tuple[str, ...] = _COMPARED
        if "answer" in question:
            answer_names = ("answer",)
        for name in answer_names:
            question[name]  # raises an error if it is missing, or if this is not an object
    except (KeyError, IndexError, TypeError, ValueError):
        message = "This model only judges: the last user message must be a JSON object with an answer, or with two."
        raise ApiError(400, message, code="invalid_field", field="messages") from None
    prompt = "\n".join(str(text) for _, text in messages)
    return prompt, question


def _required_properties(body: dict[str, Any], verdict: dict[str, Any]) -> list[str]:
    """Return the properties that the JSON schema of the request requires, if the verdict has them."""
    try:
        required = list(body["response_format"]["json_schema"]["schema"]["required"])
    except (KeyError, TypeError):
        required = []
    if not required or set(required) - set(verdict):
        message = f"This model needs a JSON schema in response_format, with {', '.join(verdict)}."
        raise ApiError(400, message, code="invalid_field", field="response_format")
    return required
