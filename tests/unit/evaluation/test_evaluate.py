"""Building the summary: its counts add up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import summarise
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.scorers import Scorer
from airflow_provider_assistant.evaluation.scoring import score_cases

MARK = Scorer("mark", "custom", lambda case: case.row["mark"], is_share=False)


def fails_on_b(case):
    if case.key == "b":
        raise ValueError("no")
    return True


SHAKY = Scorer("shaky", "custom", fails_on_b)
ROWS = [
    {"key": "a", "mark": 4.0, "weight": 3.0, "tags": "x|y"},
    {"key": "b", "mark": 2.0, "weight": 1.0, "tags": "x"},
    {"key": "c", "mark": None, "weight": 1.0, "tags": ""},
    {"key": "d", "mark": 9.0, "weight": 9.0, "tags": "x", "status": "lost"},
]


def summary_of(rows=ROWS, pass_if=None, **columns):
    cases = read_cases(
        pa.Table.from_pylist([{"status": "complete", "answer": "yes", **row, **columns} for row in rows])
    )
    scorers = [MARK, SHAKY]
    condition = parse_condition(pass_if) if pass_if else None
    return summarise(cases, score_cases(cases, scorers), scorers, name="n", pass_if=condition)


def test_every_question_is_counted_once_for_each_scorer():
    summary = summary_of()
    assert summary.questions.model_dump() == {"total": 4, "answered": 3, "unanswered": {"lost": 1}, "coverage": 0.75}
    mark, shaky = summary.scorers["mark"], summary.scorers["shaky"]
    assert (mark.scored, mark.unanswered, mark.not_applicable, mark.errors) == (2, 1, 1, 0)
    assert (shaky.scored, shaky.unanswered, shaky.not_applicable, shaky.errors) == (2, 1, 0, 1)


def test_means_are_weighted_and_of_what_was_scored():
    summary = summary_of()
    assert summary.scorers["mark"].mean == 3.5
    assert summary.scorers["shaky"].mean == 1.0
    assert (summary.scorers["mark"].spread.minimum, summary.scorers["mark"].spread.maximum) == (2.0, 4.0)
    assert summary.scorers["mark"].histogram == []
    assert sum(summary.scorers["shaky"].histogram) == 2


def test_tags_have_figures_of_their_own():
    summary = summary_of(pass_if="mark >= 3")
    assert {tag: (found.questions, found.answered) for tag, found in summary.tags.items()} == {"x": (3, 2), "y": (1, 1)}
    assert summary.tags["x"].means == {"mark": 3.5, "shaky": 1.0}
    assert (summary.tags["x"].pass_rate, summary.tags["y"].pass_rate) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("condition", "passed", "failed", "not_judged"),
    [
        ("mark >= 3", 1, 1, 2),
        ("shaky >= 1", 2, 0, 2),
        # b fails because of its mark, although another scorer raised an error; mark is not applicable to c.
        ("mark >= 3 and shaky >= 1", 2, 1, 1),
    ],
)
def test_what_cannot_be_judged_neither_passes_nor_fails(condition, passed, failed, not_judged):
    passes = summary_of(pass_if=condition).passes
    assert (passes.passed, passes.failed, passes.not_judged) == (passed, failed, not_judged)
    assert passes.rate == passed / (passed + failed)


def test_the_moment_of_the_first_question_is_in_utc():
    moment = datetime(2026, 11, 21, 1, tzinfo=timezone(timedelta(hours=1)))
    assert summary_of(submitted_at=moment).asked_at == datetime(2026, 11, 21, tzinfo=UTC).isoformat()
    assert summary_of().asked_at is None


def test_no_questions_are_no_coverage():
    summary = summarise([], score_cases([], [MARK]), [MARK], name="n")
    assert (summary.questions.coverage, summary.scorers["mark"].mean, summary.gate.verdict) == (0.0, None, "none")
