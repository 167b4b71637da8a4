"""Verdicts on the rules of a gate."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.gate import check_rules, verdict_of
from airflow_provider_assistant.evaluation.rules import parse_condition, parse_rule
from airflow_provider_assistant.evaluation.summary import (
    Agreement,
    Comparison,
    Difference,
    Distribution,
    JudgeSummary,
    PassRate,
    Questions,
    RepeatedScorer,
    Repetitions,
    ScorerSummary,
    Summary,
    TagSummary,
)
from airflow_provider_assistant.evaluation.verdict import Gate


def scorer(mean, *, up=True, **spread):
    return ScorerSummary(
        kind="k",
        higher_is_better=up,
        scored=8,
        unanswered=2,
        not_applicable=0,
        errors=0,
        mean=mean,
        spread=Distribution(count=8, **spread),
    )


def difference(mean, low, high, paired=50):
    return Difference(paired=paired, mean=mean, low=low, high=high, worse=0, better=0)


def comparison(scorers, tags=None, same=50, changed=0):
    return Comparison(
        baseline={"path": "p"},
        confidence=0.95,
        same=same,
        changed=changed,
        added=0,
        removed=0,
        coverage_before=1.0,
        scorers=scorers,
        tags=tags or {},
    )


def summary(**changes):
    found = Summary(
        name="n",
        questions=Questions(total=10, answered=8, unanswered={"failed": 2}, coverage=0.8),
        scorers={"token_f1": scorer(0.6, p5=0.1), "exact_match": scorer(None), "slow": scorer(4.0, up=False)},
        passes=PassRate(condition="token_f1 >= 0.5", passed=4, failed=1, not_judged=5, rate=0.8),
        latency=Distribution(count=8, p50=2.0, p95=20.0),
        tags={
            "billing": TagSummary(questions=4, answered=3, means={"token_f1": 0.5, "exact_match": None}, pass_rate=1.0)
        },
        gate=Gate(verdict="none", on_fail="report", rules=[]),
    )
    return found.model_copy(update=changes)


def judged(rule, found=None):
    (verdict,) = check_rules([parse_rule(rule)], found or summary())
    assert verdict.rule == rule
    return verdict


def test_rules_on_repetitions():
    one = RepeatedScorer(mean=0.7, low=0.6, high=0.8, worst=0.4, varying=0.5)
    found = summary(
        repetitions=Repetitions(
            most=3, questions=10, repeated=8, disagreement=0.25, unstable=None, scorers={"token_f1": one}
        )
    )
    worst = judged("token_f1 worst >= 0.5", found)
    assert (worst.verdict, worst.value, worst.reason) == (
        "failed",
        0.4,
        "token_f1 worst is 0.4",
    )
    assert judged("token_f1 worst >= 0.4", found).verdict == "passed"
    assert judged("disagreement <= 0.2", found).verdict == "failed"
    assert judged("disagreement <= 0.25", found).value == 0.25
    for rule in ("token_f1 worst >= 0.4", "disagreement <= 1"):
        once = judged(rule)
        assert once.verdict == "failed"
        assert "every question was asked once" in once.reason


def test_a_latency_that_is_not_known_passes_only_if_the_answers_were_noticed_in_time():
    polled = summary(latency=Distribution(count=0), noticed_after=Distribution(count=8, p50=8.0, p95=60.0))
    verdict = judged("latency p95 <= 20", polled)
    assert (verdict.verdict, verdict.value) == ("failed", None)
    assert "'noticed_after p95 <= 20' instead" in verdict.reason
    assert "only 0 of 8 answers were judged" in verdict.reason
    verdict = judged("latency p95 <= 60", polled)
    assert (verdict.verdict, verdict.value) == ("passed", 60.0)
    assert verdict.reason == "latency p95 is at most 60: polls had noticed the answers by then"
    assert judged("latency p95 >= 1", polled).verdict == "failed", "they may have been ready at once"
    assert judged("noticed_after p95 <= 20", polled).verdict == "failed"
    assert judged("noticed_after p95 <= 90", polled).verdict == "passed"
    assert judged("latency p95 <= 20", summary(latency=Distribution(count=0))).verdict == "failed"


@pytest.mark.parametrize(
    ("rules", "known", "verdict"),
    [
        (["latency p95 <= 20"], 8, "passed"),
        (["latency p95 <= 20"], 7, "failed"),
        (["latency p95 <= 20", "coverage >= 0.75"], 6, "passed"),
        (["latency p95 <= 20", "coverage >= 0.75"], 5, "failed"),
        (["coverage > 0.5", "latency p95 <= 20"], 4, "passed"),
        (["coverage[billing] >= 0.1", "coverage <= 1", "latency p95 <= 20"], 7, "failed"),
    ],
)
def test_the_rule_on_coverage_says_how_many_answers_must_have_a_latency(rules, known, verdict):
    found = summary(latency=Distribution(count=known, p95=2.0))
    verdicts = {one.rule: one for one in check_rules([parse_rule(rule) for rule in rules], found)}
    latency = verdicts["latency p95 <= 20"]
    assert latency.verdict == verdict
    if verdict == "failed":
        assert f"only {known} of 8 answers were judged" in latency.reason
    elif known < 8:
        assert f"{8 - known} of 8 answers were not judged" in latency.reason


@pytest.mark.parametrize(
    ("p95", "error", "verdict", "says"),
    [
        (19.0, 5.0, "passed", "latency p95 is 19; measured for 8 answers, at most 5 s too long"),
        (21.0, 5.0, "failed", "which is too inexact to decide: set a smaller poll_interval"),
        (26.0, 5.0, "failed", "latency p95 is 26; measured for 8 answers, at most 5 s too long"),
    ],
)
def test_a_measured_latency_says_how_exact_it_is(p95, error, verdict, says):
    found = summary(
        latency=Distribution(count=8, p95=p95),
        latency_error=Distribution(count=8, maximum=error),
    )
    judgement = judged("latency p95 <= 20", found)
    assert judgement.verdict == verdict
    assert says in judgement.reason
    assert ("inexact" in judgement.reason) is (p95 == 21.0)


def confident(scored, mean, **changes):
    one = scorer(mean, p5=0.2).model_copy(update={"scored": scored, "not_judged": 8 - scored})
    tag = TagSummary(
        questions=4, answered=4, means={"confidence_score": mean}, scored={"confidence_score": min(scored, 3)}
    )
    return summary(scorers={"confidence_score": one}, tags={"billing": tag}, **changes)


@pytest.mark.parametrize(
    ("rule", "scored", "verdict", "says"),
    [
        ("confidence_score >= 0.6", 8, "passed", "confidence_score is 0.7"),
        ("confidence_score >= 0.8", 8, "failed", "confidence_score is 0.7"),
        ("confidence_score p5 >= 0.2", 8, "passed", "confidence_score p5 is 0.2"),
        ("confidence_score >= 0.6", 7, "failed", "no data: only 7 of 8 answers were judged, and 90 % are necessary"),
        ("confidence_score >= 0.6", 0, "failed", "only 0 of 8 answers were judged"),
        ("confidence_score[billing] >= 0.6", 8, "failed", "only 3 of 4 answers were judged"),
        ("confidence_score drop <= 1", 7, "failed", "only 7 of 8 answers were judged"),
        ("confidence_score drop <= 1", 8, "not_judged", "no baseline yet"),
    ],
)
def test_a_rule_on_confidence_needs_enough_answers_with_a_confidence(rule, scored, verdict, says):
    found = judged(rule, confident(scored, 0.7))
    assert found.verdict == verdict
    assert says in found.reason


def test_a_pass_rate_by_confidence_needs_enough_answers_with_a_confidence():
    rules, pass_if = [parse_rule("pass_rate >= 0.5")], parse_condition("token_f1 >= 0.5 and confidence_score >= 0.6")
    for judged_answers, verdict in ((8, "passed"), (5, "failed")):
        passes = PassRate(condition="c", passed=judged_answers, failed=0, not_judged=10 - judged_answers, rate=1.0)
        (found,) = check_rules(rules, summary(passes=passes), pass_if)
        assert found.verdict == verdict
        assert check_rules(rules, summary(passes=passes), parse_condition("token_f1 >= 0.5"))[0].verdict == "passed"


def test_latencies_from_different_sources_are_not_compared():
    changed = comparison({}).model_copy(update={"changed_latency": True})
    found = judged("latency drop <= 1", summary(comparison=changed))
    assert found.verdict == "not_judged"
    assert "only one of the two latencies was measured" in found.reason


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("coverage >= 0.8", 0.8),
        ("coverage[billing] >= 0.75", 0.75),
        ("pass_rate >= 0.8", 0.8),
        ("pass_rate[billing] >= 1", 1.0),
        ("token_f1 >= 0.6", 0.6),
        ("token_f1[billing] >= 0.5", 0.5),
        ("token_f1 p5 >= 0.1", 0.1),
        ("latency p95 <= 20", 20.0),
    ],
)
def test_a_rule_passes_at_its_threshold_and_fails_beyond_it(rule, value):
    verdict = judged(rule)
    assert (verdict.verdict, verdict.value) == ("passed", value)
    strict = rule.replace(">=", ">").replace("<=", "<")
    assert (judged(strict).verdict, judged(strict).value) == ("failed", value)


def test_a_reason_has_as_many_digits_as_it_takes_to_see_the_difference():
    found = summary(scorers={"token_f1": scorer(0.5999999)})
    assert judged("token_f1 >= 0.6", found).reason == "token_f1 is 0.5999999"


def test_a_mean_that_leaves_questions_out_says_so():
    assert judged("token_f1 >= 0.6").reason == "token_f1 is 0.6; 2 of 10 questions have no answer and are not in it"


@pytest.mark.parametrize(
    ("rule", "found", "says"),
    [
        ("exact_match >= 0", None, "no question has such a score"),
        ("exact_match p95 >= 0", None, "no question has such a score"),
        ("exact_match[billing] >= 0", None, "no question has such a score"),
        ("token_f1[typo] >= 0", None, "no question has the tag 'typo'"),
        ("pass_rate >= 0", summary(passes=None), "no question was judged"),
        ("latency p95 <= 9", summary(latency=Distribution(count=0)), "only 0 of 8 answers were judged"),
        (
            "token_f1 drop <= 1",
            summary(comparison=comparison({"token_f1": difference(None, None, None, 0)}, same=0, changed=9)),
            "no question was scored here and in the baseline; 0 are the same, 9 changed",
        ),
        (
            "token_f1 drop <= 1",
            summary(comparison=comparison({"token_f1": difference(0.0, None, None, 1)})),
            "1 question in common is too few",
        ),
        (
            "token_f1[typo] drop <= 1",
            summary(comparison=comparison({"token_f1": difference(0.0, 0.0, 0.0)})),
            "no question with the tag 'typo' was scored",
        ),
    ],
)
def test_a_rule_with_nothing_to_judge_by_fails(rule, found, says):
    verdict = judged(rule, found)
    assert (verdict.verdict, verdict.value) == ("failed", None)
    assert verdict.reason.startswith("no data: ")
    assert says in verdict.reason
    assert verdict_of([verdict]) == "failed"


@pytest.mark.parametrize(("low", "verdict"), [(-0.02, "passed"), (-0.0201, "failed"), (0.01, "passed")])
def test_a_drop_is_judged_by_the_lower_end_of_the_interval(low, verdict):
    found = summary(comparison=comparison({"token_f1": difference(0.015, low, 0.03)}))
    assert judged("token_f1 drop <= 0.02", found).verdict == verdict
    assert judged("token_f1 drop <= 0.02", found).value == -low


def test_no_change_is_a_loss_of_zero_without_a_sign():
    verdict = judged("token_f1 drop <= 0.02", summary(comparison=comparison({"token_f1": difference(0.0, 0.0, 0.0)})))
    assert str(verdict.value) == "0.0"
    assert verdict.reason.endswith("at worst it lost 0")


@pytest.mark.parametrize(("high", "verdict"), [(2.0, "passed"), (2.1, "failed"), (-1.0, "passed")])
def test_where_less_is_better_a_drop_is_a_rise(high, verdict):
    found = summary(comparison=comparison({"slow": difference(0.1, -9.0, high)}))
    assert judged("slow drop <= 2", found).verdict == verdict


def test_a_drop_of_a_tag_looks_at_its_questions():
    found = summary(
        comparison=comparison(
            {"token_f1": difference(0.0, 0.0, 0.0)}, {"billing": {"token_f1": difference(-0.2, -0.3, -0.1)}}
        )
    )
    assert judged("token_f1 drop <= 0.02", found).verdict == "passed"
    verdict = judged("token_f1[billing] drop <= 0.02", found)
    assert verdict.verdict == "failed"
    assert verdict.reason == (
        "token_f1 of 'billing' changed by -0.2000 (95 %: -0.3000 to -0.1000) over 50 questions; at worst it lost 0.3"
    )


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (summary(), "there is no baseline yet"),
        (summary(comparison=comparison({})), "the baseline was not scored with token_f1"),
    ],
)
def test_a_comparison_with_what_is_not_there_yet_is_not_judged_and_does_not_fail(found, says):
    verdict = judged("token_f1 drop <= 0.02", found)
    assert (verdict.verdict, verdict.value) == ("not_judged", None)
    assert says in verdict.reason
    assert verdict_of([verdict]) == "passed"


def test_one_failed_rule_fails_the_gate():
    rules = [parse_rule(rule) for rule in ("coverage >= 0.5", "token_f1 >= 0.99", "token_f1 drop <= 0.1")]
    verdicts = check_rules(rules, summary())
    assert [verdict.verdict for verdict in verdicts] == ["passed", "failed", "not_judged"]
    assert verdict_of(verdicts) == "failed"


def test_no_rules_are_no_verdict():
    assert verdict_of(check_rules([], summary())) == "none"


def by_judge(kappa, labels=50, mean=0.9):
    ends = (None, None) if kappa is None else (kappa - 0.1, kappa + 0.1)
    counts = dict.fromkeys(("both_pass", "only_human", "only_judge", "both_fail"), 0)
    rates = {"true_pass_rate": 0.9, "true_fail_rate": 0.9}
    found = Agreement(labels=labels, **counts, kappa=kappa, low=ends[0], high=ends[1], **rates) if labels else None
    judged = JudgeSummary(model="m", rubric="r", prompt_version=1, input_tokens=1, output_tokens=1, agreement=found)
    return summary(scorers={"judge.tone": scorer(mean).model_copy(update={"judge": judged})})


AGREES = "judge.tone agreement >= 0.6 on >= 50 labels"


@pytest.mark.parametrize(
    ("kappa", "labels", "verdict", "says"),
    [
        (0.6, 50, "passed", "kappa of judge.tone and people is 0.6 (95 %: 0.50 to 0.70) over 50 labels"),
        (0.59, 50, "failed", "is 0.59"),
        (0.9, 49, "failed", "no data: 49 labels were judged, and 50 are necessary"),
        (None, 50, "failed", "gave all 50 answers the same verdict"),
        (None, 0, "failed", "no data: 0 labels"),
    ],
)
def test_the_agreement_of_a_judge_is_kappa_over_enough_labels(kappa, labels, verdict, says):
    found = judged(AGREES, by_judge(kappa, labels))
    assert found.verdict == verdict
    assert says in found.reason


@pytest.mark.parametrize(
    "rule", ["judge.tone >= 0.5", "judge.tone p5 >= 0.5", "pass_rate >= 0.5", "judge.tone drop <= 1"]
)
def test_a_judge_without_agreement_decides_nothing(rule):
    rules, pass_if = [parse_rule(rule), parse_rule(AGREES)], parse_condition("judge.tone >= 0.5")
    [first, second] = check_rules(rules, by_judge(0.1), pass_if)
    assert (first.verdict, second.verdict) == ("not_judged", "failed")
    assert "agreement of judge.tone with people" in first.reason
    assert check_rules(rules[:1], by_judge(0.1))[0].rule == rule


def test_a_drop_of_a_changed_judge_is_not_judged():
    changed = comparison({}).model_copy(update={"changed_judges": ["judge.tone"]})
    found = judged("judge.tone drop <= 0.02", by_judge(0.9).model_copy(update={"comparison": changed}))
    assert found.verdict == "not_judged"
    assert "another model, rubric or prompt for judge.tone" in found.reason
