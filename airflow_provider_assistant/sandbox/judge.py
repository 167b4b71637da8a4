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
_PLACES = ("first", "second")
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
    prompt, question = _messages(body)
    verdict = _verdict(question, service.settings.judge_position_bias)
    wanted = {name: verdict[name] for name in _wanted(body, verdict)}
    text = json.dumps(wanted, ensure_ascii=False)
    sent = len(prompt) // _CHARACTERS_PER_TOKEN + 1
    received = len(text) // _CHARACTERS_PER_TOKEN + 1
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-sandbox",
        "object": "chat.completion",
        "created": int(service.clock()),
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": received,
            "total_tokens": sent + received,
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
    expected, passages = question.get("expected"), question.get("passages")
    if expected:
        return _overlap(str(expected), answer, answer, is_negated=bool(_NEGATION.search(answer)))
    if passages:
        # Passages say more than one answer, so a negation in them need not be about it.
        is_negated = bool(_NEGATION.search(answer))
        text = " ".join(map(str, passages))
        return _overlap(answer, text, answer, is_negated=is_negated and bool(_NEGATION.search(text)))
    rude = _RUDE.findall(answer) or [word for word in answer.split() if len(word) > 4 and word.isupper()]
    if rude:
        return 0.0, f"The answer is not polite: it says {_quoted(str(rude[0]))}."
    return 1.0, f"The answer says {_quoted(answer)}, which is polite."


def compare(question: dict[str, Any], position_bias: float = 0.0) -> tuple[str, str]:
    """Return which of two answers is better, ``first``, ``second`` or ``tie``, and the reason.

    The better answer is the one with the higher score of :func:`judge`, by at least 0.05.

    :param question: ``first``, ``second``, and optionally ``expected``.
    :param position_bias: what the first answer gets on top of its score.
    """
    scores, reasons = zip(*(judge({**question, "answer": question[place]}) for place in _PLACES), strict=True)
    lead = scores[0] + position_bias - scores[1]
    better = "tie" if abs(lead) < SAME_BELOW else "first" if lead > 0 else "second"
    return better, f"First: {reasons[0]} Second: {reasons[1]}"


def _verdict(question: dict[str, Any], position_bias: float) -> dict[str, Any]:
    """Return the properties of the reply."""
    if "answer" not in question:
        better, reason = compare(question, position_bias)
        return {"reason": reason, "better": better}
    score, reason = judge(question)
    return {"reason": reason, "score": score, "verdict": "pass" if score >= PASSES_FROM else "fail"}


def _overlap(wanted: str, text: str, answer: str, *, is_negated: bool) -> tuple[float, str]:
    """Return the share of the content words of one text that another one has, and the reason."""
    beginning = f"The answer says {_quoted(answer)}"
    words = search.terms(wanted)
    there = set(search.terms(text))
    missing = [word for word in words if word not in there]
    score = 1 - len(missing) / len(words) if words else 1.0
    numbers = set(_NUMBER.findall(wanted)) - set(_NUMBER.findall(text))
    if numbers:
        return min(score, WRONG_FACT), f"{beginning}; {min(numbers)} is in only one of the two texts."
    if bool(_NEGATION.search(wanted)) != is_negated:
        return min(score, WRONG_FACT), f"{beginning}; only one of the two texts has a negation."
    if missing:
        return round(score, 4), f"{beginning}; these words are missing: {', '.join(missing[:5])}."
    return 1.0, f"{beginning}; no word is missing."


def _quoted(text: str) -> str:
    words = " ".join(text.split())
    return f'"{words[:80]}{"…" if len(words) > 80 else ""}"'


def _messages(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the whole prompt, and the JSON object in the last user message."""
    try:
        texts = [(message["role"], message["content"]) for message in body["messages"]]
        last = [text for role, text in texts if role == "user"][-1]
        question = from_json(last)
        _ = [question[name] for name in (("answer",) if "answer" in question else _PLACES)]
    except (KeyError, IndexError, TypeError, ValueError):
        message = "This model only judges: the last user message must be a JSON object with an answer, or with two."
        raise ApiError(400, message, code="invalid_field", field="messages") from None
    return "\n".join(str(text) for _, text in texts), question


def _wanted(body: dict[str, Any], verdict: dict[str, Any]) -> list[str]:
    """Return the properties that the JSON schema of the request requires, if the verdict has them."""
    try:
        wanted = list(body["response_format"]["json_schema"]["schema"]["required"])
    except (KeyError, TypeError):
        wanted = []
    if not wanted or set(wanted) - set(verdict):
        message = f"This model needs a JSON schema in response_format, with {', '.join(verdict)}."
        raise ApiError(400, message, code="invalid_field", field="response_format")
    return wanted
