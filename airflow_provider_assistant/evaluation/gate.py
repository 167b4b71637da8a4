"""The gate: check the rules against the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from airflow_provider_assistant.evaluation.rules import (
    COVERAGE,
    DISAGREEMENT,
    LATENCY,
    MEASURED,
    NOTICED_AFTER,
    PASS_RATE,
    QUANTILES,
    TOLERANCE,
    WORST,
    Condition,
    Rule,
    Term,
    judges_of,
)
from airflow_provider_assistant.evaluation.summary import (
    Comparison,
    Difference,
    Summary,
    TagSummary,
)
from airflow_provider_assistant.evaluation.verdict import RuleVerdict
from airflow_provider_assistant.texts import counted

# Share of the answers that must have a latency or a confidence for a verdict on it, if the gate has no
# rule on coverage.
JUDGED_SHARE = 0.9


def check_rules(
    rules: Sequence[Rule],
    summary: Summary,
    pass_if: Condition | None = None,
) -> list[RuleVerdict]:
    """
    Return the verdict on each rule, in the order of ``rules``.

    A rule without data to judge fails. Only a comparison without a baseline is ``not_judged`` instead: on
    the first run, or with a scorer that the baseline did not have.

    A rule on latency or confidence also fails if too few answers have the value: less than the threshold
    of the rule on ``coverage``, or less than ``JUDGED_SHARE`` without such a rule.

    The verdicts of a judge that does not agree with people decide nothing: the rule on its agreement fails, and the
    rules that rely on it are ``not_judged``.

    :param summary: The figures of the evaluation. Its gate is not read.
    """
    disagreeing_judges = set()
    for rule in rules:
        if rule.is_agreement and _check_agreement(rule, summary).verdict == "failed":
            disagreeing_judges.add(rule.name)
    judged_share = _judged_share(rules)
    verdicts = []
    for rule in rules:
        judges = [judge for judge in judges_of(rule, pass_if) if judge in disagreeing_judges]
        if rule.is_agreement:
            verdict = _check_agreement(rule, summary)
        elif judges:
            reason = f"the agreement of {judges[0]} with people is not sufficient"
            verdict = _not_judged(rule, reason)
        elif too_few := _too_few_judged(rule, summary, pass_if, judged_share):
            verdict = _check_noticed_after(rule, summary, too_few)
        elif rule.is_drop:
            verdict = _check_drop(rule, summary)
        else:
            verdict = _check_value(rule, summary)
        verdicts.append(verdict)
    return verdicts


def verdict_of(verdicts: Sequence[RuleVerdict]) -> Literal["passed", "failed", "none"]:
    """Return the verdict of the gate: ``failed`` if a rule failed, ``none`` without rules."""
    if not verdicts:
        return "none"
    has_failed = any(verdict.verdict == "failed" for verdict in verdicts)
    return "failed" if has_failed else "passed"


def _check_value(rule: Rule, summary: Summary) -> RuleVerdict:
    if rule.tag is not None and rule.tag not in summary.tags:
        return _no_data(rule, f"no question has the tag {rule.tag!r}")
    needs_repetitions = rule.name == DISAGREEMENT or rule.of == WORST
    if needs_repetitions and summary.repetitions is None:
        return _no_data(rule, "every question was asked once; set repeat in the chat batch")
    value = _value(rule, summary)
    if value is not None:
        reason = f"{_subject(rule)} is {_formatted(value, rule.term)}"
        if rule.name in MEASURED:
            reason += _measurement_note(rule, value, summary)
        if rule.term.holds(value):
            reason += _coverage_note(rule, summary)
        return _verdict_on(rule, value, reason)
    if rule.name == PASS_RATE:
        return _no_data(rule, "no question was judged")
    return _no_data(rule, "no question has such a score")


def _value(rule: Rule, summary: Summary) -> float | None:
    if rule.tag is not None:
        return _value_of_tag(rule, summary.tags[rule.tag])
    if rule.name == COVERAGE:
        return summary.questions.coverage
    if rule.name == PASS_RATE:
        return summary.pass_rate
    if summary.repetitions and rule.name == DISAGREEMENT:
        return summary.repetitions.disagreement
    if summary.repetitions and rule.of == WORST:
        return summary.repetitions.scorers[rule.name].worst
    return _value_of_scorer(rule.name, rule.of, summary)


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
        return _no_data(rule, f"{labels} labels were judged, and {rule.labels} are necessary")
    if agreement.kappa is None or agreement.low is None or agreement.high is None:
        return _no_data(
            rule,
            f"people and judge gave all {labels} answers the same verdict, so kappa is not defined",
        )
    return _verdict_on(
        rule,
        agreement.kappa,
        f"Cohen's kappa of {rule.name} and people is {_formatted(agreement.kappa, rule.term)} "
        f"(95 %: {agreement.low:.2f} to {agreement.high:.2f}) over {labels} labels",
    )


def _check_drop(rule: Rule, summary: Summary) -> RuleVerdict:
    comparison = summary.comparison
    if comparison is None:
        return _not_judged(rule, "there is no baseline yet; this evaluation can become the baseline of the next")
    if rule.name in comparison.changed_judges:
        return _not_judged(rule, f"the baseline had another model, rubric or prompt for {rule.name}")
    if rule.name == LATENCY and comparison.changed_latency:
        return _not_judged(rule, "only one of the two latencies was measured; the other is by the service's own times")
    if rule.name not in comparison.scorers:
        return _not_judged(rule, f"the baseline was not scored with {rule.name}")
    difference = comparison.scorers[rule.name]
    if rule.tag is not None:
        tagged = comparison.tags.get(rule.tag, {}).get(rule.name)
        if tagged is None or tagged.paired == 0:
            return _no_data(rule, f"no question with the tag {rule.tag!r} was scored here and in the baseline")
        difference = tagged
    higher_is_better = summary.scorers[rule.name].higher_is_better
    return _check_difference(rule, difference, comparison, higher_is_better=higher_is_better)


def _check_difference(
    rule: Rule, difference: Difference, comparison: Comparison, *, higher_is_better: bool
) -> RuleVerdict:
    if difference.paired == 0:
        return _no_data(
            rule,
            f"no question was scored here and in the baseline; {comparison.same} are the same, "
            f"{comparison.changed} changed. A new set of questions needs another name of the evaluation",
        )
    if difference.mean is None or difference.low is None or difference.high is None:
        return _no_data(rule, f"{difference.paired} question in common is too few")
    # The greatest loss within the confidence interval.
    # Subtract from zero: negating 0.0 would show a loss of -0.
    loss = 0.0 - difference.low if higher_is_better else difference.high
    return _verdict_on(
        rule,
        loss,
        f"{_subject(rule)} changed by {difference.mean:+.4f} ({100 * comparison.confidence:g} %: "
        f"{difference.low:+.4f} to {difference.high:+.4f}) over {difference.paired} questions; "
        f"at worst it lost {_formatted(loss, rule.term)}",
    )


def _verdict_on(rule: Rule, value: float, reason: str) -> RuleVerdict:
    verdict: Literal["passed", "failed"] = "passed" if rule.term.holds(value) else "failed"
    return RuleVerdict(rule=rule.text, verdict=verdict, value=value, reason=reason)


def _no_data(rule: Rule, reason: str) -> RuleVerdict:
    return RuleVerdict(rule=rule.text, verdict="failed", value=None, reason=f"no data: {reason}")


def _not_judged(rule: Rule, reason: str) -> RuleVerdict:
    return RuleVerdict(rule=rule.text, verdict="not_judged", value=None, reason=f"not judged: {reason}")


def _coverage_note(rule: Rule, summary: Summary) -> str:
    """Return a note on unanswered questions, which the value of a passed rule does not include."""
    questions = summary.questions
    unanswered = questions.total - questions.answered
    if rule.name == COVERAGE or rule.tag is not None or not unanswered:
        return ""
    return f"; {unanswered} of {questions.total} questions have no answer and are not in it"


def _judged_share(rules: Sequence[Rule]) -> float:
    """Return the share of answers that must have a latency or a confidence for a verdict on it."""
    for rule in rules:
        if rule.name == COVERAGE and rule.tag is None and rule.term.comparison in {">=", ">"}:
            return rule.term.threshold
    return JUDGED_SHARE


def _too_few_judged(rule: Rule, summary: Summary, pass_if: Condition | None, judged_share: float) -> str | None:
    """Return why a rule on latency or confidence has too little data, or None."""
    names: Sequence[str] = (rule.name,)
    if rule.name == PASS_RATE and pass_if:
        names = pass_if.names
    if not set(names) & set(MEASURED):
        return None
    if rule.tag is not None and rule.tag not in summary.tags:
        return None
    judged, answered = _judged(rule, summary)
    if judged >= judged_share * answered - TOLERANCE:
        return None
    return f"only {judged} of {counted(answered, 'answer')} were judged, and {100 * judged_share:g} % are necessary"


def _judged(rule: Rule, summary: Summary) -> tuple[int, int]:
    """Return the number of answers that a rule on latency or confidence judges, and of all answers."""
    if rule.tag is not None:
        tag = summary.tags[rule.tag]
        judged = tag.scored.get(rule.name, 0)
        if rule.name == PASS_RATE:
            judged = tag.judged
        return judged, tag.answered
    judged = summary.latency.count
    if rule.name == PASS_RATE and summary.passes:
        judged = summary.passes.passed + summary.passes.failed
    elif rule.name in summary.scorers:
        judged = summary.scorers[rule.name].scored
    return judged, summary.questions.answered


def _check_noticed_after(rule: Rule, summary: Summary, too_few: str) -> RuleVerdict:
    """
    Return the verdict on a rule for which too few answers have a value.

    No answer took longer than the time until a poll noticed it. So an upper limit of the latency holds if
    it holds for these times.
    """
    if rule.name != LATENCY or rule.of not in QUANTILES or rule.term.comparison not in {"<=", "<"}:
        return _no_data(rule, too_few)
    value: float | None = getattr(summary.noticed_after, rule.of)
    if value is None or summary.noticed_after.count < summary.questions.answered or not rule.term.holds(value):
        return _no_data(
            rule,
            f"{too_few}; the polls came too late to measure the others. Set a smaller poll_interval, or check "
            f"'{NOTICED_AFTER} {rule.text.partition(LATENCY)[2].strip()}' instead",
        )
    limit = _formatted(value, rule.term)
    reason = f"{_subject(rule)} is at most {limit}: polls had noticed the answers by then"
    return _verdict_on(rule, value, reason)


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
        note += f"; {answered - judged} of {answered} answers were not judged"
    return note


def _subject(rule: Rule) -> str:
    subject = rule.name
    if rule.of and not rule.is_drop:
        subject += f" {rule.of}"
    if rule.tag:
        subject += f" of {rule.tag!r}"
    return subject


def _formatted(value: float, term: Term) -> str:
    """Format a number with enough digits to distinguish it from the threshold."""
    is_equal = abs(value - term.threshold) <= 1e-9
    for digits in range(4, 10):
        text = f"{value:.{digits}g}"
        if is_equal or float(text) != term.threshold:
            break
    return text
