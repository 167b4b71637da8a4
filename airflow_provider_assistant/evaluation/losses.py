"""
Check the rules that compare an evaluation with its baseline.

A loss that chance explains does not fail the gate. Chance alone fails less than one run in 20 in which nothing changed:
``FALSE_ALARMS`` is shared out among all rules that limit a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from airflow_provider_assistant.evaluation.change import student_quantile
from airflow_provider_assistant.evaluation.rule_verdicts import formatted, no_data, not_judged, subject, verdict_on
from airflow_provider_assistant.evaluation.rules import COVERAGE, LATENCY, PASS_RATE, Rule
from airflow_provider_assistant.evaluation.scorers import CONFIDENCE
from airflow_provider_assistant.evaluation.summary import Comparison, Difference, Summary
from airflow_provider_assistant.evaluation.verdict import RuleVerdict, Verdict
from airflow_provider_assistant.texts import counted

# Nominal share of the runs that fail by chance; less in fact, because the two proofs overlap. One part is for this run
# alone, and the rest for the last three runs together, which show smaller losses.
FALSE_ALARMS = 0.06
ALONE = 0.4
# The last three runs fail this one only if it is this many standard errors worse itself: a repaired assistant passes.
ITSELF_WORSE = 1.2
# Share of the answers that vary from run to run, if it is not known.
USUALLY_VARYING = 0.2
# Standard errors beyond the smallest loss with which one of three runs fails in 95 of 100 cases, by simulation.
SURELY = 0.25
# Degrees of freedom with many runs.
MANY = 1000
# A loss that each comparison should be able to show, for values from 0 to 1.
NOTABLE_LOSS = 0.1


def check_drop(rule: Rule, summary: Summary, *, drops: int, enough: float) -> RuleVerdict:
    """
    Return the verdict on a rule that limits a loss: ``failed`` only if the loss is more than chance explains.

    :param drops: Number of such rules in the gate.
    :param enough: Share of the questions that must be compared.
    """
    comparison = summary.comparison
    if comparison is None:
        return _without_baseline(rule, summary)
    if rule.tag is not None and rule.tag not in summary.tags:
        return no_data(rule, f"no question has the tag {rule.tag!r}")
    difference = _difference(rule, comparison)
    if difference is None:
        return not_judged(rule, _reason_without_difference(rule, comparison))
    if difference.paired < enough * difference.comparable or not difference.paired:
        return no_data(rule, _too_few_compared(difference, comparison, enough))
    higher_is_better = is_share = True
    if rule.name in summary.scorers:
        scorer = summary.scorers[rule.name]
        higher_is_better = scorer.higher_is_better
        is_share = scorer.kind not in {LATENCY, CONFIDENCE}
    return _check_loss(
        rule,
        difference,
        counted(comparison.runs, "earlier run"),
        false_alarms=FALSE_ALARMS / drops,
        sign=-1 if higher_is_better else 1,
        notable_loss=NOTABLE_LOSS if is_share else 0.0,
    )


def check_compared(rule: Rule, summary: Summary, names: Sequence[str]) -> RuleVerdict:
    """
    Return the verdict on a rule that limits the share of compared questions from below.

    :param names: Figures that the gate compares. The share is the smallest one of these, or of all without any.
    """
    comparison = summary.comparison
    if comparison is None:
        return _without_baseline(rule, summary)
    differences = {**comparison.scorers, PASS_RATE: comparison.passes, COVERAGE: comparison.coverage}
    shares = []
    for name, difference in differences.items():
        if difference and difference.comparable and (name in names or not names):
            shares.append(difference.paired / difference.comparable)
    if not shares:
        return no_data(rule, "nothing was compared")
    share = min(shares)
    return verdict_on(rule, share, f"{formatted(share, rule.term)} of the questions were compared")


def check_newly_failing(rule: Rule, summary: Summary) -> RuleVerdict:
    """Return the verdict on a rule that limits the number of questions that usually passed and fail now."""
    comparison, found = summary.comparison, summary.newly_failing
    if comparison is None:
        return _without_baseline(rule, summary)
    if found is None:
        return not_judged(rule, "the baseline was not scored with the scorers of pass_if")
    reason = (
        f"{counted(found.count, 'question')} usually passed in {counted(comparison.runs, 'earlier run')}, and not now"
    )
    return verdict_on(rule, found.count, reason)


def _without_baseline(rule: Rule, summary: Summary) -> RuleVerdict:
    reason = "there is no baseline yet; this evaluation can become the baseline of the next"
    if summary.earlier_name is not None:
        name = summary.earlier_name
        reason += f". Evaluation {name!r} has earlier runs of the same questions: if it was renamed, set name={name!r}"
    return not_judged(rule, reason)


def smallest_loss(error: float, freedom: float, *, false_alarms: float = FALSE_ALARMS) -> float:
    """
    Return the loss from which a single run fails.

    :param error: Standard error of the change.
    :param freedom: Its degrees of freedom.
    :param false_alarms: Share of the runs that may fail by chance because of this rule.
    """
    return student_quantile(1 - ALONE * false_alarms, freedom) * error


def noticed_loss(questions: int, *, drops: int = 1, varying: float = USUALLY_VARYING) -> float:
    """
    Return the loss that fails at least one of three runs in 95 of 100 cases.

    :param questions: Number of questions that are compared.
    :param drops: Number of rules in the gate that limit a loss.
    :param varying: Share of the answers that vary from run to run. Those that do pass on half of the runs, which is the
        worst case.
    """
    error: float = (varying / 4 / questions) ** 0.5
    return smallest_loss(error, MANY, false_alarms=FALSE_ALARMS / drops) + SURELY * error


def questions_needed(loss: float, *, drops: int = 1, varying: float = USUALLY_VARYING) -> int:
    """Return the number of questions from which :func:`noticed_loss` is at most a loss."""
    return ceil((noticed_loss(1, drops=drops, varying=varying) / loss) ** 2)


def _reason_without_difference(rule: Rule, comparison: Comparison) -> str:
    if rule.name in comparison.changed_judges:
        return f"the baseline had another model, rubric or prompt for {rule.name}"
    if rule.name == LATENCY and comparison.changed_latency:
        return "only one of the two latencies was measured; the other is by the service's own times"
    return f"the baseline was not scored with {rule.name}"


def _difference(rule: Rule, comparison: Comparison) -> Difference | None:
    if rule.tag is not None:
        return comparison.tags.get(rule.tag, {}).get(rule.name)
    if rule.name == PASS_RATE:
        return comparison.passes
    if rule.name == COVERAGE:
        return comparison.coverage
    return comparison.scorers.get(rule.name)


def _check_loss(
    rule: Rule, difference: Difference, runs: str, *, false_alarms: float, sign: int, notable_loss: float
) -> RuleVerdict:
    """
    Return whether the loss is more than the rule allows and more than chance explains.

    :param runs: The runs of the baseline, in words.
    :param sign: -1 if a higher value is better, else 1.
    :param notable_loss: A loss that should not go unnoticed.
    """
    if difference.mean is None or difference.error is None or difference.freedom is None:
        return _verdict(rule, "too_few", None, f"{counted(difference.paired, 'question')} in common is too few")
    # Added to zero: a loss of -0.0 would be shown.
    loss = sign * difference.mean + 0.0
    by_chance = smallest_loss(difference.error, difference.freedom, false_alarms=false_alarms)
    reason = (
        f"{subject(rule)} {_moved(difference.mean)} (95 %: {difference.low:+.4f} to {difference.high:+.4f}) "
        f"over {counted(difference.paired, 'question')}, compared with {runs}"
    )
    is_over = not rule.term.holds(loss)
    if is_over and loss > by_chance:
        return _verdict(rule, "failed", loss, f"{reason}; chance explains a loss of {by_chance:.4f} at most")
    if is_over and loss > ITSELF_WORSE * difference.error:
        proof = _proof_together(rule, difference, sign, false_alarms)
        if proof:
            return _verdict(rule, "failed", loss, f"{reason}; {proof}")
    if by_chance > max(rule.term.threshold, notable_loss):
        return _verdict(rule, "too_few", loss, f"{reason}; a loss of up to {by_chance:.4f} would not be noticed")
    if is_over:
        return _verdict(rule, "not_proven", loss, f"{reason}; chance explains a loss of up to {by_chance:.4f}")
    return _verdict(rule, "passed", loss, reason)


def _proof_together(rule: Rule, difference: Difference, sign: int, false_alarms: float) -> str | None:
    """Return why the last three runs together show that the answers got worse, or None."""
    if difference.together is None or difference.together_error is None or difference.freedom is None:
        return None
    loss = sign * difference.together
    quantile = student_quantile(1 - (1 - ALONE) * false_alarms, difference.freedom)
    by_chance = quantile * difference.together_error
    if rule.term.holds(loss) or loss <= by_chance:
        return None
    return f"the last three runs together lost {loss:.4f}, and chance explains {by_chance:.4f} at most"


def _verdict(rule: Rule, verdict: Verdict, loss: float | None, reason: str) -> RuleVerdict:
    return RuleVerdict(rule=rule.text, verdict=verdict, value=loss, reason=reason, is_worse=verdict == "failed")


def _moved(mean: float) -> str:
    if mean == 0:
        return "did not change"
    return f"{'rose' if mean > 0 else 'fell'} by {abs(mean):.4f}"


def _too_few_compared(difference: Difference, comparison: Comparison, enough: float) -> str:
    return (
        f"only {difference.paired} of {counted(difference.comparable, 'question')} were compared, and {100 * enough:g} "
        f"% are necessary; since the latest run, {comparison.changed} were changed, {comparison.added} added and "
        f"{comparison.removed} removed. After a change on purpose, the next run compares with this one; a rule such as "
        "'compared >= 0.5' allows it"
    )
