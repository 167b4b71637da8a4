"""The gate: compare each figure with its limit, and say which questions decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_assistant.evaluation.compare import Loss, loss_of
from airflow_provider_assistant.evaluation.figures import Figures
from airflow_provider_assistant.evaluation.rules import (
    COVERAGE,
    NEWLY_FAILING,
    OF_PASSING,
    PASS_RATE,
    Condition,
    Rule,
    is_share,
    judges_of,
    parse_rule,
)
from airflow_provider_assistant.evaluation.summary import NAMED, Change, Deciding, Figure, RuleVerdict, Verdict
from airflow_provider_assistant.texts import counted

# Share of the questions that must be answered, measured and compared, if the gate has no rule on coverage.
ENOUGH = 0.9
# A loss that a comparison of values from 0 to 1 should be able to show.
NOTABLE_LOSS = 0.1


def check_gate(rules: Sequence[Rule], figures: Mapping[str, Figure], source: Figures) -> list[RuleVerdict]:
    """
    Return the verdict on each rule, in the order of the rules.

    A rule without data fails, because what was not judged could hide the opposite. Without a rule on ``coverage``, the
    gate also fails if less than 90 % of the questions have an answer. A rule that relies on a judge that does not agree
    with people is ``not_judged``, and so is a comparison on the first run.

    :param source: Where the figures come from, and their questions.
    """
    gate = _Gate(rules, figures, source)
    verdicts = [gate.check(rule) for rule in rules]
    if rules and not any(rule.figure == COVERAGE for rule in rules):
        coverage = gate.check(parse_rule(f"{COVERAGE} >= {ENOUGH}"))
        if coverage.verdict == "failed":
            reason = f"{coverage.reason}; this rule applies because the gate has none on coverage"
            verdicts.append(coverage.model_copy(update={"reason": reason}))
    return verdicts


class _Gate:
    def __init__(self, rules: Sequence[Rule], figures: Mapping[str, Figure], source: Figures) -> None:
        self.figures = figures
        self.source = source
        self.drops = sum(rule.is_drop for rule in rules)
        coverage = [rule.term.limit for rule in rules if rule.figure == COVERAGE and not rule.is_drop]
        self.enough = coverage[0] if coverage else ENOUGH
        agreements = [rule for rule in rules if rule.is_agreement]
        self.disagreeing = {rule.base for rule in agreements if self._agreement(rule).verdict == "failed"}

    def check(self, rule: Rule) -> RuleVerdict:
        """Return the verdict on a rule, with the questions that decided it."""
        disagreeing = [judge for judge in judges_of(rule, self.source.pass_if) if judge in self.disagreeing]
        if rule.is_agreement:
            return self._agreement(rule)
        if disagreeing:
            return _verdict(rule, "not_judged", None, f"{disagreeing[0]} does not agree enough with people")
        verdict = self._drop(rule) if rule.is_drop else self._value(rule)
        if verdict.verdict not in {"failed", "not_proven"}:
            return verdict
        deciding = self._deciding(rule)
        return verdict.model_copy(update={"questions": deciding[:NAMED], "deciding": len(deciding)})

    def _value(self, rule: Rule) -> RuleVerdict:
        """Compare a figure with its limit."""
        if rule.tag is not None and rule.tag not in self.source.tags:
            return _no_data(rule, f"no question has the tag {rule.tag!r}")
        figure = self.figures.get(rule.figure)
        if rule.figure == NEWLY_FAILING and figure is None:
            return _verdict(rule, "not_judged", None, self._without_runs(rule))
        if figure is None or figure.value is None:
            return _no_data(rule, "no answer has a value")
        if figure.count < self.enough * figure.expected:
            return _no_data(
                rule,
                f"only {figure.count} of {counted(figure.expected, 'question')} have a value; necessary: "
                f"{100 * self.enough:g} %",
            )
        verdict: Verdict = "passed" if rule.term.holds(figure.value) else "failed"
        return _verdict(rule, verdict, figure.value, f"{rule.figure} is {formatted(figure.value, rule.term.limit)}")

    def _drop(self, rule: Rule) -> RuleVerdict:
        """Compare a loss with its limit: it fails only by more than chance explains."""
        if rule.tag is not None and rule.tag not in self.source.tags:
            return _no_data(rule, f"no question has the tag {rule.tag!r}")
        change = self.figures[rule.figure].change
        if change is None:
            return _verdict(rule, "not_judged", None, self._without_runs(rule))
        if change.questions < min(self.enough, ENOUGH) * change.comparable:
            return _no_data(
                rule,
                f"only {change.questions} of {counted(change.comparable, 'question')} can be compared with the earlier "
                "runs. After a change of the golden set on purpose, the next run compares with this one",
            )
        loss = loss_of(change, higher_is_better=self.source.higher_is_better(rule.base), drops=self.drops)
        if loss is None:
            return _verdict(rule, "too_few", None, f"{counted(change.questions, 'question')} in common is too few")
        return verdict_on_loss(rule, loss, _moved(rule, change))

    def _agreement(self, rule: Rule) -> RuleVerdict:
        """Compare the lower end of the interval of kappa with its limit."""
        found = self.source.agreements.get(rule.base)
        labels = found.labels if found else 0
        if found is None or labels < rule.labels:
            return _no_data(rule, f"{counted(labels, 'label')} of people, and {rule.labels} are necessary")
        if found.kappa is None or found.low is None or found.high is None:
            return _no_data(
                rule, f"people and judge gave {counted(labels, 'answer')} the same verdict; kappa is not defined"
            )
        reason = (
            f"Cohen's kappa of {rule.base} and people is {found.kappa:.2f} over {counted(labels, 'label')}, and at "
            f"least {formatted(found.low, rule.term.limit)} with 95 % confidence"
        )
        return _verdict(rule, "passed" if rule.term.holds(found.low) else "failed", found.low, reason)

    def _deciding(self, rule: Rule) -> list[Deciding]:
        """Return the questions that decided a rule, worst first."""
        if rule.is_drop:
            return self.source.losses(rule)
        newly_failing = self.source.newly_failing() or []
        if rule.figure == NEWLY_FAILING:
            return [Deciding(key=key, value=0.0, before=1.0) for key in newly_failing]
        parts = self.source.parts(rule.base)
        chosen = self.source.tagged(rule.tag, by_unit=rule.base == PASS_RATE)
        by_key = zip(parts.keys, parts.values.tolist(), chosen.tolist(), strict=True)
        known = [(key, value) for key, value, is_chosen in by_key if is_chosen and value == value]  # noqa: PLR0124 (NaN)
        if rule.base in {PASS_RATE, COVERAGE}:
            is_new = dict.fromkeys(newly_failing, 1.0)
            failing = [Deciding(key=key, value=value, before=is_new.get(key)) for key, value in known if value < 1]
            return sorted(failing, key=lambda one: (one.before is None, one.value))
        wrong = [Deciding(key=key, value=value) for key, value in known if not rule.term.holds(value)]
        return sorted(wrong, key=lambda one: one.value or 0.0, reverse=rule.term.is_upper)

    def _without_runs(self, rule: Rule) -> str:
        """Return why there is nothing to compare with."""
        if not self.source.earlier:
            return "there is no earlier run yet; the next run compares with this one"
        names = scorers_of_rule(rule, self.source.pass_if)
        other = {name for run in self.source.earlier for name in run.other_judges & set(names)}
        if other:
            return f"the earlier runs had another model, rubric or prompt for {', '.join(sorted(other))}"
        return f"the earlier runs were not scored with {', '.join(names)}, or share no question with this one"


def scorers_of_rule(rule: Rule, pass_if: Condition | None) -> list[str]:
    """Return the scorers that decide a rule."""
    return pass_if.names if pass_if and rule.base in OF_PASSING else [rule.base]


def _verdict(rule: Rule, verdict: Verdict, value: float | None, reason: str, *, is_worse: bool = False) -> RuleVerdict:
    return RuleVerdict(
        rule=rule.text, figure=rule.figure, verdict=verdict, value=value, reason=reason, is_worse=is_worse
    )


def verdict_on_loss(rule: Rule, loss: Loss, moved: str) -> RuleVerdict:
    """Return the verdict on a rule that limits a loss: it fails only by more than chance explains."""
    is_over = not rule.term.holds(loss.value)
    if is_over and (proof := _proof(rule, loss)):
        return _verdict(rule, "failed", loss.value, f"{moved}; {proof}", is_worse=True)
    if loss.by_chance > max(rule.term.limit, NOTABLE_LOSS if is_share(rule.base) else 0.0):
        reason = f"{moved}; a loss of up to {loss.by_chance:.4f} would not be noticed"
        return _verdict(rule, "too_few", loss.value, reason)
    if is_over:
        reason = f"{moved}; chance explains a loss of up to {loss.by_chance:.4f}"
        return _verdict(rule, "not_proven", loss.value, reason)
    return _verdict(rule, "passed", loss.value, moved)


def _proof(rule: Rule, loss: Loss) -> str | None:
    """Return why a loss is more than chance, or None."""
    if loss.value > loss.by_chance:
        return f"chance explains a loss of {loss.by_chance:.4f} at most"
    three = loss.three_nights
    if three is None or not loss.is_itself_worse or rule.term.holds(three) or three <= loss.three_nights_by_chance:
        return None
    return (
        f"the last three runs together lost {three:.4f}, and chance explains {loss.three_nights_by_chance:.4f} at most"
    )


def _no_data(rule: Rule, reason: str) -> RuleVerdict:
    return _verdict(rule, "failed", None, f"no data: {reason}")


def _moved(rule: Rule, change: Change) -> str:
    moved = "did not change"
    if change.mean:
        moved = f"{'rose' if change.mean > 0 else 'fell'} by {abs(change.mean):.4f}"
    return (
        f"{rule.figure} {moved} (95 %: {change.low:+.4f} to {change.high:+.4f}) over "
        f"{counted(change.questions, 'question')}, compared with {counted(change.runs, 'earlier run')}"
    )


def formatted(value: float, limit: float) -> str:
    """Format a number with enough digits to distinguish it from a limit."""
    is_equal = abs(value - limit) <= 1e-9
    for digits in range(4, 10):
        text = f"{value:.{digits}g}"
        if is_equal or float(text) != limit:
            break
    return text
