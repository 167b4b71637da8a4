"""Decide whether the status of an async chat request means pending, complete or failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_assistant import strict_json

State = Literal["pending", "complete", "failed"]


def words_of(value: Any) -> Any:
    """
    Return the words of a setting that is a text, such as ``done, finished`` or ``["done"]``.

    :param value: The setting; one that is not a text stays as it is.
    :raises ValueError: The text begins like JSON and is not JSON.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text.startswith(("[", "{", '"', "'")):
        return [part for part in re.split(r"[\s,;]+", text) if part]
    try:
        words = strict_json.loads(text)
    except ValueError:
        raise ValueError("must be words separated by commas, or a JSON list of them") from None
    return [words] if isinstance(words, str) else words


def word(text: str) -> str:
    """
    Return a word of a setting.

    :raises ValueError: It is empty, or has brackets or quotation marks, which belong to a list.
    """
    if not text.strip() or set(text) & set('[]{}"'):
        raise ValueError("must be a word without brackets and quotation marks")
    return text


def folded(word: str) -> str:
    """Return a status word without case, spaces, hyphens and underscores, to compare it."""
    return re.sub(r"[\s_-]+", "", word).casefold()


@dataclass(frozen=True, slots=True)
class StatusMapping:
    """
    Status words that end polling; every other word means that the chat request is pending.

    The API's specification names the two final states but not their exact words, so a connection can add more.

    :param complete: Words for a request that has its answer.
    :param failed: Words for a request that will not get an answer.
    """

    complete: frozenset[str] = frozenset({"complete", "completed", "succeeded"})
    failed: frozenset[str] = frozenset(
        {"failed", "failure", "error", "cancelled", "canceled", "rejected", "expired", "timedout", "timeout", "aborted"}
    )

    def extended(self, complete: Iterable[str] = (), failed: Iterable[str] = ()) -> StatusMapping:
        """Return these words with more added; a word that is added to one set is removed from the other."""
        more_complete = frozenset(map(folded, complete))
        more_failed = frozenset(map(folded, failed))
        return StatusMapping(
            complete=(self.complete - more_failed) | more_complete,
            failed=(self.failed - more_complete) | more_failed,
        )

    def state(self, status: str) -> State:
        """Return the state that a status word means."""
        word = folded(status)
        if word in self.complete:
            return "complete"
        return "failed" if word in self.failed else "pending"
