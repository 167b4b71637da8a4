"""Reduce the matrix of scores to named figures, with their changes since the earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.arrays import Floats, np
from airflow_provider_assistant.evaluation.compare import change, newly_failing, worse_questions
from airflow_provider_assistant.evaluation.rules import (
    AGREEMENT,
    COVERAGE,
    LATENCY,
    NEWLY_FAILING,
    PASS_RATE,
    QUANTILES,
    Criteria,
    Rule,
    is_share,
)
from airflow_provider_assistant.evaluation.summary import Agreement, Change, Deciding, Figure, JudgeFacts

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.runs import EarlierRun
    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.scores import Column, Scores


class Earlier(NamedTuple):
    """
    An earlier run, and its scores for the questions of this one.

    :param changed: Number of its questions whose text or expectations are different now.
    :param added: Number of the questions of this run that it does not have.
    :param removed: Number of its questions that this run does not have.
    """

    run: EarlierRun
    scores: Scores
    changed: int
    added: int
    removed: int


@dataclass(frozen=True)
class Figures:
    """
    The figures of a run. Their values are means of questions and conversations.

    :param earlier: The earlier runs, latest first.
    :param judges: What the judges are.
    :param agreements: Their agreement with people.
    """

    scores: Scores
    scorers: Sequence[Scorer]
    criteria: Criteria
    earlier: Sequence[Earlier] = ()
    judges: Mapping[str, JudgeFacts] = field(default_factory=dict)
    agreements: Mapping[str, Agreement] = field(default_factory=dict)

    @cached_property
    def tags(self) -> list[str]:
        """The tags of all questions, in alphabetical order."""
        return sorted({tag for tags in self.scores.questions.tags for tag in tags})

    @cached_property
    def by_name(self) -> dict[str, Figure]:
        """All figures. Changes of tags are computed for the rules that limit them."""
        pass_rate = [PASS_RATE] if self.criteria.pass_if else []
        limited = {rule.figure for rule in self.criteria.rules if rule.is_drop}
        figures = {}
        for name in (COVERAGE, *pass_rate, *(scorer.name for scorer in self.scorers)):
            figures[name] = self._figure(name, None, with_change=True)
            for tag in self.tags:
                tagged = f"{name}[{tag}]"
                figures[tagged] = self._figure(name, tag, with_change=tagged in limited)
        figures |= self._quantiles()
        if self.newly_failing is not None:
            # What could not be judged is not newly failing, which must not look like passing.
            figures[NEWLY_FAILING] = figures[PASS_RATE].model_copy(
                update={"value": float(len(self.newly_failing)), "change": None}
            )
        for name, agreement in self.agreements.items():
            # The lower end of the interval is the agreement that is proven.
            labels = agreement.labels
            figures[f"{name} {AGREEMENT}"] = Figure(value=agreement.low, count=labels, expected=labels)
        return figures

    @cached_property
    def failing(self) -> list[str] | None:
        """The questions and conversations of which a repetition does not pass; None without a condition."""
        if self.criteria.pass_if is None:
            return None
        passed = self.by_unit(self.scores, PASS_RATE).values.tolist()
        return [key for key, share in zip(self.scores.questions.units, passed, strict=True) if share < 1]

    @cached_property
    def newly_failing(self) -> list[str] | None:
        """The questions that usually passed and do not pass now; None if none was judged in an earlier run and now."""
        runs = self.compared(PASS_RATE)
        if self.criteria.pass_if is None or not runs:
            return None
        before = self._matrix(runs, PASS_RATE)
        now = self.by_unit(self.scores, PASS_RATE).values
        if np.isnan(before + now).all():
            return None
        return newly_failing(self.scores.questions.units, now, before)

    def losses(self, rule: Rule) -> list[Deciding]:
        """Return the questions and conversations that are worse than in every compared run, worst first."""
        runs = self.compared(rule.base)
        if not runs:
            return []
        now = self.by_unit(self.scores, rule.base, rule.tag).values
        return worse_questions(
            self.scores.questions.units,
            now,
            self._matrix(runs, rule.base, rule.tag),
            higher_is_better=self.higher_is_better(rule.base),
        )

    def higher_is_better(self, name: str) -> bool:
        """Return whether a higher value of a figure is better."""
        return next((scorer.higher_is_better for scorer in self.scorers if scorer.name == name), True)

    def by_unit(self, scores: Scores, name: str, tag: str | None = None) -> Column:
        """Return the values of a figure in this run or an earlier one, by question or conversation."""
        return scores.by_unit(name, tag, self.criteria.pass_if)

    def _matrix(self, runs: Sequence[Earlier], name: str, tag: str | None = None) -> Floats:
        """Return the values of a figure in earlier runs, a row per run."""
        return np.array([self.by_unit(one.scores, name, tag).values for one in runs])

    def _figure(self, name: str, tag: str | None, *, with_change: bool) -> Figure:
        values, weights, counts = self.by_unit(self.scores, name, tag)
        is_known = ~np.isnan(values)
        expected = counts.sum()
        if self.scores.measured & set(self.criteria.scorers_of(name)):
            # Every answer should have a measured value; a conversation is judged if all its turns are answered.
            complete = self.by_unit(self.scores, COVERAGE, tag).values == 1
            expected = (is_known | complete if name == PASS_RATE else self.scores.answered(tag)).sum()
        return Figure(
            value=float(np.average(values[is_known], weights=weights[is_known])) if is_known.any() else None,
            count=int(counts.sum()),
            expected=int(expected),
            change=self._change(name, tag) if with_change else None,
        )

    def _change(self, name: str, tag: str | None) -> Change | None:
        runs = self._runs_with(name)
        latest = next((one for one in runs if one.run.is_compared), None)
        if latest is None:
            return None
        now, weights, _ = self.by_unit(self.scores, name, tag)
        return change(
            now,
            self._matrix(runs, name, tag),
            [one.run.is_compared for one in runs],
            weights,
            is_share=is_share(name),
            removed=latest.removed if tag is None else 0,
        )

    def compared(self, name: str) -> list[Earlier]:
        """Return the earlier runs that a figure is compared with."""
        return [one for one in self._runs_with(name) if one.run.is_compared]

    def _runs_with(self, name: str) -> list[Earlier]:
        """Return the earlier runs that have a comparable figure."""
        needed = self.criteria.scorers_of(name)
        runs = [one for one in self.earlier if one.scores.values.keys() >= set(needed)]
        return [one for one in runs if not self.changed_judges(one, needed)]

    def changed_judges(self, one: Earlier, names: Sequence[str]) -> list[str]:
        """Return the judges that had another model, rubric or prompt in an earlier run."""
        before = one.run.summary.scorers
        changed = []
        for name in names:
            judge = before[name].judge if name in before else None
            if name in self.judges and (judge is None or judge.fingerprint != self.judges[name].fingerprint):
                changed.append(name)
        return changed

    def _quantiles(self) -> dict[str, Figure]:
        seconds = self.scores.seconds[~np.isnan(self.scores.seconds)]
        answered = int(self.scores.is_answered.sum())
        figures = {}
        for quantile in QUANTILES:
            value = float(np.percentile(seconds, int(quantile[1:]))) if len(seconds) else None
            figures[f"{LATENCY} {quantile}"] = Figure(value=value, count=len(seconds), expected=answered)
        return figures
