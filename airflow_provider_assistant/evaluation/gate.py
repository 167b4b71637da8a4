"""The gate: check the rules against the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from airflow_provider_assistant.evaluation.losses import check_compared, check_drop, check_newly_failing
from airflow_provider_assistant.evaluation.rule_verdicts import formatted, no_data, not_judged, subject, verdict_on
from airflow_provider_assistant.evaluation.rules import (
    COMPARED,
    COVERAGE,
    DISAGREEMENT,
    ERRORS,
    LATENCY,
    MEASURED,
    NEWLY_FAILING,
    NOTICED_AFTER,
    PASS_RATE,
    QUANTILES,
    TOLERANCE,
    WORST,
    Condition,
    Rule,
    judges_of,
    parse_rule,
)
from airflow_provider_assistant.evaluation.summary import PassRate, Summary, TagSummary
from airflow_provider_assistant.evaluation.verdict import RuleVerdict
from airflow_provider_assistant.texts import counted

# Share of the questions that must be answered, judged and compared, if the gate has no rule on it.
ENOUGH = 0.9


def check_rules(
    rules: Sequence[Rule],
    summary: Summary,
    pass_if: Condition | None = None,
) -> list[RuleVerdict]:
    """
    Return the verdict on each rule, in the order of ``rules``.

    A rule without data to judge fails. Only a comparison without a baseline is ``not_judged`` instead: on
    the first run, or with a scorer that the baseline did not have.

    What was not judged could hide the opposite of a verdict. So, without a rule on ``coverage``, the gate also fails if
    less than ``ENOUGH`` of the questions have an answer; without one on ``compared``, a comparison fails if less than
    that share was compared; and without one on ``errors``, a rule holds only if it also holds with the worst score for
    each answer on which a scorer failed. A rule on latency or confidence fails if too few answers have the value: less
    than the threshold of the rule on ``coverage``.

    The verdicts of a judge that does not agree with people decide nothing: the rule on its agreement fails, and the
    rules that rely on it are ``not_judged``.

    :param summary: The figures of the evaluation. Its gate is not read.
    """
    limits = _limits(rules, summary)
    verdicts = [_check(rule, summary, pass_if, limits) for rule in rules]
    if rules and not any(rule.name == COVERAGE for rule in rules):
        coverage = _check_value(parse_rule(f"{COVERAGE} >= {ENOUGH}"), summary, errors_fail=False)
        if coverage.verdict == "failed":
            reason = f"{coverage.reason}; this rule applies because the gate has none on coverage"
            verdicts.append(coverage.model_copy(update={"reason": reason}))
    return verdicts


def _check(rule: Rule, summary: Summary, pass_if: Condition | None, limits: _Limits) -> RuleVerdict:
    judges = [judge for judge in judges_of(rule, pass_if) if judge in limits.disagreeing_judges]
    if rule.is_agreement:
        verdict = _check_agreement(rule, summary)
    elif judges:
        reason = f"the agreement of {judges[0]} with people is not sufficient"
        verdict = not_judged(rule, reason)
    elif rule.is_drop:
        verdict = check_drop(rule, summary, drops=len(limits.compared_figures), enough=limits.enough_compared)
    elif rule.name == COMPARED:
        verdict = check_compared(rule, summary, limits.compared_figures)
    elif rule.name == NEWLY_FAILING:
        verdict = check_newly_failing(rule, summary)
    elif too_few := _too_few_judged(rule, summary, pass_if, limits.enough_answers):
        verdict = _check_noticed_after(rule, summary, too_few)
    else:
        verdict = _check_value(rule, summary, errors_fail=limits.errors_fail)
    return verdict


class _Limits(NamedTuple):
    """
    What the rules together mean for each of them.

    :param disagreeing_judges: Judges whose verdicts do not agree enough with those of people.
    :param compared_figures: The figure of each rule that limits a loss.
    :param enough_answers: Share of the answers that must be judged.
    :param enough_compared: Share of the questions that must be compared.
    :param errors_fail: Whether an answer on which a scorer failed counts as wrong.
    """

    disagreeing_judges: set[str]
    compared_figures: list[str]
    enough_answers: float
    enough_compared: float
    errors_fail: bool


def _limits(rules: Sequence[Rule], summary: Summary) -> _Limits:
    disagreeing_judges = set()
    for rule in rules:
        if rule.is_agreement and _check_agreement(rule, summary).verdict == "failed":
            disagreeing_judges.add(rule.name)
    enough_answers = _threshold(rules, COVERAGE, ENOUGH)
    return _Limits(
        disagreeing_judges=disagreeing_judges,
        compared_figures=[rule.name for rule in rules if rule.is_drop],
        enough_answers=enough_answers,
        enough_compared=_threshold(rules, COMPARED, min(enough_answers, ENOUGH)),
        errors_fail=not any(rule.name == ERRORS for rule in rules),
    )


def verdict_of(verdicts: Sequence[RuleVerdict]) -> Literal["passed", "failed", "none"]:
    """Return the verdict of the gate: ``failed`` if a rule failed, ``none`` without rules."""
    if not verdicts:
        return "none"
    has_failed = any(verdict.verdict == "failed" for verdict in verdicts)
    return "failed" if has_failed else "passed"


def _check_value(rule: Rule, summary: Summary, *, errors_fail: bool) -> RuleVerdict:
    if rule.tag is not None and rule.tag not in summary.tags:
        return no_data(rule, f"no question has the tag {rule.tag!r}")
    needs_repetitions = rule.name == DISAGREEMENT or rule.of == WORST
    if needs_repetitions and summary.repetitions is None:
        return no_data(rule, "every question was asked once; set repeat in the chat batch")
    value = _value(rule, summary)
    if value is None:
        what = "question was judged" if rule.name == PASS_RATE else "question has such a score"
        return no_data(rule, f"no {what}")
    reason = f"{subject(rule)} is {formatted(value, rule.term)}"
    if rule.name in MEASURED:
        reason += _measurement_note(rule, value, summary)
    if rule.term.holds(value):
        reason += _coverage_note(rule, summary)
        if errors_fail and (doubt := _doubt(rule, summary)):
            return RuleVerdict(rule=rule.text, verdict="failed", value=value, reason=f"{reason}; {doubt}")
    return verdict_on(rule, value, reason)


def _doubt(rule: Rule, summary: Summary) -> str | None:
    """Return why errors of scorers could hide that a rule does not hold, or None if they could not."""
    if rule.name in summary.scorers:
        errors = summary.scorers[rule.name].errors
    elif rule.name == PASS_RATE:
        errors = summary.errors.count
    else:
        return None
    if not errors:
        return None
    allow = f"correct the scorer, or allow errors with a rule such as '{ERRORS} <= 0.01'"
    said = f"{counted(errors, 'answer')} could not be scored"
    if rule.of is not None:
        return f"{said}: {allow}"
    value = _value_with_errors(rule, summary)
    if value is None or rule.term.holds(value):
        return None
    return f"{said}, and as wrong answers they would make it {formatted(value, rule.term)}: {allow}"


def _value_with_errors(rule: Rule, summary: Summary) -> float | None:
    """Return the value of a rule if every answer on which a scorer failed were wrong."""
    if rule.name == PASS_RATE:
        passes = _passes(rule, summary)
        return passes.rate_with_errors if passes else None
    if rule.tag is not None:
        return summary.tags[rule.tag].means_with_errors.get(rule.name)
    return summary.scorers[rule.name].mean_with_errors


def _passes(rule: Rule, summary: Summary) -> PassRate | None:
    return summary.passes if rule.tag is None else summary.tags[rule.tag].passes


def _value(rule: Rule, summary: Summary) -> float | None:
    if rule.tag is not None:
        return _value_of_tag(rule, summary.tags[rule.tag])
    if summary.repetitions and rule.name == DISAGREEMENT:
        return summary.repetitions.disagreement
    if summary.repetitions and rule.of == WORST:
        return summary.repetitions.scorers[rule.name].worst
    if rule.name in {COVERAGE, PASS_RATE, ERRORS}:
        return _share(rule.name, summary)
    return _value_of_scorer(rule.name, rule.of, summary)


def _share(name: str, summary: Summary) -> float | None:
    if name == COVERAGE:
        return summary.questions.coverage
    if name == PASS_RATE:
        return summary.pass_rate
    return summary.errors.count / max(summary.questions.answered, 1)


def _value_of_tag(rule: Rule, tag: TagSummary) -> float | None:
    if rule.name == COVERAGE:
        return tag.answered / tag.questions
    if rule.name == PASS_RATE:
        return tag.pass_rate
    return tag.means.get(rule.name)


def _value_of_scorer(name: str, quantile: str | None, summary: Summary) -> float | None:
    if quantile is None:
        return summary.scorers[name].mean
    if name in summary.scorers:
        spread = summary.scorers[name].spread
    elif name == NOTICED_AFTER:
        spread = summary.noticed_after
    else:
        # Without the latency scorer, use the latency of all answers.
        spread = summary.latency
    # The quantile is the name of a field, such as "p95".
    value: float | None = getattr(spread, quantile)
    return value


def _check_agreement(rule: Rule, summary: Summary) -> RuleVerdict:
    judge = summary.scorers[rule.name].judge
    agreement = judge.agreement if judge else None
    labels = agreement.labels if agreement else 0
    # parse_rule() refuses a rule on agreement without a number of labels.
    necessary_labels = rule.labels or 0
    if agreement is None or labels < necessary_labels:
        return no_data(rule, f"judged: {counted(labels, 'label')}; necessary: {rule.labels}")
    if agreement.kappa is None or agreement.low is None or agreement.high is None:
        return no_data(
            rule,
            f"people and judge gave every answer ({labels}) the same verdict, so kappa is not defined",
        )
    return verdict_on(
        rule,
        agreement.kappa,
        f"Cohen's kappa of {rule.name} and people is {formatted(agreement.kappa, rule.term)} "
        f"(95 %: {agreement.low:.2f} to {agreement.high:.2f}) over {counted(labels, 'label')}",
    )


def _coverage_note(rule: Rule, summary: Summary) -> str:
    """Return a note on unanswered questions, which the value of a passed rule does not include."""
    questions = summary.questions
    unanswered = questions.total - questions.answered
    if rule.name == COVERAGE or rule.tag is not None or not unanswered:
        return ""
    return f"; not in it, because without an answer: {unanswered} of {counted(questions.total, 'question')}"


def _threshold(rules: Sequence[Rule], name: str, default: float) -> float:
    """Return the lower limit of a share by a rule on all questions."""
    for rule in rules:
        if rule.name == name and rule.tag is None and rule.of is None and rule.term.comparison in {">=", ">"}:
            return rule.term.threshold
    return default


def _too_few_judged(rule: Rule, summary: Summary, pass_if: Condition | None, enough: float) -> str | None:
    """Return why a rule on latency or confidence has too little data, or None."""
    names: Sequence[str] = (rule.name,)
    if rule.name == PASS_RATE and pass_if:
        names = pass_if.names
    if not set(names) & set(MEASURED):
        return None
    if rule.tag is not None and rule.tag not in summary.tags:
        return None
    judged, answered = _judged(rule, summary)
    if judged >= enough * answered - TOLERANCE:
        return None
    return f"judged: only {judged} of {counted(answered, 'answer')}; necessary: {100 * enough:g} %"


def _judged(rule: Rule, summary: Summary) -> tuple[int, int]:
    """Return the number of answers that a rule on latency or confidence judges, and of all answers."""
    if rule.name == PASS_RATE:
        passes = _passes(rule, summary)
        return (passes.passed + passes.failed, passes.answered) if passes else (0, 0)
    if rule.tag is not None:
        tag = summary.tags[rule.tag]
        return tag.scored.get(rule.name, 0), tag.answered
    judged = summary.latency.count
    if rule.name in summary.scorers:
        judged = summary.scorers[rule.name].scored
    return judged, summary.questions.answered


def _check_noticed_after(rule: Rule, summary: Summary, too_few: str) -> RuleVerdict:
    """
    Return the verdict on a rule for which too few answers have a value.

    No answer took longer than the time until a poll noticed it. So an upper limit of the latency holds if
    it holds for these times.
    """
    if rule.name != LATENCY or rule.of not in QUANTILES or rule.term.comparison not in {"<=", "<"}:
        return no_data(rule, too_few)
    value: float | None = getattr(summary.noticed_after, rule.of)
    if value is None or summary.noticed_after.count < summary.questions.answered or not rule.term.holds(value):
        return no_data(
            rule,
            f"{too_few}; the polls came too late to measure the others. Set a smaller poll_interval, or check "
            f"'{NOTICED_AFTER} {rule.text.partition(LATENCY)[2].strip()}' instead",
        )
    limit = formatted(value, rule.term)
    reason = f"{subject(rule)} is at most {limit}: polls had noticed the answers by then"
    return verdict_on(rule, value, reason)


def _measurement_note(rule: Rule, value: float, summary: Summary) -> str:
    """Return how exact a latency is, and how many answers have no latency or confidence."""
    note = ""
    error = summary.latency_error
    if rule.name == LATENCY and error.maximum is not None:
        note += f"; measured for {counted(error.count, 'answer')}, at most {error.maximum:.3g} s too long"
        if not rule.term.holds(value) and rule.term.holds(value - error.maximum):
            note += ", which is too inexact to decide: set a smaller poll_interval"
    judged, answered = _judged(rule, summary)
    if judged < answered:
        note += f"; not judged: {answered - judged} of {counted(answered, 'answer')}"
    return note
