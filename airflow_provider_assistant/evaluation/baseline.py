"""What an evaluation is compared with: the runs before it, or one chosen evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.judge_summary import JudgeSummary


class EarlierRun(NamedTuple):
    """
    An earlier evaluation.

    :param scores: Its table of scores.
    :param judges: Its judges by scorer. Default: none are known, so no judge is compared.
    :param is_compared: Whether the evaluation is compared with it. A run that got worse is not, but it is one of the
        last runs.
    """

    scores: pa.Table
    judges: Mapping[str, JudgeSummary] = MappingProxyType({})
    is_compared: bool = True


class Baseline(NamedTuple):
    """
    The earlier evaluations to compare with.

    :param runs: The evaluations, latest first. At least one is compared.
    :param about: ``path``, ``name``, ``run_id``, ``tag`` and ``asked_at`` of the latest one that is compared, see
        :class:`~airflow_provider_assistant.evaluation.summary.Comparison`.
    :param cases: Its questions with their answers, for the report. Default: not known.
    """

    runs: Sequence[EarlierRun]
    about: Mapping[str, str | None]
    cases: Sequence[Case] = ()

    @property
    def compared(self) -> list[EarlierRun]:
        """The runs that are compared, latest first."""
        return [run for run in self.runs if run.is_compared]


def compared_runs(are_worse: Iterable[bool]) -> Iterator[bool]:
    """
    Yield for each earlier run, latest first, whether to compare with it.

    Runs are chosen by whether they got worse, not by whether they passed: of the runs that passed, chance would choose
    the lucky ones. A run that got worse is left out, unless the runs beside it did not: then it was chance. As long as
    answers stay worse, they are compared with those before the loss.

    :param are_worse: Whether each run got worse, latest first.
    """
    # The verdict on the run after the last one is not known yet.
    later_is_worse = True
    for is_worse, earlier_is_worse in pairwise(chain(are_worse, [False])):
        yield not (is_worse and (later_is_worse or earlier_is_worse))
        later_is_worse = is_worse
