"""Ratings of answers: the words that the service accepts, and its reply."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_assistant.api.fields import find, is_acknowledgement, layers
from airflow_provider_assistant.api.replies import ApiReply, find_request_id
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError

# The words that the service is known to accept.
RATING_WORDS = ("good", "bad")


@dataclass(frozen=True, slots=True)
class RatingReply(ApiReply):
    """Reply of ``POST …/chat/feedback``."""

    @property
    def is_repeated(self) -> bool:
        """
        Whether the request had been rated before, so that the service did not accept this rating.

        A service may answer the first rating of a request with ``status``, ``request_id``, ``feedback`` and the time of
        the rating, and further ones without the time. A reply of another shape is taken for an accepted rating.
        """
        is_rating = find(self.raw, "feedback") and find_request_id(self.raw)
        return bool(is_rating) and self.has_result and not self._has_time

    @property
    def has_result(self) -> bool:
        """Whether the reply says that the rating was accepted; an error may repeat the rating."""
        status = find(self.raw, "status")
        return status is not None and is_acknowledgement(status)

    @property
    def has_sure_result(self) -> bool:
        """Always False: no field of a reply that says that the call failed shows that the rating was accepted."""
        return False

    @property
    def _has_time(self) -> bool:
        fields = [field for json_object in layers(self.raw) for field in json_object.items()]
        return any(value and (name.endswith("_at") or name in {"timestamp", "time", "date"}) for name, value in fields)


def check_rating(word: str, *, field: str = "feedback") -> None:
    """
    Check that a word is a rating of the service, before anything is sent.

    :param field: Parameter with the word, for the message.
    :raises AssistantInputError: It is another word.
    """
    if word not in RATING_WORDS:
        raise AssistantInputError(
            f"{field}: {word!r} is not a rating that the service accepts, only {' and '.join(RATING_WORDS)}",
            safe=NOTHING_SENT,
            field=field,
        )
