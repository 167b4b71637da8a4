"""The gate: compare each figure with its limit, and say which questions decided."""

from __future__ import annotations

import math

from airflow_provider_assistant.evaluation.compare import ITSELF_WORSE, by_chance
from airflow_provider_assistant.evaluation.figures import Figures
from airflow_provider_assistant.evaluation.rules import (
    COVERAGE,
    NEWLY_FAILING,
    PASS_RATE,
    Rule,
    is_share,
    parse_rule,
)
from airflow_provider_assistant.evaluation.summary import Change, Deciding, RuleVerdict, Verdict
from airflow_provider_assistant.texts import counted

# Share of the questions that must be answered, measured and compared, if the gate has no rule on coverage.
ENOUGH = 0.9
# A loss that a comparison of values from 0 to 1 should be able to show.
NOTABLE_LOSS = 0.1
_AFTER_A_CHANGE = "After a change of the golden set on purpose, the next run compares with this one"


def check_gate(figures: Figures) -> list[RuleVerdict]:
    """
    Return the verdict on each rule, in the order of the rules, with all questions that decided.

    A rule without data fails, because what was not judged could hide the opposite. Without a rule on ``coverage``, the
    gate also fails if less than 90 % of the questions have an answer, in all or with a tag that a rule names. A rule
    that relies on a judge that does not agree with people is ``not_judged``, and so is a comparison on the first run.
    With runs that share no question, it fails.
    """
    rules = figures.criteria.rules
    verdicts = [_check(rule, figures) for rule in rules]
    # A drop does not say how many answers are enough.
    limited = {rule.figure for rule in rules if not rule.is_drop}
    tags = dict.fromkeys(rule.tag for rule in rules if rule.tag in figures.tags)
    names = [COVERAGE, *(f"{COVERAGE}[{tag}]" for tag in tags)]
    unlimited = [name for name in names if name not in limited]
    for name in unlimited if rules else ():
        coverage = _check(parse_rule(f"{name} >= {min(_enough(figures), ENOUGH)}"), figures)
        if coverage.verdict == "failed":
            reason = f"{coverage.reason}; this rule applies because the gate has none on {name}"
            verdicts.append(coverage.model_copy(update={"reason": reason}))
    return verdicts


def _check(rule: Rule, figures: Figures) -> RuleVerdict:
    """Return the verdict on a rule, with the questions that decided it."""
    if rule.is_agreement:
        return _check_agreement(rule, figures)
    judges = figures.criteria.judges_of(rule)
    for agreement in figures.criteria.rules:
        is_needed = agreement.is_agreement and agreement.base in judges
        if is_needed and _check_agreement(agreement, figures).verdict == "failed":
            return _verdict(rule, "not_judged", None, f"{agreement.base} does not agree enough with people")
    if rule.tag is not None and rule.tag not in figures.tags:
        return _no_data(rule, f"no question has the tag {rule.tag!r}")
    verdict = _check_drop(rule, figures) if rule.is_drop else _check_value(rule, figures)
    if verdict.verdict not in {"failed", "not_proven"}:
        return verdict
    deciding = figures.losses(rule) if rule.is_drop else _deciding(rule, figures)
    return verdict.model_copy(update={"questions": deciding, "deciding": len(deciding)})


def _check_value(rule: Rule, figures: Figures) -> RuleVerdict:
    """Compare a figure with its limit."""
    figure = figures.by_name.get(rule.figure)
    if rule.figure == NEWLY_FAILING and figure is None:
        return _not_compared(rule, figures)
    if figure is None or figure.value is None:
        return _no_data(rule, "no answer has a value")
    enough = _enough(figures)
    if figure.count < enough * figure.expected:
        questions = counted(figure.expected, "question")
        return _no_data(rule, f"only {figure.count} of {questions} have a value; necessary: {100 * enough:g} %")
    verdict: Verdict = "passed" if rule.term.holds(figure.value) else "failed"
    return _verdict(rule, verdict, figure.value, f"{rule.figure} is {formatted(figure.value, rule.term.limit)}")


def _check_drop(rule: Rule, figures: Figures) -> RuleVerdict:
    """Compare a loss with its limit: it fails only by more than chance explains."""
    change = figures.by_name[rule.figure].change
    if change is None:
        return _not_compared(rule, figures)
    if change.questions < min(_enough(figures), ENOUGH) * change.comparable:
        return _no_data(
            rule,
            f"only {change.questions} of {counted(change.comparable, 'question')} can be compared with the earlier "
            f"runs. {_AFTER_A_CHANGE}",
        )
    drops = sum(one.is_drop for one in figures.criteria.rules)
    return verdict_on_loss(rule, change, higher_is_better=figures.higher_is_better(rule.base), drops=drops)


def verdict_on_loss(rule: Rule, change: Change, *, higher_is_better: bool = True, drops: int = 1) -> RuleVerdict:
    """
    Return the verdict on a rule that limits a loss.

    :param drops: Number of rules in the gate that limit a loss, which share the false alarms.
    """
    questions = counted(change.questions, "question")
    if change.standard_error is None:
        return _verdict(rule, "too_few", None, f"{questions} in common is too few")
    moved = "did not change"
    if change.mean:
        moved = f"{'rose' if change.mean > 0 else 'fell'} by {abs(change.mean):.4f}"
    moved = (
        f"{rule.figure} {moved} (95 %: {change.low:+.4f} to {change.high:+.4f}) over {questions}, compared with "
        f"{counted(change.runs, 'earlier run')}"
    )
    sign = -1 if higher_is_better else 1
    # Added to zero: a loss of -0.0 would be shown.
    loss = sign * change.mean + 0.0
    explained = by_chance(change.standard_error, drops=drops, is_one_night=True)
    is_over = not rule.term.holds(loss)
    if is_over and loss > explained:
        reason = f"{moved}; chance explains a loss of {explained:.4f} at most"
        return _verdict(rule, "failed", loss, reason, is_worse=True)
    is_itself_worse = loss > ITSELF_WORSE * change.standard_error
    if is_over and is_itself_worse and change.three_nights is not None and change.three_nights_error is not None:
        together = sign * change.three_nights
        explained_together = by_chance(change.three_nights_error, drops=drops, is_one_night=False)
        if not rule.term.holds(together) and together > explained_together:
            reason = (
                f"{moved}; the last three runs together lost {together:.4f}, and chance explains "
                f"{explained_together:.4f} at most"
            )
            return _verdict(rule, "failed", loss, reason, is_worse=True)
    if explained > max(rule.term.limit, NOTABLE_LOSS if is_share(rule.base) else 0.0):
        return _verdict(rule, "too_few", loss, f"{moved}; a loss of up to {explained:.4f} would not be noticed")
    if is_over:
        return _verdict(rule, "not_proven", loss, f"{moved}; chance explains a loss of up to {explained:.4f}")
    return _verdict(rule, "passed", loss, moved)


def _check_agreement(rule: Rule, figures: Figures) -> RuleVerdict:
    """Compare the lower end of the interval of kappa with its limit."""
    found = figures.agreements.get(rule.base)
    labels = found.labels if found else 0
    if found is None or labels < rule.labels:
        return _no_data(rule, f"{counted(labels, 'label')} of people, and {rule.labels} are necessary")
    if found.kappa is None or found.low is None:
        return _no_data(
            rule, f"people and judge gave {counted(labels, 'answer')} the same verdict; kappa is not defined"
        )
    reason = (
        f"Cohen's kappa of {rule.base} and people is {found.kappa:.2f} over {counted(labels, 'label')}, and at "
        f"least {formatted(found.low, rule.term.limit)} with 95 % confidence"
    )
    return _verdict(rule, "passed" if rule.term.holds(found.low) else "failed", found.low, reason)


def _deciding(rule: Rule, figures: Figures) -> list[Deciding]:
    """Return the questions that decided a rule on a value, worst first."""
    newly_failing = figures.newly_failing or []
    if rule.figure == NEWLY_FAILING:
        return [Deciding(key=key, value=0.0, before=1.0) for key in newly_failing]
    values = figures.by_unit(figures.scores, rule.base, rule.tag).values.tolist()
    by_key = dict(zip(figures.scores.questions.units, values, strict=True))
    if rule.base in {PASS_RATE, COVERAGE}:
        before = dict.fromkeys(newly_failing, 1.0)
        failing = [Deciding(key=key, value=value, before=before.get(key)) for key, value in by_key.items() if value < 1]
        # Those that passed before come first.
        return sorted(failing, key=lambda one: (one.before is None, one.value))
    wrong = []
    for key, value in by_key.items():
        if not math.isnan(value) and not rule.term.holds(value):
            wrong.append(Deciding(key=key, value=value))
    return sorted(wrong, key=lambda one: one.value or 0.0, reverse=rule.term.is_upper)


def _enough(figures: Figures) -> float:
    """Return the share of the questions that must have a value."""
    limits = [rule.term.limit for rule in figures.criteria.rules if rule.figure == COVERAGE and not rule.is_drop]
    return limits[0] if limits else ENOUGH


def _not_compared(rule: Rule, figures: Figures) -> RuleVerdict:
    """Return the verdict on a comparison without anything to compare with."""
    if figures.compared(rule.base):
        return _no_data(rule, f"the earlier runs share no question that has a value with this one. {_AFTER_A_CHANGE}")
    names = figures.criteria.scorers_of(rule.base)
    changed = {name for one in figures.earlier for name in figures.changed_judges(one, names)}
    if not figures.earlier:
        reason = "there is no earlier run yet; the next run compares with this one"
    elif changed:
        reason = f"the earlier runs had another model, rubric or prompt for {', '.join(sorted(changed))}"
    else:
        reason = f"the earlier runs have no {rule.base}"
    return _verdict(rule, "not_judged", None, reason)


def _verdict(rule: Rule, verdict: Verdict, value: float | None, reason: str, *, is_worse: bool = False) -> RuleVerdict:
    return RuleVerdict(
        rule=rule.text, figure=rule.figure, verdict=verdict, value=value, reason=reason, is_worse=is_worse
    )


def _no_data(rule: Rule, reason: str) -> RuleVerdict:
    return _verdict(rule, "failed", None, f"no data: {reason}")


def formatted(value: float, limit: float) -> str:
    """Format a number with enough digits to distinguish it from a limit."""
    is_equal = abs(value - limit) <= 1e-9
    text = f"{value:.4g}"
    return text if is_equal or float(text) != limit else f"{value:.9g}"
