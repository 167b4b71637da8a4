"""Rules and conditions: what is accepted, and what is refused with what to write."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.rules import Rule, Term, parse_condition, parse_criteria, parse_rule
from airflow_provider_assistant.exceptions import AssistantInputError

SCORERS = ["token_f1", "must_include", "latency", "confidence_score", "column:cost", "judge.tone", "pkg.own"]


@pytest.mark.parametrize(
    ("text", "figure", "base", "tag", "is_drop", "limit", "labels"),
    [
        ("coverage >= .98", "coverage", "coverage", None, False, 0.98, 0),
        ("pass_rate[a b]>=1", "pass_rate[a b]", "pass_rate", "a b", False, 1.0, 0),
        (" token_f1 [billing] >= 5e-1 ", "token_f1[billing]", "token_f1", "billing", False, 0.5, 0),
        ("latency p95 <= 20", "latency p95", "latency", None, False, 20.0, 0),
        ("latency drop <= 2", "latency", "latency", None, True, 2.0, 0),
        ("token_f1[billing] drop <= 0.02", "token_f1[billing]", "token_f1", "billing", True, 0.02, 0),
        ("newly_failing < 3", "newly_failing", "newly_failing", None, False, 3.0, 0),
        ("confidence_score >= 70", "confidence_score", "confidence_score", None, False, 70.0, 0),
        ("column:cost <= 5", "column:cost", "column:cost", None, False, 5.0, 0),
        ("judge.tone agreement >= 0.6 on >= 50 labels", "judge.tone agreement", "judge.tone", None, False, 0.6, 50),
        ("pkg.own == 1", "pkg.own", "pkg.own", None, False, 1.0, 0),
    ],
)
def test_a_rule_is_a_figure_a_comparison_and_a_number(text, figure, base, tag, is_drop, limit, labels):
    rule = parse_rule(text, SCORERS)
    assert rule == Rule(text, figure, base, tag, is_drop, Term(figure, rule.term.comparison, limit), labels)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("covrage >= 0.9", "there is no figure 'covrage'; did you mean 'coverage'"),
        ("coverage >= 98", "coverage is from 0 to 1; write 0.98 for 98 %"),
        ("token_f1 drop <= 2", "token_f1 is from 0 to 1; write 0.02 for 2 %"),
        ("token_f1[billing] >= -1", "is from 0 to 1"),
        ("token_f1 drop >= 0.1", "the limit of a drop is an upper one"),
        ("newly_failing drop <= 1", "newly_failing has no drop"),
        ("newly_failing >= 1", "can only be limited with <= or <"),
        ("newly_failing[a] <= 1", "there is no figure 'newly_failing[a]'"),
        ("token_f1[] >= 0.5", "there is no figure 'token_f1[]'"),
        ("latency p90 <= 2", "there is no figure 'latency p90'; did you mean"),
        ("token_f1 p95 >= 0.5", "there is no figure 'token_f1 p95'"),
        ("latency p95 drop <= 2", "latency p95 has no drop"),
        ("errors <= 0.1", "The figures are column:cost, confidence_score, coverage"),
        ("chrf >= 0.5", "there is no figure 'chrf'"),
        ("judge.tone agreement >= 0.6", "end it with the number of labels"),
        ("judge.tone agreement <= 0.6 on >= 50 labels", "can only be limited with >= or >"),
        ("token_f1 agreement >= 0.6 on >= 50 labels", "there is no figure 'token_f1 agreement'"),
        ("token_f1 >= 0.5 on >= 50 labels", "only the agreement of a judge"),
        ("token_f1 >= 50 %", "Write it like"),
        ("token_f1 >= __import__('os')", "Write it like"),
        ("", "it must be text"),
        (None, "it must be text"),
    ],
)
@pytest.mark.promise("evaluation", "A rule that can never pass or never fail is refused when the DAG is parsed.")
def test_a_rule_that_means_nothing_is_refused_with_what_to_write(text, says):
    with pytest.raises(AssistantInputError) as raised:
        parse_rule(text, SCORERS)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("token_f1 > high", "'token_f1 > high' is not 'scorer >= number'"),
        ("token_f1 >= 0.5 and", "'' is not 'scorer >= number'"),
        ("token_f1 >= 2", "token_f1 is from 0 to 1"),
        ("tokn_f1 >= 0.5", "there is no scorer 'tokn_f1'; did you mean 'token_f1'"),
        ("coverage >= 0.5", "there is no scorer 'coverage'"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(text, says):
    with pytest.raises(AssistantInputError) as raised:
        parse_condition(text, SCORERS)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("pass_if", "gate", "has_baseline", "says"),
    [
        (None, ["pass_rate >= 0.5"], True, "needs pass_if"),
        (None, ["newly_failing <= 0"], True, "needs pass_if"),
        ("token_f1 >= 0.5", ["newly_failing <= 0"], False, "needs a baseline"),
        (None, ["token_f1 drop <= 0.1"], False, "needs a baseline"),
        (None, ["judge.tone >= 0.8"], True, "Add a rule such as 'judge.tone agreement"),
        ("judge.tone >= 0.5", ["pass_rate drop <= 0.1"], True, "Add a rule such as 'judge.tone agreement"),
        (None, "coverage >= 0.9", True, "gate must be a list of rules"),
    ],
)
def test_rules_that_lack_something_are_refused(pass_if, gate, has_baseline, says):
    with pytest.raises(AssistantInputError) as raised:
        parse_criteria(pass_if, gate, SCORERS, has_baseline=has_baseline)
    assert says in str(raised.value)


def test_a_judge_with_a_rule_on_its_agreement_may_decide():
    agreement = "judge.tone agreement >= 0.6 on >= 50 labels"
    criteria = parse_criteria("judge.tone >= 0.5", ["pass_rate >= 0.5", agreement], SCORERS)
    assert [rule.figure for rule in criteria.rules] == ["pass_rate", "judge.tone agreement"]


def test_a_difference_of_binary_floats_is_none():
    assert Term("x", ">=", 0.3).holds(0.1 + 0.2)
    assert Term("x", "<=", 0.3).holds(0.1 + 0.2)
    assert not Term("x", ">", 0.3).holds(0.1 + 0.2)
