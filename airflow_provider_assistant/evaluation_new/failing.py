"""The questions that failed and what they failed: the one selection for report, JUnit, log and terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation_new.golden import Case
    from airflow_provider_assistant.evaluation_new.run import Evaluation


@dataclass(frozen=True, slots=True)
class FailingTurn:
    """
    A question, or a turn of a conversation.

    :param reasons: What it failed, such as ``must_include >= 1: 0``. Empty for a turn that did not fail.
    """

    case: Case
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class FailingQuestion:
    """
    A question that failed; of a conversation, all its turns.

    :param is_new: Whether it usually passed before.
    """

    turns: Sequence[FailingTurn]
    is_new: bool

    @property
    def key(self) -> str:
        """Key of the question, or of the first turn."""
        return self.turns[0].case.key


def failing_questions(evaluation: Evaluation, limit: int) -> tuple[list[FailingQuestion], int]:
    """
    Return the failing questions, newly failing ones first, and how many more there are.

    If there are too many, each failed rule keeps its worst questions.
    """
    raise NotImplementedError


def failing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each of the first failing questions: its key, its text, and what it failed."""
    raise NotImplementedError
