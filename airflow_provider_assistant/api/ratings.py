"""Ratings of answers: the words that the service accepts, and its reply."""

from __future__ import annotations

from airflow_provider_assistant.api.fields import find, is_acknowledgement, layers
from airflow_provider_assistant.api.replies import ApiReply, find_request_id
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError

# The words that the service is known to accept.
RATING_WORDS = ("good", "bad")


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
        is_accepted = is_acknowledgement(find(self.raw, "status") or "")
        has_time = any(
            value and (name.endswith("_at") or name in {"timestamp", "time", "date"})
            for json_object in layers(self.raw)
            for name, value in json_object.items()
        )
        return bool(is_rating) and is_accepted and not has_time

    @property
    def has_result(self) -> bool:
        """Always False: no field of a reply that reports an error shows that the rating was accepted."""
        return False


def check_rating(word: str, *, field: str = "feedback") -> None:
    """Check that a word is a rating of the service, before anything is sent; an error names the parameter."""
    if word not in RATING_WORDS:
        raise AssistantInputError(
            f"{field}: {word!r} is not a rating that the service accepts, only {' and '.join(RATING_WORDS)}",
            safe=NOTHING_SENT,
            field=field,
        )
