"""Is an async chat request complete, failed or still going: the one place that decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["pending", "complete", "failed"]


@dataclass(frozen=True, slots=True)
class StatusWords:
    """
    The words that end polling; every other word means "still going" (specification, section 3).

    The specification names the two terminal states but not their exact strings, so spelling is
    compared without regard to case, and a connection may add words of its own.

    :param complete: Words for a request that has its answer.
    :param failed: Words for a request that will never have one.
    """

    complete: frozenset[str] = frozenset({"complete", "completed", "succeeded"})
    failed: frozenset[str] = frozenset({"failed", "failure", "error"})

    def extended(self, complete: Iterable[str] = (), failed: Iterable[str] = ()) -> StatusWords:
        """Return these words and more; a word added to one set leaves the other."""
        more_complete = {_folded(word) for word in complete}
        more_failed = {_folded(word) for word in failed}
        return StatusWords(
            complete=(self.complete - more_failed) | more_complete,
            failed=(self.failed - more_complete) | more_failed,
        )

    def state(self, status: str) -> State:
        """Return the state that a status word stands for."""
        word = _folded(status)
        if word in self.complete:
            return "complete"
        if word in self.failed:
            return "failed"
        return "pending"


def _folded(word: str) -> str:
    return word.strip().casefold()
