"""Verdicts on the rules of a gate."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.gate import check_rules, verdict_of
from airflow_provider_assistant.evaluation.judge_summary import Agreement, JudgeSummary
from airflow_provider_assistant.evaluation.rules import parse_condition, parse_rule
from airflow_provider_assistant.evaluation.summary import (
    Comparison,
    Difference,
    Distribution,
    PassRate,
    Questions,
    RepeatedScorer,
    Repetitions,
    ScorerSummary,
    Summary,
    TagSummary,
)
from airflow_provider_assistant.evaluation.verdict import Gate, NamedQuestions

PASSES = PassRate(condition="token_f1 >= 0.5", passed=3, failed=0, not_judged=1, answered=3, rate=1.0)


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


def difference(mean, error, paired=50, comparable=None, **fields):
    return Difference(
        paired=paired,
        comparable=paired if comparable is None else comparable,
        mean=mean,
        low=mean,
        high=mean,
        error=error,
        worse=0,
        better=0,
        **{"freedom": 1000, **fields},
    )


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
            "billing": TagSummary(questions=4, answered=3, means={"token_f1": 0.5, "exact_match": None}, passes=PASSES)
        },
        gate=Gate(verdict="none", on_fail="report", rules=[]),
    )
    return found.model_copy(update=changes)


def judged(rule, found=None):
    verdict, *_ = check_rules([parse_rule(rule)], found or summary())
    assert verdict.rule == rule
    return verdict


def test_rules_on_repetitions():
    one = RepeatedScorer(mean=0.7, low=0.6, high=0.8, worst=0.4, varying=0.5)
    repeated = {"most": 3, "questions": 10, "repeated": 8, "unstable": None}
    found = summary(repetitions=Repetitions(**repeated, disagreement=0.25, scorers={"token_f1": one}))
    for rule, verdict, value in (
        ("token_f1 worst >= 0.5", "failed", 0.4),
        ("token_f1 worst >= 0.4", "passed", 0.4),
        ("disagreement <= 0.2", "failed", 0.25),
        ("disagreement <= 0.25", "passed", 0.25),
    ):
        assert (judged(rule, found).verdict, judged(rule, found).value) == (verdict, value)
        assert "every question was asked once" in judged(rule).reason


def test_a_latency_that_is_not_known_passes_only_if_the_answers_were_noticed_in_time():
    polled = summary(latency=Distribution(count=0), noticed_after=Distribution(count=8, p50=8.0, p95=60.0))
    for rule, verdict, value in (
        ("latency p95 <= 20", "failed", None),
        ("latency p95 <= 60", "passed", 60.0),
        # They may have been ready at once.
        ("latency p95 >= 1", "failed", None),
        ("noticed_after p95 <= 20", "failed", 60.0),
        ("noticed_after p95 <= 90", "passed", 60.0),
    ):
        assert (judged(rule, polled).verdict, judged(rule, polled).value) == (verdict, value), rule
    assert "noticed_after p95 <= 20" in judged("latency p95 <= 20", polled).reason
    assert judged("latency p95 <= 20", summary(latency=Distribution(count=0))).verdict == "failed"


@pytest.mark.parametrize(
    ("rules", "known", "verdict"),
    [
        (["latency p95 <= 20"], 8, "passed"),
        (["latency p95 <= 20"], 7, "failed"),
        (["latency p95 <= 20", "coverage >= 0.75"], 6, "passed"),
        (["latency p95 <= 20", "coverage >= 0.75"], 5, "failed"),
        (["coverage[billing] >= 0.1", "coverage <= 1", "latency p95 <= 20"], 7, "failed"),
    ],
)
def test_the_rule_on_coverage_says_how_many_answers_must_have_a_latency(rules, known, verdict):
    found = summary(latency=Distribution(count=known, p95=2.0))
    verdicts = {one.rule: one for one in check_rules([parse_rule(rule) for rule in rules], found)}
    assert verdicts["latency p95 <= 20"].verdict == verdict


@pytest.mark.parametrize(("p95", "verdict"), [(19.0, "passed"), (21.0, "failed"), (26.0, "failed")])
def test_a_measured_latency_says_how_exact_it_is(p95, verdict):
    error = Distribution(count=8, maximum=5.0)
    judgement = judged("latency p95 <= 20", summary(latency=Distribution(count=8, p95=p95), latency_error=error))
    assert judgement.verdict == verdict
    assert ("inexact" in judgement.reason) is (p95 == 21.0)


def confident(scored, mean, **changes):
    one = scorer(mean, p5=0.2).model_copy(update={"scored": scored, "not_judged": 8 - scored})
    tag = TagSummary(
        questions=4, answered=4, means={"confidence_score": mean}, scored={"confidence_score": min(scored, 3)}
    )
    return summary(scorers={"confidence_score": one}, tags={"billing": tag}, **changes)


@pytest.mark.parametrize(
    ("rule", "scored", "verdict"),
    [
        ("confidence_score >= 0.6", 8, "passed"),
        ("confidence_score >= 0.8", 8, "failed"),
        ("confidence_score p5 >= 0.2", 8, "passed"),
        ("confidence_score >= 0.6", 7, "failed"),
        ("confidence_score >= 0.6", 0, "failed"),
        ("confidence_score[billing] >= 0.6", 8, "failed"),
        ("confidence_score drop <= 1", 8, "not_judged"),
    ],
)
def test_a_rule_on_confidence_needs_enough_answers_with_a_confidence(rule, scored, verdict):
    assert judged(rule, confident(scored, 0.7)).verdict == verdict


def test_a_pass_rate_by_confidence_needs_enough_answers_with_a_confidence():
    rules, pass_if = [parse_rule("pass_rate >= 0.5")], parse_condition("token_f1 >= 0.5 and confidence_score >= 0.6")
    for judged_answers, verdict in ((8, "passed"), (5, "failed")):
        passes = PASSES.model_copy(
            update={"passed": judged_answers, "failed": 0, "not_judged": 10 - judged_answers, "answered": 8}
        )
        found, *_ = check_rules(rules, summary(passes=passes), pass_if)
        assert found.verdict == verdict
        assert check_rules(rules, summary(passes=passes), parse_condition("token_f1 >= 0.5"))[0].verdict == "passed"


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


def test_a_reason_shows_the_difference_and_the_questions_that_are_not_in_it():
    found = summary(scorers={"token_f1": scorer(0.5999999)})
    assert "0.5999999" in judged("token_f1 >= 0.6", found).reason
    assert "2 of 10 questions" in judged("token_f1 >= 0.6").reason


@pytest.mark.parametrize(
    ("rule", "found", "says"),
    [
        ("exact_match >= 0", None, ""),
        ("exact_match p95 >= 0", None, ""),
        ("exact_match[billing] >= 0", None, ""),
        ("token_f1[typo] >= 0", None, "'typo'"),
        ("token_f1[typo] drop <= 1", summary(comparison=comparison({"token_f1": difference(0.0, 0.0)})), "'typo'"),
        ("pass_rate >= 0", summary(passes=None), ""),
        ("latency p95 <= 9", summary(latency=Distribution(count=0)), "0 of 8 answers"),
        (
            "token_f1 drop <= 1",
            summary(comparison=comparison({"token_f1": difference(0.0, 0.1, 2, 100)}, same=2, changed=98)),
            "2 of 100 questions",
        ),
    ],
)
def test_a_rule_with_nothing_to_judge_by_fails(rule, found, says):
    verdict = judged(rule, found)
    assert (verdict.verdict, verdict.value) == ("failed", None)
    assert verdict.reason.startswith("no data: ")
    assert says in verdict.reason


@pytest.mark.parametrize(
    ("mean", "error", "word"),
    [
        (-0.1, 0.02, "worse"),
        (-0.021, 0.005, "worse"),
        # Not more than the rule allows, although it is more than chance.
        (-0.02, 0.001, "passed"),
        (0.1, 0.02, "passed"),
        (0.0, 0.02, "passed"),
        # More than the rule allows, but chance explains it.
        (-0.05, 0.04, "not proven"),
        # Chance explains even a loss of 0.1, so a small loss says nothing.
        (-0.05, 0.06, "too few questions to say"),
        (0.05, 0.06, "too few questions to say"),
        (-0.3, 0.06, "worse"),
    ],
)
def test_a_loss_fails_only_if_it_is_more_than_chance_explains(mean, error, word):
    for up in (True, False):
        comparisons = comparison({"x": difference(mean if up else -mean, error)})
        verdict = judged("x drop <= 0.02", summary(comparison=comparisons, scorers={"x": scorer(0.5, up=up)}))
        assert verdict.word == word
        assert verdict.is_worse == (word == "worse")
        assert verdict.verdict == ("failed" if word == "worse" else verdict.verdict)
        assert verdict.value == -mean
        assert str(verdict.value) != "-0.0"


def test_a_scorer_without_a_range_has_too_few_questions_only_beyond_its_own_threshold():
    seconds = scorer(4.0, up=False).model_copy(update={"kind": "latency"})
    for error, word in ((0.5, "passed"), (2.0, "too few questions to say")):
        found = summary(comparison=comparison({"slow": difference(0.1, error)}), scorers={"slow": seconds})
        assert judged("slow drop <= 2", found).word == word


def test_the_last_three_runs_together_show_a_smaller_loss_if_this_run_is_worse_itself():
    for mean, word in ((-0.06, "worse"), (-0.04, "not proven")):
        three = difference(mean, 0.04, together=-0.06, together_error=0.025)
        verdict = judged("token_f1 drop <= 0.02", summary(comparison=comparison({"token_f1": three})))
        assert verdict.word == word
        assert ("last three runs together lost 0.06" in verdict.reason) == (word == "worse")


def test_the_more_rules_limit_a_loss_the_more_proof_each_needs():
    found = summary(comparison=comparison({"token_f1": difference(-0.07, 0.03)}))
    rules = [parse_rule(f"token_f1 drop <= {limit}") for limit in (0.02, 0.03, 0.04)]
    assert check_rules(rules[:1], found)[0].word == "worse"
    assert check_rules(rules, found)[0].word == "not proven"


def test_a_drop_of_a_tag_looks_at_its_questions_and_shares_are_compared_like_scores():
    tags = {"billing": {"token_f1": difference(-0.2, 0.05)}}
    shares = {"passes": difference(-0.2, 0.02), "coverage": difference(0.0, 0.02)}
    found = summary(comparison=comparison({"token_f1": difference(0.0, 0.01)}, tags).model_copy(update=shares))
    for rule, word in (
        ("token_f1 drop <= 0.02", "passed"),
        ("token_f1[billing] drop <= 0.02", "worse"),
        ("pass_rate drop <= 0.02", "worse"),
        ("coverage drop <= 0.02", "passed"),
    ):
        assert judged(rule, found).word == word
    assert "over 50 questions" in judged("token_f1[billing] drop <= 0.02", found).reason


def test_a_rule_says_how_many_questions_must_be_compared():
    half = comparison({"token_f1": difference(0.0, 0.01, 40, 80)})
    found = summary(comparison=half)
    drop = parse_rule("token_f1 drop <= 0.02")
    for text, words in {
        "coverage >= 0.8": ("passed", "failed"),
        "coverage >= 0.5": ("passed", "passed"),
        "compared >= 0.5": ("passed", "passed"),
        "compared >= 0.51": ("failed", "failed"),
    }.items():
        verdicts = check_rules([parse_rule(text), drop], found)
        assert tuple(verdict.verdict for verdict in verdicts[:2]) == words, text
    assert judged("compared >= 0.9").verdict == "not_judged"
    assert judged("compared >= 0.9", summary(comparison=comparison({}))).verdict == "failed"


def test_questions_that_always_passed_and_fail_now_are_counted():
    known = summary(comparison=comparison({}), newly_failing=NamedQuestions.of(["a", "b"]))
    assert judged("newly_failing <= 2", known).verdict == "passed"
    verdict = judged("newly_failing <= 1", known)
    assert (verdict.verdict, verdict.value) == ("failed", 2)
    assert judged("newly_failing <= 1").verdict == "not_judged"


@pytest.mark.parametrize(
    ("rule", "with_errors", "verdict"),
    [
        ("token_f1 >= 0.6", 0.6, "passed"),
        ("token_f1 >= 0.6", 0.59, "failed"),
        ("token_f1 p5 >= 0.1", 0.6, "failed"),
        ("token_f1[billing] >= 0.5", 0.6, "failed"),
        ("pass_rate >= 0.8", 0.6, "failed"),
        ("pass_rate[billing] >= 0.8", 0.6, "failed"),
        ("coverage >= 0.8", 0.6, "passed"),
    ],
)
def test_errors_that_could_hide_the_opposite_fail_a_rule(rule, with_errors, verdict):
    failing = scorer(0.6, p5=0.1).model_copy(update={"errors": 2, "mean_with_errors": with_errors})
    passes = PASSES.model_copy(update={"rate": 0.9, "rate_with_errors": 0.7})
    tag = summary().tags["billing"].model_copy(update={"means_with_errors": {"token_f1": 0.4}, "passes": passes})
    found = summary(
        scorers={"token_f1": failing}, errors=NamedQuestions.of(["a", "b"]), passes=passes, tags={"billing": tag}
    )
    judgement = judged(rule, found)
    assert judgement.verdict == verdict
    if verdict == "failed":
        assert "2 answers could not be scored" in judgement.reason
    # A rule on errors says how many are tolerated.
    allowed = check_rules([parse_rule(rule), parse_rule("errors <= 0.25")], found)
    assert [one.verdict for one in allowed[:2]] == ["passed", "passed"]
    assert judged("errors <= 0.24", found).verdict == "failed"


def test_a_gate_without_a_rule_on_coverage_needs_most_answers():
    rules = [parse_rule("token_f1 >= 0.5")]
    implied = check_rules(rules, summary())[1]
    assert (implied.rule, implied.verdict) == ("coverage >= 0.9", "failed")
    assert "applies because the gate has none on coverage" in implied.reason
    whole = summary(questions=Questions(total=10, answered=9, unanswered={"failed": 1}, coverage=0.9))
    assert len(check_rules(rules, whole)) == 1
    assert len(check_rules([*rules, parse_rule("coverage >= 0.1")], summary())) == 2


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("token_f1 drop <= 0.02", summary()),
        ("token_f1 drop <= 0.02", summary(comparison=comparison({}))),
        # Latencies of two sources, and verdicts of two judges.
        ("latency drop <= 1", summary(comparison=comparison({}).model_copy(update={"changed_latency": True}))),
        ("slow drop <= 1", summary(comparison=comparison({}).model_copy(update={"changed_judges": ["slow"]}))),
    ],
)
def test_a_comparison_with_what_is_not_there_is_not_judged_and_does_not_fail(rule, found):
    verdict = judged(rule, found)
    assert (verdict.verdict, verdict.value) == ("not_judged", None)
    assert verdict_of([verdict]) == "passed"


def test_one_failed_rule_fails_the_gate_and_no_rules_are_no_verdict():
    rules = [parse_rule(rule) for rule in ("coverage >= 0.5", "token_f1 >= 0.99", "token_f1 drop <= 0.1")]
    verdicts = check_rules(rules, summary())
    assert [verdict.verdict for verdict in verdicts] == ["passed", "failed", "not_judged"]
    assert (verdict_of(verdicts), verdict_of(check_rules([], summary()))) == ("failed", "none")


def by_judge(kappa, labels=50, mean=0.9):
    ends = (None, None) if kappa is None else (kappa - 0.1, kappa + 0.1)
    counts = dict.fromkeys(("both_pass", "only_human", "only_judge", "both_fail"), 0)
    rates = {"true_pass_rate": 0.9, "true_fail_rate": 0.9}
    found = Agreement(labels=labels, **counts, kappa=kappa, low=ends[0], high=ends[1], **rates) if labels else None
    judged = JudgeSummary(model="m", rubric="r", prompt_version=1, input_tokens=1, output_tokens=1, agreement=found)
    return summary(scorers={"judge.tone": scorer(mean).model_copy(update={"judge": judged})})


AGREES = "judge.tone agreement >= 0.6 on >= 50 labels"


@pytest.mark.parametrize(
    ("kappa", "labels", "verdict"),
    [(0.6, 50, "passed"), (0.59, 50, "failed"), (0.9, 49, "failed"), (None, 50, "failed"), (None, 0, "failed")],
)
def test_the_agreement_of_a_judge_is_kappa_over_enough_labels(kappa, labels, verdict):
    assert judged(AGREES, by_judge(kappa, labels)).verdict == verdict


@pytest.mark.parametrize(
    "rule", ["judge.tone >= 0.5", "judge.tone p5 >= 0.5", "pass_rate >= 0.5", "judge.tone drop <= 1"]
)
def test_a_judge_without_agreement_decides_nothing(rule):
    rules, pass_if = [parse_rule(rule), parse_rule(AGREES)], parse_condition("judge.tone >= 0.5")
    first, second, _coverage = check_rules(rules, by_judge(0.1), pass_if)
    assert (first.verdict, second.verdict) == ("not_judged", "failed")
    assert "agreement of judge.tone with people" in first.reason
    assert check_rules(rules[:1], by_judge(0.1))[0].rule == rule
