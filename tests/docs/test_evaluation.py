"""The page on evaluation shows correct numbers, all scorers and all columns."""

from __future__ import annotations

import re

import pytest

from airflow_provider_assistant.evaluation.cases import EXPECTATIONS
from airflow_provider_assistant.evaluation.cells import as_phrases
from airflow_provider_assistant.evaluation.losses import questions_needed
from airflow_provider_assistant.evaluation.phrases import includes
from airflow_provider_assistant.evaluation.scorers import SCORERS
from airflow_provider_assistant.evaluation.scoring import OUTCOMES
from tests.docs.pages import codes, section, table
from tests.unit.evaluation.test_scorers import make_case, score

PAGE = "docs/evaluate/scores.md"
TRAPS, CHECKS = section(PAGE, "Traps").split("Checks see", 1)


@pytest.mark.parametrize("row", table(TRAPS), ids=lambda row: row["Answer"])
def test_scores_of_the_traps(row):
    shown = {codes(name)[0]: value for name, value in row.items() if codes(name)}
    assert list(shown) == [name for name, scorer in SCORERS.items() if scorer.kind == "lexical similarity"]
    case = make_case(row["Answer"], expected=row["Expected"])
    assert shown == {name: f"{SCORERS[name].score(case):.2f}" for name in shown}


@pytest.mark.parametrize("row", table(CHECKS), ids=lambda row: row["Answer"])
def test_scores_of_the_checks(row):
    name, phrase = codes(row["Check"])[0], row["Check"].partition(": ")[2].strip("`")
    column = "expected_url" if name == "cites" else name
    assert f"{score(name, row['Answer'], **{column: (phrase,)}):.2f}" == row["Score"]


def test_phrases_are_in_the_texts_of_the_table_and_not_in_others():
    rows = table(section(PAGE, "Phrases"))
    assert len(rows) > 20
    for row in rows:
        [phrase] = codes(row["Phrase"])
        found = {text: includes(text, phrase) for column in ("Is in", "Is not in") for text in codes(row[column])}
        assert found == dict.fromkeys(codes(row["Is in"]), True) | dict.fromkeys(codes(row["Is not in"]), False), phrase


def test_the_three_cells_with_alternatives_mean_the_same():
    [block] = re.findall("```text\n(.*?)```", section(PAGE, "Phrases"), re.DOTALL)
    wanted = ("30 days || one month", "receipt")
    assert [as_phrases("q", "must_include", cell) for cell in block.splitlines()] == [wanted] * 3


def test_every_scorer_is_listed_with_its_kind():
    listed = {codes(row["Name"])[0]: row["Kind"] for row in table(section(PAGE, "Scorers"))}
    assert listed == {name: scorer.kind for name, scorer in SCORERS.items()}


def test_every_column_and_outcome_is_listed():
    assert [codes(row["Column"])[0] for row in table(section(PAGE, "Expectations"))] == list(EXPECTATIONS)
    assert {codes(row["`outcome`"])[0] for row in table(section(PAGE, "Scores"))} == set(OUTCOMES)


def test_the_number_of_questions_that_a_loss_needs():
    text = section("docs/evaluate/evaluate.md", "How to choose thresholds")
    rows = table("\n".join(line.strip() for line in text.splitlines()))
    assert len(rows) == 4
    for row in rows:
        loss, *shown = row.values()
        assert [int(number) for number in shown] == [
            questions_needed(float(loss), varying=varying) for varying in (0.1, 0.2, 0.4)
        ]
