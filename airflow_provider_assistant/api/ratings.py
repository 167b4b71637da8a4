"""Ratings of answers: the words that the service accepts, and its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.api.json_objects import (
    is_acknowledgement,
    nested_objects,
    reply_objects,
    text_of,
)
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError

# The words that the service is known to accept.
RATING_WORDS = ("good", "bad")
# Last part of the names of fields with a time, such as ``feedback_submitted_at``, and whole names.
TIME_ENDING = "_at"
TIME_NAMES = frozenset({"timestamp", "time", "date"})


@dataclass(frozen=True, slots=True)
class RatingReply(ApiReply):
    """
    Reply of ``POST …/chat/feedback``.

    :param raw: The JSON as received; None if the body was empty.
    :param call_info: Status, number of attempts and duration of the call.
    """

    @property
    def is_repeated(self) -> bool:
        """
        Whether the request had been rated before, so that the service did not accept this rating.

        A service may answer the first rating of a request with ``status``, ``request_id``, ``feedback``
        and the time of the rating, and further ones without the time. A reply of another shape, such as
        an empty one, or one with any time, is taken for an accepted rating.
        """
        objects = nested_objects(self.raw)
        has_rating = any(_is_rating(json_object) for json_object in objects)
        has_status = any(_is_ok(json_object) for json_object in objects)
        has_time = any(_has_time(json_object) for json_object in objects)
        return has_rating and has_status and not has_time

    @property
    def has_result(self) -> bool:
        """Whether the reply says that the rating was accepted; an error may repeat the rating."""
        return any(_is_ok(json_object) for json_object in reply_objects(self.raw))

    @property
    def has_sure_result(self) -> bool:
        """Always False: no field of a reply that says that the call failed shows that the rating was accepted."""
        return False


def check_rating(word: str, words: Sequence[str], *, field: str = "feedback") -> None:
    """
    Check that a word is a rating of the service, before anything is sent.

    :param word: The rating.
    :param words: The words that the service accepts, from the connection.
    :param field: Parameter with the word, for the message.
    :raises AssistantInputError: It is another word.
    """
    if word in words:
        return
    raise AssistantInputError(
        f"{field}: {word!r} is not a rating that the service accepts, only {', '.join(words)}",
        safe=NOTHING_SENT,
        todo="Use one of these words. If the service accepts others, name all of them in rating_words of the "
        "Airflow connection.",
        field=field,
    )


def _is_rating(json_object: Mapping[str, Any]) -> bool:
    return bool(text_of(json_object.get("feedback")) and text_of(json_object.get("request_id")))


def _is_ok(json_object: Mapping[str, Any]) -> bool:
    status = json_object.get("status")
    return isinstance(status, str) and is_acknowledgement(status)


def _has_time(json_object: Mapping[str, Any]) -> bool:
    for name, value in json_object.items():
        is_time = name.endswith(TIME_ENDING) or name in TIME_NAMES
        if is_time and value is not None:
            return True
    return False
