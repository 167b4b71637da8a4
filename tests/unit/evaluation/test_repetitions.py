"""Repeated questions: every question counts once, and the intervals respect that its answers are alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation import statistics
from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import summarise
from airflow_provider_assistant.evaluation.rules import parse_condition, parse_rule
from airflow_provider_assistant.evaluation.scored import Scored, by_question
from airflow_provider_assistant.evaluation.scorers import Scorer
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.exceptions import AssistantInputError

MARK = Scorer("mark", "custom", lambda case: case.row["mark"])


def answers(**marks):
    """Return the answers of questions with one mark per repetition; None is a repetition without an answer."""
    return pa.Table.from_pylist(
        [
            {
                "key": key,
                "repetition": number,
                "message": f"{key}?",
                "answer": None if mark is None else f"It is {mark}!",
                "mark": mark,
            }
            for key, found in marks.items()
            for number, mark in enumerate(found, start=1)
        ]
    )


def evaluated(table, baseline=None, pass_if=None, rules=(), scorer=MARK):
    cases = read_cases(table)
    return summarise(
        cases,
        score_cases(cases, [scorer]),
        [scorer],
        name="n",
        pass_if=parse_condition(pass_if) if pass_if else None,
        rules=[parse_rule(rule) for rule in rules],
        baseline=baseline and Baseline([EarlierRun(score_cases(read_cases(baseline), [scorer]))], {"path": "p"}),
    )


@pytest.mark.promise("evaluation", "A question counts once, however often it was asked.")
def test_each_question_counts_once_however_many_of_its_repetitions_have_an_answer():
    summary = evaluated(answers(a=[1.0, 0.5, 0.0], b=[1.0, None, None]))
    assert summary.questions.model_dump() == {
        "total": 6,
        "answered": 4,
        "unanswered": {"failed": 2},
        "coverage": pytest.approx(4 / 6),
    }
    assert summary.scorers["mark"].mean == summary.repetitions.scorers["mark"].mean == 0.75
    assert summary.scorers["mark"].scored == 4


def test_the_worst_repetition_and_what_varies():
    found = evaluated(answers(a=[1.0, 0.5, 0.0], b=[1.0, 1.0, 1.0], c=[0.5, None, None])).repetitions
    assert (found.most, found.questions, found.repeated, found.disagreement) == (3, 3, 2, 0.5)
    mark = found.scorers["mark"]
    assert mark.worst == pytest.approx((0.0 + 1.0 + 0.5) / 3)
    assert mark.varying == 0.5
    assert mark.low < mark.mean < mark.high


def test_the_worst_of_a_duration_is_the_longest():
    longest = Scorer("mark", "custom", lambda case: case.row["mark"], is_share=False, higher_is_better=False)
    assert evaluated(answers(a=[2.0, 9.0]), scorer=longest).repetitions.scorers["mark"].worst == 9.0


def test_answers_that_differ_only_in_punctuation_agree():
    table = answers(a=[1.0, 1.0])
    table = table.set_column(table.column_names.index("answer"), "answer", pa.array(["In five days.", "in FIVE days"]))
    assert evaluated(table).repetitions.disagreement == 0.0


def test_a_question_that_passes_only_sometimes_is_unstable():
    found = evaluated(answers(a=[1.0, 0.0], b=[1.0, 1.0], c=[0.0, 0.0], d=[1.0, None]), pass_if="mark >= 0.5")
    assert found.repetitions.unstable == pytest.approx(1 / 3)
    assert (found.passes.passed, found.passes.failed, found.passes.not_judged) == (4, 3, 1)


def test_questions_that_are_asked_once_have_no_figures_of_repetitions():
    assert evaluated(answers(a=[1.0], b=[0.5])).repetitions is None


def test_a_baseline_is_paired_by_question_whatever_the_number_of_repetitions():
    before, now = answers(a=[1.0], b=[0.5]), answers(a=[1.0, 0.5], b=[0.0, 1.0])
    summary = evaluated(now, baseline=before, rules=["mark drop <= 0.9"])
    difference = summary.comparison.scorers["mark"]
    assert (difference.paired, difference.mean, difference.worse, difference.better) == (2, -0.125, 1, 0)
    assert (summary.comparison.same, summary.comparison.coverage_before) == (2, 1.0)
    assert summary.gate.verdict == "passed"
    again = evaluated(before, baseline=now).comparison
    assert (again.scorers["mark"].mean, again.coverage_before) == (0.125, 1.0)


def test_coverage_of_a_baseline_counts_every_repetition():
    before = answers(a=[1.0, None], b=[None, 1.0])
    assert evaluated(answers(a=[1.0], b=[1.0]), baseline=before).comparison.coverage_before == 0.5


def test_expectations_belong_to_all_repetitions():
    cases = read_cases(
        answers(a=[1.0, 0.0]), pa.Table.from_pylist([{"key": "a", "expected": "x"}, {"key": "b", "expected": "y"}])
    )
    assert [(case.key, case.repetition, case.expected, case.status) for case in cases] == [
        ("a", 1, "x", "complete"),
        ("a", 2, "x", "complete"),
        ("b", 1, "y", "not_asked"),
    ]


def test_the_same_repetition_twice_is_refused():
    table = answers(a=[1.0, 0.0])
    twice = table.set_column(1, "repetition", pa.array([2, 2]))
    with pytest.raises(AssistantInputError, match="1 duplicate key, such as 'a'"):
        read_cases(twice)
    with pytest.raises(AssistantInputError, match="repetition must be a whole number from 1, not 0"):
        read_cases(table.set_column(1, "repetition", pa.array([0, 1])))


def rows_of(random, questions, repetitions):
    """Return the rows of one scorer: a right answer, with a probability that depends on the question, or a part."""
    is_right = random.random((questions, repetitions)) < random.beta(2, 1, (questions, 1))
    scores = np.where(is_right, 1.0, random.uniform(0, 0.6, (questions, repetitions)))
    return [
        Scored(str(question), float(score), "scored", 1.0, (), number)
        for question, found in enumerate(scores)
        for number, score in enumerate(found, start=1)
    ]


TRUE_MEAN = 2 / 3 + 1 / 3 * 0.3


def test_the_interval_of_repeated_questions_holds_the_truth_as_often_as_it_says():
    random, held = np.random.default_rng(20261122), 0
    for _ in range(500):
        rows = by_question(rows_of(random, 50, 3))
        found = statistics.interval([row.score for row in rows], [row.weight for row in rows])
        held += found.low <= TRUE_MEAN <= found.high
    assert 0.93 <= held / 500 <= 0.97
