"""Verdicts of the gate on figures that are near their limits, and on judges that may not decide."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_assistant.evaluation.compare import by_chance, change
from airflow_provider_assistant.evaluation.gate import formatted, verdict_on_loss
from airflow_provider_assistant.evaluation.judge import Judged
from airflow_provider_assistant.evaluation.rules import parse_rule
from airflow_provider_assistant.evaluation.summary import Agreement, JudgeFacts
from airflow_provider_assistant.evaluation.verdicts import Judgement
from tests.unit.evaluation.conftest import row


def verdict(now, earlier, rule="x drop <= 0.02", *, drops=1, higher_is_better=True):
    found = change(np.array(now), np.array(earlier), [True] * len(earlier), np.ones(len(now)))
    return verdict_on_loss(parse_rule(rule), found, higher_is_better=higher_is_better, drops=drops)


def test_a_loss_fails_only_by_more_than_chance_explains():
    generator = np.random.default_rng(59)
    earlier = (generator.random((10, 100)) < 0.9).astype(float)
    now = (generator.random(100) < 0.9).astype(float)
    assert verdict(now, earlier).verdict in {"passed", "not_proven"}
    lost = now.copy()
    lost[:20] = 0
    assert verdict(lost, earlier).is_worse
    assert verdict(lost, earlier, "x drop <= 0.5").verdict == "passed"
    # With many rules, each has a smaller share of the false alarms.
    assert by_chance(0.1, drops=1, is_one_night=True) < by_chance(0.1, drops=10, is_one_night=True)


def test_too_few_questions_to_notice_a_loss_is_said():
    assert verdict([1.0] * 5, [[1.0] * 5]).verdict == "too_few"
    assert verdict([0.0] * 5, [[1.0] * 5] * 10).is_worse


def test_questions_that_only_one_run_has_are_not_compared():
    found = change(
        np.array([1.0, np.nan, 0.5]), np.array([[0.5, 1.0, np.nan]] * 2), [True, True], np.ones(3), removed=2
    )
    assert (found.questions, found.comparable, found.mean) == (1, 5, 0.5)
    assert change(np.array([np.nan]), np.array([[1.0]]), [True], np.ones(1)) is None


class People:
    """Judges that say what the rows say, and agree with people as they are told."""

    def __init__(self, agreement, fingerprint="1"):
        self.found = agreement
        self.fingerprint = fingerprint

    def check(self, cases, rules=()):
        pass

    def judge(self, cases, path, pass_if=None):
        judged = [Judgement(None if case.answer is None else case.row["says"], "because") for case in cases]
        facts = JudgeFacts(model="m", fingerprint=self.fingerprint, input_tokens=3, output_tokens=4)
        return Judged({"judge.tone": judged}, {"judge.tone": facts}, {"judge.tone": self.found} if self.found else {})


JUDGED = ["judge.tone agreement >= 0.6 on >= 50 labels", "pass_rate >= 0.5"]


@pytest.mark.promise("evaluation", "A judge decides only above the proven agreement with people.")
@pytest.mark.parametrize(
    ("agreement", "words", "says"),
    [
        (Agreement(labels=60, kappa=0.8, low=0.65, high=0.9), ["passed", "failed"], "at least 0.65"),
        (Agreement(labels=60, kappa=0.7, low=0.55, high=0.85), ["failed", "not judged"], "at least 0.55"),
        (Agreement(labels=20, kappa=0.9, low=0.8, high=1.0), ["failed", "not judged"], "20 labels"),
        (Agreement(labels=60), ["failed", "not judged"], "kappa is not defined"),
        (None, ["failed", "not judged"], "0 labels"),
    ],
)
def test_a_judge_decides_only_by_the_lower_end_of_its_agreement(night, agreement, words, says):
    rows = [row(number, says=0.2) for number in range(20)]
    judges = People(agreement)
    evaluation = night(0, rows, JUDGED, scorers=("judge.tone",), pass_if="judge.tone >= 0.5", judges=judges)
    assert [rule.word for rule in evaluation.summary.gate.rules] == words
    assert says in evaluation.summary.gate.rules[0].reason
    assert evaluation.summary.judge_tokens == 7


def test_runs_of_another_judge_are_not_compared(night):
    agreed = Agreement(labels=60, kappa=0.9, low=0.8, high=1.0)
    gate = [JUDGED[0], "judge.tone drop <= 0.02"]
    for number in range(3):
        good = [row(one, says=1.0) for one in range(40)]
        night(number, good, gate, scorers=("judge.tone",), judges=People(agreed))
    worse = [row(one, says=0.2) for one in range(40)]
    rules = night(3, worse, gate, scorers=("judge.tone",), judges=People(agreed, "2")).summary.gate.rules
    assert rules[1].word == "not judged"
    assert "another model, rubric or prompt for judge.tone" in rules[1].reason
    assert night(3, worse, gate, scorers=("judge.tone",), judges=People(agreed)).summary.gate.rules[1].word == "worse"


def test_a_number_is_shown_with_the_digits_that_tell_it_from_its_limit():
    assert formatted(0.89996, 0.9) == "0.89996"
    assert formatted(0.9, 0.9) == "0.9"
    assert formatted(0.123456, 0.9) == "0.1235"
