"""Parsing conditions and rules, and the errors of invalid ones."""

from __future__ import annotations

import re

import pytest

from airflow_provider_assistant.evaluation.rules import check_calibration, check_pairwise, parse_condition, parse_rule
from airflow_provider_assistant.exceptions import AssistantInputError

NAMES = ("token_f1", "must_include", "my.own.score")


@pytest.mark.parametrize(
    ("text", "scores", "holds"),
    [
        ("token_f1 >= 0.8", {"token_f1": 0.8}, True),
        ("token_f1 >= 0.8", {"token_f1": 0.79}, False),
        ("token_f1 <= 8e-1", {"token_f1": 0.8}, True),
        ("token_f1 < 0.8", {"token_f1": 0.8}, False),
        ("must_include == 1", {"must_include": 1.0}, True),
        ("my.own.score >= -2", {"my.own.score": -1.0}, True),
        ("token_f1 >= 0.5 and must_include >= 1", {"token_f1": 0.5, "must_include": 1.0}, True),
        ("token_f1 >= 0.5 and must_include >= 1", {"token_f1": 0.5, "must_include": 0.5}, False),
    ],
)
def test_a_condition_holds_or_not(text, scores, holds):
    assert parse_condition(text, NAMES).holds(scores) is holds


def test_a_mean_that_is_off_by_rounding_is_on_the_threshold():
    value = sum([0.1] * 3)
    assert value != 0.3
    assert parse_condition("token_f1 <= 0.3").holds({"token_f1": value})
    assert not parse_condition("token_f1 > 0.3").holds({"token_f1": value})


def test_what_is_missing_leaves_a_condition_open_unless_another_part_fails():
    condition = parse_condition("token_f1 >= 0.5 and must_include >= 1", NAMES)
    assert condition.holds({"token_f1": None, "must_include": 1.0}) is None
    assert condition.holds({"token_f1": None, "must_include": 0.0}) is False


def test_what_does_not_apply_is_not_asked():
    condition = parse_condition("token_f1 >= 0.5 and must_include >= 1", NAMES)
    assert condition.names == ("token_f1", "must_include")
    assert condition.holds({"token_f1": 0.6}) is True
    assert condition.holds({}) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be text"),
        (0.5, "must be text"),
        ("token_f1", "is not 'scorer >= number'"),
        ("token_f1 >= nan", "is not 'scorer >= number'"),
        ("0.8 <= token_f1", "is not 'scorer >= number'"),
        ("token_f1 >= 0.5 or must_include >= 1", "is not 'scorer >= number'"),
        ("token_f1 >= 0.5 and", "a term is missing before or after 'and'"),
        ("__import__('os').system('x') >= 1", "is not 'scorer >= number'"),
        ("bleu >= 0.5", "there is no scorer 'bleu', only token_f1, must_include, my.own.score"),
    ],
)
def test_a_bad_condition_is_refused_with_what_is_wrong(text, says):
    with pytest.raises(AssistantInputError) as caught:
        parse_condition(text, NAMES)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)
    assert caught.value.field == "pass_if"


@pytest.mark.parametrize(
    ("text", "name", "tag", "of", "comparison", "threshold"),
    [
        ("coverage >= 0.98", "coverage", None, None, ">=", 0.98),
        ("coverage[billing] >= 1", "coverage", "billing", None, ">=", 1.0),
        ("token_f1[ two words ] >= 0.5", "token_f1", "two words", None, ">=", 0.5),
        ("token_f1[überall, p95] >= 0.5", "token_f1", "überall, p95", None, ">=", 0.5),
        ("token_f1 p5 >= 0.1", "token_f1", None, "p5", ">=", 0.1),
        ("token_f1 drop <= 0.02", "token_f1", None, "drop", "<=", 0.02),
        ("token_f1[billing] drop < 0.02", "token_f1", "billing", "drop", "<", 0.02),
        ("my.own.score >= 3", "my.own.score", None, None, ">=", 3.0),
    ],
)
def test_a_rule_is_read(text, name, tag, of, comparison, threshold):
    rule = parse_rule(text, NAMES)
    assert (rule.text, rule.name, rule.tag, rule.of) == (text, name, tag, of)
    assert (rule.term.comparison, rule.term.threshold) == (comparison, threshold)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be text"),
        ("token_f1", "write it like"),
        ("token_f1 >= 60%", "write it like"),
        ("token_f1[billing >= 0.5", "write it like"),
        ("token_f1 p95 drop <= 0.5", "write it like"),
        ("token_f1 >= 0.5 and coverage >= 1", "write it like"),
        ("token_f1[] >= 0.5", "no tag between the brackets"),
        ("bleu >= 0.5", "there is no scorer 'bleu'"),
        ("latency <= 20", "there is no scorer 'latency'"),
        ("token_f1 p96 >= 0.5", "the quantiles are p5, p25"),
        ("coverage worst >= 0.5", "coverage is one number and has no worst"),
        ("disagreement[billing] <= 0.5", "repetitions are compared over all questions only"),
        ("token_f1[billing] p95 >= 0.5", "quantiles are computed over all questions only"),
        ("errors drop <= 0.1", "errors is one number and has no drop"),
        ("newly_failing >= 1", "newly_failing can only be limited with <= or <"),
        ("compared <= 0.9", "compared can only be limited with >= or >"),
        ("newly_failing[billing] <= 1", "newly_failing is computed over all questions only"),
        ("token_f1 drop >= 0.02", "use <="),
        ("token_f1 drop <= -0.02", "the limit of a drop must not be negative"),
    ],
)
def test_a_bad_rule_is_refused_with_what_is_wrong(text, says):
    with pytest.raises(AssistantInputError) as caught:
        parse_rule(text, NAMES)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)
    assert caught.value.field == "gate"


AGREES = "judge.tone agreement >= 0.6 on >= 50 labels"


@pytest.mark.parametrize(
    "text", [AGREES, "judge.tone agreement>=.6 on>=50 labels", " judge.tone  agreement >= 6e-1 on >= 50  labels "]
)
def test_an_agreement_is_read(text):
    rule = parse_rule(text, ["judge.tone"])
    assert (rule.name, rule.is_agreement, rule.term.threshold, rule.labels) == ("judge.tone", True, 0.6, 50)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("judge.tone agreement >= 0.6", "end it with the number of labels"),
        ("judge.tone agreement >= 0.6 on >= 0 labels", "end it with the number of labels"),
        ("judge.tone agreement <= 0.6 on >= 50 labels", "only be limited with >= or >"),
        ("judge.tone[billing] agreement >= 0.6 on >= 50 labels", "not per tag"),
        ("token_f1 agreement >= 0.6 on >= 50 labels", "only the agreement of a judge"),
        ("judge.tone >= 0.6 on >= 50 labels", "only the agreement of a judge"),
        ("judge.tone agreement >= 0.6 on <= 50 labels", "write it like"),
        ("judge.other agreement >= 0.6 on >= 50 labels", "there is no scorer 'judge.other'"),
    ],
)
def test_a_bad_agreement_is_refused(text, says):
    with pytest.raises(AssistantInputError, match=re.escape(says)):
        parse_rule(text, ["judge.tone", "token_f1"])


@pytest.mark.parametrize(
    "rule", ["judge.tone >= 0.5", "judge.tone[a] >= 0.5", "judge.tone drop <= 0.1", "pass_rate >= 0.5"]
)
def test_a_judge_in_a_gate_needs_a_rule_on_its_agreement(rule):
    pass_if = parse_condition("token_f1 >= 0.5 and judge.tone >= 0.5")
    with pytest.raises(AssistantInputError, match="may decide only if they agree with those of people"):
        check_calibration([parse_rule(rule)], pass_if)
    other = parse_rule("judge.other agreement >= 0.6 on >= 50 labels")
    with pytest.raises(AssistantInputError):
        check_calibration([parse_rule(rule), other], pass_if)
    check_calibration([parse_rule(rule), parse_rule(AGREES)], pass_if)


def test_a_judge_that_decides_nothing_needs_no_labels():
    check_calibration([parse_rule("token_f1 >= 0.5"), parse_rule("pass_rate >= 0.5")], parse_condition("token_f1 >= 1"))
    check_calibration([parse_rule("coverage >= 0.5")], parse_condition("judge.tone >= 0.5"))


@pytest.mark.parametrize("rule", ["judge.pairwise >= 0", "judge.pairwise drop <= 0.1", "pass_rate >= 0.5"])
def test_the_judge_of_pairs_has_no_labels_and_decides_nothing(rule):
    pass_if = parse_condition("judge.pairwise >= 0")
    with pytest.raises(AssistantInputError, match="has no labels of people, so it only informs"):
        check_calibration([parse_rule(rule)], pass_if)
    with pytest.raises(AssistantInputError, match="has no labels of people"):
        parse_rule("judge.pairwise agreement >= 0.6 on >= 50 labels")


@pytest.mark.parametrize("baseline", [None, "previous", {"tag": "v1"}, "evaluations/nightly"])
def test_the_judge_of_pairs_needs_the_answers_of_the_baseline(baseline):
    with pytest.raises(AssistantInputError, match=r"Set baseline=\{'answers': path\}") as raised:
        check_pairwise(["token_f1", "judge.pairwise"], baseline)
    assert raised.value.field == "scorers"
    check_pairwise(["judge.tone"], baseline)
    check_pairwise(["judge.pairwise"], {"answers": "answers.parquet"})
