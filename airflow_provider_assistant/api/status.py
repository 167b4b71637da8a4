"""Decide whether the status of an async chat request means pending, complete or failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, cast

State = Literal["pending", "complete", "failed"]


def words_of(value: Any) -> Any:
    """Return the words of a setting that is a text, such as ``done, finished`` or ``["done"]``."""
    return re.findall(r"""[^\s,;"'\[\]]+""", value) if isinstance(value, str) else value


def folded(word: str) -> str:
    """Return a status word without case, spaces, hyphens and underscores, to compare it."""
    return re.sub(r"[\s_-]+", "", word).casefold()


@dataclass(frozen=True, slots=True)
class Words:
    """Status words by what they mean, compared as :func:`folded` returns them."""

    def extended(self, **words: Iterable[str]) -> Self:
        """Return these words with more added, by the name of their set; they are removed from the other sets."""
        added = {name: frozenset(map(folded, more)) for name, more in words.items()}
        all_added = frozenset().union(*added.values())
        sets = {}
        for field in fields(self):
            kept = getattr(self, field.name) - all_added
            sets[field.name] = kept | added.get(field.name, frozenset())
        return type(self)(**sets)

    def meaning(self, word: str) -> str | None:
        """Return the name of the set that has a word; None if none has it."""
        word = folded(word)
        return next((one.name for one in fields(self) if word in getattr(self, one.name)), None)


@dataclass(frozen=True, slots=True)
class StatusMapping(Words):
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

    def state(self, status: str) -> State:
        """Return the state that a status word means."""
        return cast("State", self.meaning(status) or "pending")
