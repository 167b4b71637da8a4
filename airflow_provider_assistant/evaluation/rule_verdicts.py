"""Verdicts on a rule, with their reasons in words."""

from __future__ import annotations

from typing import Literal

from airflow_provider_assistant.evaluation.rules import Rule, Term
from airflow_provider_assistant.evaluation.verdict import RuleVerdict


def verdict_on(rule: Rule, value: float, reason: str) -> RuleVerdict:
    """Return whether the rule holds for a value."""
    verdict: Literal["passed", "failed"] = "passed" if rule.term.holds(value) else "failed"
    return RuleVerdict(rule=rule.text, verdict=verdict, value=value, reason=reason)


def no_data(rule: Rule, reason: str) -> RuleVerdict:
    """Return the verdict on a rule without data, which fails."""
    return RuleVerdict(rule=rule.text, verdict="failed", value=None, reason=f"no data: {reason}")


def not_judged(rule: Rule, reason: str) -> RuleVerdict:
    """Return the verdict on a rule that has nothing to compare with, or no judge to rely on."""
    return RuleVerdict(rule=rule.text, verdict="not_judged", value=None, reason=f"not judged: {reason}")


def subject(rule: Rule) -> str:
    """Return what a rule is about, such as ``latency p95`` or ``token_f1 of 'billing'``."""
    text = rule.name
    if rule.of and not rule.is_drop:
        text += f" {rule.of}"
    if rule.tag:
        text += f" of {rule.tag!r}"
    return text


def formatted(value: float, term: Term) -> str:
    """Format a number with enough digits to distinguish it from the threshold."""
    is_equal = abs(value - term.threshold) <= 1e-9
    for digits in range(4, 10):
        text = f"{value:.{digits}g}"
        if is_equal or float(text) != term.threshold:
            break
    return text
