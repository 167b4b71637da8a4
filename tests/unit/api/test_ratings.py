"""Ratings: the words of the service, and whether its reply means that a request had been rated before."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.ratings import RatingReply, check_rating
from airflow_provider_assistant.exceptions import AssistantInputError

RATED = {"status": "ok", "request_id": "req_1", "feedback": "good"}
TIME = "2026-11-25T10:00:00Z"


@pytest.mark.parametrize(
    ("raw", "is_repeated"),
    [
        (RATED, True),
        ({**RATED, "feedback": "bad", "request_id": 7}, True),
        ({**RATED, "status": "Success"}, True),
        ({**RATED, "feedback_submitted_at": None}, True),
        ({"status": "ok", "data": {"request_id": "r", "feedback": "good"}}, True),
        ({**RATED, "feedback_submitted_at": TIME}, False),
        ({**RATED, "created_at": TIME}, False),
        ({**RATED, "timestamp": 1764000000}, False),
        ({"status": "ok", "created_at": TIME, "data": {"request_id": "r", "feedback": "good"}}, False),
        ({"feedback_id": "f", "request_id": "r", "feedback": "good"}, False),
        ({"status": "stored", "request_id": "r", "feedback": "good"}, False),
        ({"status": "ok", "request_id": "r"}, False),
        ({"status": "ok", "feedback": "good"}, False),
        ({"status": "ok"}, False),
        ({}, False),
        (None, False),
        ([RATED], False),
        ("ok", False),
        ({**RATED, "feedback": {"word": "good"}}, False),
    ],
)
def test_only_a_reply_with_the_rating_and_without_a_time_is_repeated(raw: Any, is_repeated: bool) -> None:
    assert RatingReply(raw, CallInfo(200)).is_repeated is is_repeated


@pytest.mark.parametrize("word", ["Good", "good ", "great"])
def test_another_word_is_an_input_error_that_names_the_words(word: str) -> None:
    with pytest.raises(AssistantInputError, match=f"{word!r} is not a rating .* only good and bad") as error:
        check_rating(word, field="rules")
    assert error.value.field == "rules"
    assert "Nothing" in (error.value.safe or "")
