"""Compare an evaluation with earlier ones, question by question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun
from airflow_provider_assistant.evaluation.change import NO_CHANGE, TOGETHER, mean_change, student_quantile
from airflow_provider_assistant.evaluation.rules import COVERAGE, LATENCY, PASS_RATE, Condition
from airflow_provider_assistant.evaluation.run_values import RunValues
from airflow_provider_assistant.evaluation.statistics import CONFIDENCE
from airflow_provider_assistant.evaluation.summary import Change, Comparison, Difference
from airflow_provider_assistant.evaluation.verdict import NAMED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.units import Unit

# Share of the runs in which a question passed that usually passes. One bad night does not change what is usual.
USUALLY = 0.9


class _Figure(NamedTuple):
    """
    A figure that is compared.

    :param largest: Size of a change if no question ever changed, see :func:`.mean_change`.
    :param values_of: Function that returns the values of a run, or None if the run does not have comparable ones.
    """

    higher_is_better: bool
    largest: float
    values_of: Callable[[RunValues], NDArray[np.float64] | None]


class _Values(NamedTuple):
    """
    The values of one figure, a column per question. NaN is not known.

    :param now: Those of this run.
    :param earlier: Those of the runs to compare with, latest first.
    :param last: Those of the last two runs before this one.
    :param older: Those of ``earlier`` from before these two runs.
    """

    now: NDArray[np.float64]
    earlier: NDArray[np.float64]
    last: NDArray[np.float64]
    older: NDArray[np.float64]

    def only(self, columns: NDArray[np.bool_]) -> _Values:
        """Return the values of some of the questions."""
        return _Values(self.now[columns], self.earlier[:, columns], self.last[:, columns], self.older[:, columns])


class Compared(NamedTuple):
    """
    The result of a comparison.

    :param losses: Questions that got worse by figure, largest loss first. These are all of them; those of
        ``comparison`` are the first.
    :param newly_failing: Keys of the questions that passed in nine of ten earlier evaluations, and do not pass now;
        None without a condition for passing.
    """

    comparison: Comparison
    losses: Mapping[str, Sequence[Change]]
    newly_failing: Sequence[str] | None


def compare(
    run: EarlierRun,
    units: Sequence[Unit],
    baseline: Baseline,
    scorers: Sequence[Scorer],
    pass_if: Condition | None = None,
) -> Compared:
    """
    Compare the values of unchanged questions with their means in earlier evaluations.

    Questions whose text or expectations have changed are counted but not compared. Weights and tags are those of the
    new evaluation. Repetitions of a question and turns of a conversation are not independent, so each question and each
    conversation counts once, with its mean. An answer on which a scorer failed counts as the worst, in every run.

    :param run: The new evaluation.
    :param units: Its questions and conversations.
    :param scorers: The scorers to compare. Those that no earlier evaluation had are left out.
    :param pass_if: Condition for passing. Default: None, the pass rate is not compared.
    """
    import numpy as np

    now = RunValues(run, units)
    earlier = [RunValues(earlier_run, units) for earlier_run in baseline.runs]
    compared = [earlier_run for earlier_run in earlier if earlier_run.run.is_compared]
    latest = compared[0]
    all_tags = sorted({tag for unit in units for tag in unit.tags})
    columns_by_tag = {tag: np.array([tag in unit.tags for unit in units]) for tag in all_tags}
    differences: dict[str, Difference] = {}
    differences_by_tag: dict[str, dict[str, Difference]] = {tag: {} for tag in all_tags}
    changed = []
    losses = {}
    newly_failing = None
    for name, figure in _figures(scorers, pass_if, now).items():
        values = _values(figure, now, earlier)
        if values is None:
            if any(name in earlier_run.scorers for earlier_run in compared):
                changed.append(name)
            continue
        losses[name], _ = _changes(values, units, figure)
        differences[name] = _difference(values, units, figure, removed=latest.removed(name))
        for tag, columns in columns_by_tag.items():
            tagged_units = [unit for unit in units if tag in unit.tags]
            tagged = _difference(values.only(columns), tagged_units, figure)
            differences_by_tag[tag][name] = tagged.model_copy(update={"worst": [], "best": []})
        if name == PASS_RATE:
            newly_failing = _newly_failing(values, units)
    comparison = Comparison(
        baseline=dict(baseline.about),
        confidence=CONFIDENCE,
        **_counts(now, latest),
        coverage_before=latest.answered_share,
        scorers={scorer.name: differences[scorer.name] for scorer in scorers if scorer.name in differences},
        runs=len(compared),
        passes=differences.get(PASS_RATE),
        coverage=differences[COVERAGE],
        tags=differences_by_tag,
        changed_judges=[name for name in changed if name != LATENCY],
        changed_latency=LATENCY in changed,
    )
    return Compared(comparison, losses, newly_failing)


def _counts(now: RunValues, latest: RunValues) -> dict[str, int]:
    """Return how many questions are the same as in the latest run, changed, added and removed."""
    digests, latest_digests = now.digests, latest.digests
    common_keys = digests.keys() & latest_digests.keys()
    same = sum(digests[key] == latest_digests[key] for key in common_keys)
    return {
        "same": same,
        "changed": len(common_keys) - same,
        "added": len(digests.keys() - common_keys),
        "removed": len(latest_digests.keys() - common_keys),
    }


def _figures(scorers: Sequence[Scorer], pass_if: Condition | None, now: RunValues) -> dict[str, _Figure]:
    """Return the figures that are compared: the scorers, the coverage and the pass rate."""
    figures = {}
    for scorer in scorers:
        figures[scorer.name] = _scorer_figure(scorer, now)
    figures[COVERAGE] = _Figure(higher_is_better=True, largest=1.0, values_of=RunValues.coverage)
    if pass_if:
        figures[PASS_RATE] = _passes_figure(pass_if)
    return figures


def _scorer_figure(scorer: Scorer, now: RunValues) -> _Figure:
    judge = now.run.judges.get(scorer.name)

    def values_of(run: RunValues) -> NDArray[np.float64] | None:
        if scorer.name not in run.scorers:
            return None
        if scorer.name == LATENCY and run.latency_source != now.latency_source:
            return None
        if judge and not judge.judges_like(run.run.judges.get(scorer.name)):
            return None
        return run.scores_of(scorer.name, scorer.worst)

    return _Figure(scorer.higher_is_better, largest=float(scorer.is_share), values_of=values_of)


def _passes_figure(pass_if: Condition) -> _Figure:
    def values_of(run: RunValues) -> NDArray[np.float64] | None:
        return run.passes(pass_if) if run.scorers.issuperset(pass_if.names) else None

    return _Figure(higher_is_better=True, largest=1.0, values_of=values_of)


def _values(figure: _Figure, now: RunValues, earlier: Sequence[RunValues]) -> _Values | None:
    """Return the values of a figure; None if no run to compare with has comparable ones."""
    import numpy as np

    earlier_rows, last_rows, older_rows = [], [], []
    for position, run in enumerate(earlier):
        row = figure.values_of(run)
        if row is None:
            continue
        is_last = position < TOGETHER - 1
        if is_last:
            last_rows.append(row)
        if run.run.is_compared:
            earlier_rows.append(row)
            if not is_last:
                older_rows.append(row)
    row_now = figure.values_of(now)
    if row_now is None or not earlier_rows:
        return None
    size = len(row_now)
    return _Values(
        now=row_now,
        earlier=np.array(earlier_rows),
        last=np.array(last_rows).reshape(-1, size),
        older=np.array(older_rows).reshape(-1, size),
    )


def _difference(values: _Values, units: Sequence[Unit], figure: _Figure, *, removed: int = 0) -> Difference:
    """
    Return the figures of the differences.

    :param removed: Number of questions that only the latest run has.
    """
    import numpy as np

    weights = np.array([unit.weight for unit in units])
    change = mean_change(values.now, values.earlier, values.last, values.older, weights, largest=figure.largest)
    low = high = None
    if change.mean is not None and change.error is not None and change.freedom is not None:
        half_width = student_quantile((1 + CONFIDENCE) / 2, change.freedom) * change.error
        low, high = change.mean - half_width, change.mean + half_width
        if figure.largest:
            # Shares cannot change by more.
            low, high = max(low, -figure.largest), min(high, figure.largest)
    worse, better = _changes(values, units, figure)
    was_scored = ~np.isnan(values.earlier[0])
    return Difference(
        paired=change.compared,
        comparable=int((was_scored | ~np.isnan(values.now)).sum()) + removed,
        mean=change.mean,
        low=low,
        high=high,
        error=change.error,
        freedom=change.freedom,
        together=change.together,
        together_error=change.together_error,
        worse=len(worse),
        better=len(better),
        unchanged=change.compared - len(worse) - len(better),
        worst=worse[:NAMED],
        best=better[:NAMED],
    )


def _changes(values: _Values, units: Sequence[Unit], figure: _Figure) -> tuple[list[Change], list[Change]]:
    """Return the questions that are worse, and those that are better, than in every earlier run; largest first."""
    import numpy as np

    # Unlike np.nanmin, these do not warn about a question without an earlier value.
    lowest = np.fmin.reduce(values.earlier, axis=0)
    highest = np.fmax.reduce(values.earlier, axis=0)
    is_lower = values.now < lowest - NO_CHANGE
    is_higher = values.now > highest + NO_CHANGE
    falls: list[Change] = []
    rises: list[Change] = []
    for position in np.flatnonzero(is_lower | is_higher).tolist():
        before = float(np.nanmean(values.earlier[:, position]))
        change = Change(key=units[position].key, before=before, after=float(values.now[position]))
        (falls if is_lower[position] else rises).append(change)
    falls.sort(key=_size_and_key)
    rises.sort(key=_size_and_key)
    return (falls, rises) if figure.higher_is_better else (rises, falls)


def _size_and_key(change: Change) -> tuple[float, str]:
    return -abs(change.after - change.before), change.key


def _newly_failing(values: _Values, units: Sequence[Unit]) -> list[str]:
    """Return the questions that usually passed and do not pass now."""
    import numpy as np

    is_known = ~np.isnan(values.earlier)
    passes = ((values.earlier == 1) & is_known).sum(axis=0)
    runs = is_known.sum(axis=0)
    positions = np.flatnonzero((runs > 0) & (passes >= USUALLY * runs) & (values.now < 1))
    return [units[position].key for position in positions.tolist()]
