"""Reduce the matrix of scores to named figures, with their changes since the earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.compare import change, newly_failing, worse_questions
from airflow_provider_assistant.evaluation.rules import (
    AGREEMENT,
    COVERAGE,
    LATENCY,
    NEWLY_FAILING,
    PASS_RATE,
    QUANTILES,
    Condition,
    Rule,
    is_share,
)
from airflow_provider_assistant.evaluation.summary import Agreement, Change, Deciding, Figure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.scores import Scores


class EarlierScores(NamedTuple):
    """
    The scores of an earlier run, for the questions of this one.

    :param is_compared: Whether this run is compared with it; one that got worse is not.
    :param other_judges: Judges that had another model, rubric or prompt.
    """

    scores: Scores
    is_compared: bool = True
    other_judges: frozenset[str] = frozenset()


class Parts(NamedTuple):
    """
    The values that a figure is the mean of, one per question, or one per unit for the pass rate.

    :param expected: Which of them should have a value.
    """

    keys: Sequence[str]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    expected: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Figures:
    """
    All figures of a run.

    :param earlier: The earlier runs, latest first.
    :param removed: Number of questions that only the latest compared one has.
    :param agreements: Agreement with people by judge.
    """

    scores: Scores
    scorers: Sequence[Scorer]
    pass_if: Condition | None = None
    earlier: Sequence[EarlierScores] = ()
    removed: int = 0
    agreements: Mapping[str, Agreement] = field(default_factory=dict)

    @property
    def tags(self) -> list[str]:
        """The tags of all questions, in alphabetical order."""
        return sorted({tag for tags in self.scores.questions.tags for tag in tags})

    def compute(self, rules: Sequence[Rule]) -> dict[str, Figure]:
        """Return all figures by name. Changes of tags are computed for the rules that limit them."""
        names = [COVERAGE, *([PASS_RATE] if self.pass_if else []), *(scorer.name for scorer in self.scorers)]
        limited = {rule.figure for rule in rules if rule.is_drop}
        figures = {}
        for name in names:
            parts = self.parts(name)
            figures[name] = self._figure(name, parts, None, with_change=True)
            for tag in self.tags:
                tagged = f"{name}[{tag}]"
                figures[tagged] = self._figure(name, parts, tag, with_change=tagged in limited)
        figures |= self._quantiles()
        if (failing := self.newly_failing()) is not None:
            figures[NEWLY_FAILING] = Figure(value=len(failing), count=len(failing), expected=len(failing))
        for name, agreement in self.agreements.items():
            # The lower end of the interval is the agreement that is proven.
            labels = agreement.labels
            figures[f"{name} {AGREEMENT}"] = Figure(value=agreement.low, count=labels, expected=labels)
        return figures

    def parts(self, name: str) -> Parts:
        """Return the values that a figure without quantile is the mean of."""
        import numpy as np

        questions = self.scores.questions
        if name == PASS_RATE and self.pass_if:
            values = self._by_unit(self.scores, name)
            return Parts(questions.units, values, np.ones(len(values)), self._should_be_judged(self.pass_if))
        if name == COVERAGE:
            values = self.scores.question_means(self.scores.is_answered.astype(float))
            return Parts(questions.keys, values, np.ones(len(values)), np.ones(len(values), dtype=bool))
        values = self.scores.question_means(self.scores.seconds if name == LATENCY else self.scores.values[name])
        is_expected = np.zeros(len(values), dtype=bool)
        if name in self.scores.measured:
            is_expected = self.scores.question_means(self.scores.is_answered.astype(float)) > 0
        return Parts(questions.keys, values, questions.weights, is_expected)

    def losses(self, rule: Rule) -> list[Deciding]:
        """Return the questions and conversations that are worse than in every compared run, worst first."""
        import numpy as np

        runs = [run for run in self._runs_with(rule.base) if run.is_compared]
        if not runs:
            return []
        mask = self._mask(rule.base, rule.tag, by_unit=True)
        now = np.where(mask, self._by_unit(self.scores, rule.base), np.nan)
        earlier = np.array([self._by_unit(run.scores, rule.base) for run in runs])
        found = worse_questions(now, earlier, higher_is_better=self.higher_is_better(rule.base))
        keys = self.scores.questions.units
        return [Deciding(key=keys[number], value=value, before=before) for number, value, before in found]

    def failing(self) -> list[str] | None:
        """Return the questions and conversations of which a repetition does not pass; None without a condition."""
        if self.pass_if is None:
            return None
        passed = self._by_unit(self.scores, PASS_RATE).tolist()
        return [key for key, share in zip(self.scores.questions.units, passed, strict=True) if share < 1]

    def newly_failing(self) -> list[str] | None:
        """Return the questions that usually passed and do not pass now; None without earlier runs to say so."""
        import numpy as np

        runs = [run for run in self._runs_with(PASS_RATE) if run.is_compared]
        if self.pass_if is None or not runs:
            return None
        earlier = np.array([self._by_unit(run.scores, PASS_RATE) for run in runs])
        positions = newly_failing(self._by_unit(self.scores, PASS_RATE), earlier)
        return [self.scores.questions.units[position] for position in positions]

    def higher_is_better(self, name: str) -> bool:
        """Return whether a higher value of a figure is better."""
        return next((scorer.higher_is_better for scorer in self.scorers if scorer.name == name), True)

    def tagged(self, tag: str | None, *, by_unit: bool) -> NDArray[np.bool_]:
        """Return which questions or units have a tag, or all; of a conversation, one question with it is enough."""
        import numpy as np

        questions = self.scores.questions
        has_tag = questions.with_tag(tag)
        if not by_unit:
            return has_tag
        return np.bincount(questions.unit_of, weights=has_tag, minlength=len(questions.units)) > 0

    def _mask(self, name: str, tag: str | None, *, by_unit: bool) -> NDArray[np.bool_]:
        return self.tagged(tag, by_unit=by_unit or name == PASS_RATE)

    def _figure(self, name: str, parts: Parts, tag: str | None, *, with_change: bool) -> Figure:
        import numpy as np

        chosen = self._mask(name, tag, by_unit=False)
        is_known = ~np.isnan(parts.values) & chosen
        value = None
        if is_known.any():
            value = float(np.average(parts.values[is_known], weights=parts.weights[is_known]))
        return Figure(
            value=value,
            count=int(is_known.sum()),
            expected=int((is_known | (parts.expected & chosen)).sum()),
            change=self._change(name, tag) if with_change else None,
        )

    def _change(self, name: str, tag: str | None) -> Change | None:
        import numpy as np

        runs = self._runs_with(name)
        if not any(run.is_compared for run in runs):
            return None
        questions = self.scores.questions
        mask = self._mask(name, tag, by_unit=True)
        now = self._by_unit(self.scores, name)
        weights = np.ones(len(now))
        if name not in {PASS_RATE, COVERAGE}:
            weights = questions.unit_weights(self.scores.question_means(self.scores.values[name]))
        return change(
            now[mask],
            np.array([self._by_unit(run.scores, name)[mask] for run in runs]),
            [run.is_compared for run in runs],
            weights[mask],
            is_share=is_share(name),
            removed=self.removed if tag is None else 0,
        )

    def _runs_with(self, name: str) -> list[EarlierScores]:
        """Return the earlier runs that have a comparable figure."""
        needed = {name} - {COVERAGE, PASS_RATE}
        if name == PASS_RATE and self.pass_if:
            needed = set(self.pass_if.names)
        return [run for run in self.earlier if needed <= run.scores.values.keys() and not needed & run.other_judges]

    def _by_unit(self, scores: Scores, name: str) -> NDArray[np.float64]:
        """Return the values of a figure in this run or an earlier one, one per question or conversation."""
        if name == PASS_RATE and self.pass_if:
            return scores.units_passed(scores.passed(self.pass_if))
        values = scores.is_answered.astype(float) if name == COVERAGE else scores.values[name]
        return scores.questions.unit_means(scores.question_means(values))

    def _should_be_judged(self, pass_if: Condition) -> NDArray[np.bool_]:
        """Return which units have all answers, but lack a measured value that the condition needs."""
        import numpy as np

        scores, questions = self.scores, self.scores.questions
        lacks = np.zeros(len(scores.question_of), dtype=bool)
        for name in scores.measured & set(pass_if.names):
            lacks |= np.isnan(scores.values[name])
        units = questions.unit_of[scores.question_of]
        unanswered = np.bincount(units, weights=~scores.is_answered, minlength=len(questions.units))
        is_lacking: NDArray[np.bool_] = np.bincount(units, weights=lacks, minlength=len(questions.units)) > 0
        is_lacking &= unanswered == 0
        return is_lacking

    def _quantiles(self) -> dict[str, Figure]:
        import numpy as np

        seconds = self.scores.seconds[~np.isnan(self.scores.seconds)]
        answered = int(self.scores.is_answered.sum())
        figures = {}
        for quantile in QUANTILES:
            value = float(np.percentile(seconds, int(quantile[1:]))) if len(seconds) else None
            figures[f"{LATENCY} {quantile}"] = Figure(value=value, count=len(seconds), expected=answered)
        return figures
