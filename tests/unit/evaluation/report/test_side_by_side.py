"""The questions that changed most, with both answers."""

from __future__ import annotations

from airflow_provider_assistant.evaluation.evaluate import Evaluation, baseline_of, summarise
from airflow_provider_assistant.evaluation.report.side_by_side import pairs
from airflow_provider_assistant.evaluation.scorers import Scorer, scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases
from tests.unit.evaluation.report.examples import case, conversations

SCORERS = scorers_of(["token_f1", "latency"])


def compared(now, before):
    baseline = baseline_of(before, SCORERS, name="before", path=None)
    return pairs(evaluated(now, SCORERS, baseline))


def evaluated(cases, scorers, baseline):
    scores = score_cases(cases, scorers)
    summary = summarise(cases, scores, scorers, name="n", baseline=baseline)
    return Evaluation(summary, cases, scores, baseline_cases=baseline.cases if baseline else cases)


def texts(side):
    return "".join(piece.text for piece in side.pieces)


def test_the_greatest_change_comes_first_whatever_its_direction():
    before = [case(0), case(1, answer="Within ten working days."), case(2, answer="No.", seconds=90.0), case(3)]
    now = [case(0), case(1), case(2), case(3, answer=None, status="failed")]
    found = compared(now, before)
    assert [one.case.key for one in found.rows] == ["faq-0002", "faq-0001"]
    assert [list(one.changes) for one in found.rows] == [["token_f1"], ["token_f1"]]
    assert (texts(found.rows[0].before), texts(found.rows[0].after)) == ("No.", "Within five working days.")


def test_of_a_repeated_question_two_different_answers_are_shown():
    before = [case(0), case(0, repetition=2)]
    now = [case(0), case(0, repetition=2, answer="Never.")]
    (one,) = compared(now, before).rows
    assert (texts(one.before), texts(one.after)) == ("Within five working days.", "Never.")


def test_a_better_answer_is_a_change():
    scorers = [Scorer("judge.pairwise", "judge", lambda _: 0.0, is_share=False)]
    baseline = baseline_of([case(0, answer="No."), case(1)], scorers, name="before", path=None)
    scorers = [Scorer("judge.pairwise", "judge", lambda one: float(one.answer != "Never."), is_share=False)]
    now = [case(0), case(1, answer="Never.")]
    (one,) = pairs(evaluated(now, scorers, baseline)).rows
    assert (one.case.key, list(one.changes)) == ("faq-0000", ["judge.pairwise"])


def test_of_a_conversation_the_turn_with_another_answer_is_shown():
    before = conversations(2)
    now = conversations(2, wrong=1)
    (one,) = compared(now, before).rows
    assert (one.case.key, texts(one.after)) == ("return-0.2", "Weather in Zurich: sunny, 21 degrees.")
    assert texts(one.before) == "The return label in the parcel is free of charge for you."
