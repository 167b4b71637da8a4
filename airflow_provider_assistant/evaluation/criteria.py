"""The condition for passing and the rules of the gate, checked together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.evaluation.rules import (
    OF_PASSING,
    Condition,
    Rule,
    check_calibration,
    parse_condition,
    parse_rule,
)
from airflow_provider_assistant.exceptions import AssistantInputError

DEFAULT_SCORERS = (
    "exact_match",
    "token_f1",
    "must_include",
    "must_not_include",
    "refusal",
    "latency",
    "confidence_score",
)


class Criteria(NamedTuple):
    """What an evaluation checks."""

    pass_if: Condition | None
    rules: list[Rule]


def parse_criteria(pass_if: str | None, gate: Any, scorers: Sequence[str] | None, *, has_baseline: bool) -> Criteria:
    """
    Parse the condition for passing and the rules of the gate.

    :param gate: A list of rules.
    :param scorers: Names of the scorers, or None if they are not known yet.
    :raises AssistantInputError: The condition or a rule is invalid, needs a condition or a baseline that is missing, or
        uses a judge without a rule on its agreement with people.
    """
    if not isinstance(gate, list | tuple):
        raise AssistantInputError(f"gate must be a list of rules, not {gate!r}", field="gate")
    rules = [parse_rule(rule, scorers) for rule in gate]
    condition = None if pass_if is None else parse_condition(pass_if, scorers)
    for rule in rules:
        if rule.name in OF_PASSING and condition is None:
            raise AssistantInputError(
                f"gate: {rule.text!r} needs pass_if, the condition for a question to pass",
                field="pass_if",
            )
    for rule in rules:
        if rule.needs_baseline and not has_baseline:
            raise AssistantInputError(
                f"gate: {rule.text!r} needs a baseline",
                todo="Set baseline='previous', or --against on the command line.",
                field="baseline",
            )
    check_calibration(rules, condition)
    return Criteria(condition, rules)
