"""The gate: check the rules against the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_assistant.evaluation.rules import (
    COVERAGE,
    DISAGREEMENT,
    LATENCY,
    NOTICED_AFTER,
    PASS_RATE,
    WORST,
    Condition,
    Rule,
    Term,
    judges_of,
)
from airflow_provider_assistant.evaluation.summary import (
    Comparison,
    Distribution,
    PassRate,
    Questions,
    Repetitions,
    RuleVerdict,
    ScorerSummary,
    TagSummary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Findings(NamedTuple):
    """The figures that rules refer to. Each field is the field of the same name in the summary."""

    questions: Questions
    scorers: Mapping[str, ScorerSummary]
    passes: PassRate | None
    latency: Distribution
    tags: Mapping[str, TagSummary]
    comparison: Comparison | None
    noticed_after: Distribution = Distribution(count=0)
    repetitions: Repetitions | None = None


def judge(rules: Sequence[Rule], findings: Findings, pass_if: Condition | None = None) -> list[RuleVerdict]:
    """
    Return the verdict on each rule.

    A rule without data to judge fails. Two kinds of rules are ``not_judged`` instead: a comparison without a baseline
    (on the first run, or with a scorer that the baseline did not have), and a rule on latency if the replies of the
    service have no timestamps. The time until a poll found an answer says little about the service, so only a rule on
    ``noticed_after`` checks it.

    The verdicts of a judge that does not agree with people decide nothing: the rule on its agreement fails, and the
    rules that rely on it are ``not_judged``.

    :param rules: The rules.
    :param findings: The figures of the evaluation.
    :param pass_if: The condition behind the pass rate. Default: None.
    :return: One verdict per rule, in the order of ``rules``.
    """
    agreements = {rule.text: _agreement(rule, findings) for rule in rules if rule.is_agreement}
    refuted = {rule.name for rule in rules if rule.is_agreement and agreements[rule.text].verdict == "failed"}

    def verdict(rule: Rule) -> RuleVerdict:
        if rule.is_agreement:
            return agreements[rule.text]
        if doubtful := [name for name in judges_of(rule, pass_if) if name in refuted]:
            return _not_judged(rule, f"the agreement of {doubtful[0]} with people is not sufficient")
        return _drop(rule, findings) if rule.is_drop else _absolute(rule, findings)

    return [verdict(rule) for rule in rules]


def verdict_of(verdicts: Sequence[RuleVerdict]) -> Literal["passed", "failed", "none"]:
    """Return the verdict of the gate: ``failed`` if a rule failed, ``none`` without rules."""
    if not verdicts:
        return "none"
    return "failed" if any(found.verdict == "failed" for found in verdicts) else "passed"


def _absolute(rule: Rule, findings: Findings) -> RuleVerdict:
    if rule.tag is not None and rule.tag not in findings.tags:
        return _no_data(rule, f"no question has the tag {rule.tag!r}")
    if (rule.name == DISAGREEMENT or rule.of == WORST) and findings.repetitions is None:
        return _no_data(rule, "every question was asked once; set repeat in the chat batch")
    value = _value(rule, findings)
    if value is None and rule.name == LATENCY and findings.noticed_after.count:
        return _not_judged(
            rule, "the service's replies have no times; 'noticed_after p95 <= …' judges when polls noticed the answers"
        )
    if value is None:
        return _no_data(rule, "no question has such a score" if rule.name != PASS_RATE else "no question was judged")
    holds = rule.term.holds(value)
    return RuleVerdict(
        rule=rule.text,
        verdict="passed" if holds else "failed",
        value=value,
        reason=f"{_subject(rule)} is {_shown(value, rule.term)}" + _coverage_note(rule, findings, holds=holds),
    )


def _value(rule: Rule, findings: Findings) -> float | None:
    tag = findings.tags[rule.tag] if rule.tag is not None else None
    if rule.name == COVERAGE:
        return tag.answered / tag.questions if tag else findings.questions.coverage
    if rule.name == PASS_RATE:
        return tag.pass_rate if tag else findings.passes.rate if findings.passes else None
    if rule.name == DISAGREEMENT or rule.of == WORST:
        return _repeated(rule, findings)
    if rule.name == NOTICED_AFTER and rule.of is not None:
        seconds: float | None = getattr(findings.noticed_after, rule.of)
        return seconds
    if rule.of is not None:
        scorer = findings.scorers.get(rule.name)
        # Without the latency scorer, use the latency of all answers.
        spread = findings.latency if scorer is None and rule.name == LATENCY else scorer and scorer.spread
        return getattr(spread, rule.of) if spread else None
    return tag.means.get(rule.name) if tag else findings.scorers[rule.name].mean


def _repeated(rule: Rule, findings: Findings) -> float | None:
    if findings.repetitions is None:
        return None
    if rule.name == DISAGREEMENT:
        return findings.repetitions.disagreement
    return findings.repetitions.scorers[rule.name].worst


def _agreement(rule: Rule, findings: Findings) -> RuleVerdict:
    judged = findings.scorers[rule.name].judge
    found = judged.agreement if judged else None
    count = found.labels if found else 0
    if found is None or count < (rule.labels or 0):
        return _no_data(rule, f"{count} labels were judged, and {rule.labels} are necessary")
    if found.kappa is None or found.low is None or found.high is None:
        return _no_data(rule, f"people and judge gave all {count} answers the same verdict, so kappa is not defined")
    return RuleVerdict(
        rule=rule.text,
        verdict="passed" if rule.term.holds(found.kappa) else "failed",
        value=found.kappa,
        reason=(
            f"Cohen's kappa of {rule.name} and people is {_shown(found.kappa, rule.term)} (95 %: {found.low:.2f} to "
            f"{found.high:.2f}) over {count} labels"
        ),
    )


def _drop(rule: Rule, findings: Findings) -> RuleVerdict:
    comparison = findings.comparison
    if comparison is None:
        return _not_judged(rule, "there is no baseline yet; this evaluation can become the baseline of the next")
    difference = comparison.scorers.get(rule.name)
    if difference is None:
        is_changed = rule.name in comparison.changed_judges
        reason = "had another model, rubric or prompt for" if is_changed else "was not scored with"
        return _not_judged(rule, f"the baseline {reason} {rule.name}")
    if rule.tag is not None:
        tagged = comparison.tags.get(rule.tag, {}).get(rule.name)
        if tagged is None or tagged.paired == 0:
            return _no_data(rule, f"no question with the tag {rule.tag!r} was scored here and in the baseline")
        difference = tagged
    if difference.paired == 0:
        return _no_data(
            rule,
            f"no question was scored here and in the baseline; {comparison.same} are the same, {comparison.changed} "
            "changed. A new set of questions needs another name of the evaluation",
        )
    if difference.mean is None or difference.low is None or difference.high is None:
        return _no_data(rule, f"{difference.paired} question in common is too few")
    higher_is_better = findings.scorers[rule.name].higher_is_better
    # The greatest loss within the confidence interval.
    # Subtract from zero: negating 0.0 would show a loss of -0.
    loss = 0.0 - difference.low if higher_is_better else difference.high
    holds = rule.term.holds(loss)
    percent = f"{100 * comparison.confidence:g} %"
    return RuleVerdict(
        rule=rule.text,
        verdict="passed" if holds else "failed",
        value=loss,
        reason=(
            f"{_subject(rule)} changed by {difference.mean:+.4f} ({percent}: {difference.low:+.4f} to "
            f"{difference.high:+.4f}) over {difference.paired} questions; at worst it lost {_shown(loss, rule.term)}"
        ),
    )


def _no_data(rule: Rule, reason: str) -> RuleVerdict:
    return RuleVerdict(rule=rule.text, verdict="failed", value=None, reason=f"no data: {reason}")


def _not_judged(rule: Rule, reason: str) -> RuleVerdict:
    return RuleVerdict(rule=rule.text, verdict="not_judged", value=None, reason=f"not judged: {reason}")


def _coverage_note(rule: Rule, findings: Findings, *, holds: bool) -> str:
    """Return a note on unanswered questions, which the value of a passed rule does not include."""
    unanswered = findings.questions.total - findings.questions.answered
    if rule.name == COVERAGE or rule.tag is not None or not holds or not unanswered:
        return ""
    return f"; {unanswered} of {findings.questions.total} questions have no answer and are not in it"


def _subject(rule: Rule) -> str:
    number = f" {rule.of}" if rule.of and not rule.is_drop else ""
    return f"{rule.name}{number}{f' of {rule.tag!r}' if rule.tag else ''}"


def _shown(value: float, term: Term) -> str:
    """Format a number with enough digits to distinguish it from the threshold."""
    for digits in range(4, 10):
        shown = f"{value:.{digits}g}"
        if float(shown) != term.threshold or abs(value - term.threshold) <= 1e-9:
            break
    return shown
