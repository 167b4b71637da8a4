"""Scorers: functions that turn an answer into a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.evaluation_new.golden import Case


@dataclass(frozen=True, slots=True)
class Scorer:
    """
    A scorer, a column of the matrix.

    :param score: Function that scores an answer; it returns None if the scorer is not applicable. A judge has none.
    :param is_share: Whether scores are from 0 to 1.
    :param is_measured: Whether every answer should have a value, such as its latency.
    """

    name: str
    score: Callable[[Case], float | bool | None] | None
    higher_is_better: bool = True
    is_share: bool = True
    is_measured: bool = False

    @property
    def worst(self) -> float:
        """The score of an answer that cannot be scored."""
        return 0.0 if self.higher_is_better else 1.0

    @property
    def is_judge(self) -> bool:
        """Whether the scorer asks a model."""
        return self.score is None


def scorers_of(names: Sequence[str], refusal_phrases: Sequence[str] = ()) -> list[Scorer]:
    """
    Return the scorers of the given names.

    :param names: Names in ``SCORERS``, ``column:<name>``, judges such as ``judge.correctness``, or dotted paths of
        functions ``score(question, expected, answer, row)``.
    :param refusal_phrases: Further sentences with which the assistant refuses. Default: none.
    """
    raise NotImplementedError
