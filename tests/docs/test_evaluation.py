"""The pages on evaluation: phrases, the DAG that compares a judge with people, conditions of ratings."""

from __future__ import annotations

import json
import re
from pathlib import Path

from airflow_provider_assistant.evaluation.cells import as_phrases
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.scorers import token_f1
from airflow_provider_assistant.evaluation.text import has_phrase
from tests.docs.pages import ROOT, blocks_of, codes, section, table, words

GOLDEN_SET = "docs/evaluate/golden-set.md"


def test_phrases_are_in_the_texts_of_the_table_and_not_in_others():
    rows = table(section(GOLDEN_SET, "Phrases"))
    assert len(rows) == 5
    for row in rows:
        phrase = codes(row["Phrase"])[0].replace("\\|", "|")
        found = {text: has_phrase(text, phrase) for column in ("Is in", "Is not in") for text in codes(row[column])}
        assert found == dict.fromkeys(codes(row["Is in"]), True) | dict.fromkeys(codes(row["Is not in"]), False), phrase


def test_similarities_compare_words():
    answer, expected = re.findall(r"\*(You can .*?refund)\*", words(GOLDEN_SET))
    assert f"`token_f1` of {token_f1(answer, expected):.2f} against" in words(GOLDEN_SET)


def test_the_cells_with_several_texts_mean_the_same():
    [cell] = re.findall("```text\n(.*?)\n```", section(GOLDEN_SET, "Columns"), re.DOTALL)
    wanted = ("30 days || one month", "receipt")
    assert as_phrases(cell) == as_phrases("\n".join(wanted)) == as_phrases(list(wanted)) == wanted


def test_conditions_of_ratings_can_be_read():
    conditions = re.findall(r"`(\w+ >= [^`\n]+)`", section("docs/evaluate/feedback.md", "Many answers, by rule"))
    assert conditions
    for condition in conditions:
        parse_condition(condition)


def test_the_dag_compares_the_judge_with_people(files, connect, run_dag, judge, service, tmp_path, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    connect(retries=4)
    monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", judge.conn_json())
    page = ROOT / "docs/evaluate/judge.md"
    code = next(block.code for block in blocks_of(page) if block.language == "python")
    (tmp_path / "judge.py").write_text(code)
    (dag,) = DagBag(tmp_path / "judge.py").dags.values()
    head = run_dag(dag).xcom("evaluate")
    summary = json.loads(Path(head["summary_path"].removeprefix("file://")).read_text())
    found = summary["scorers"]["judge.correctness"]["agreement"]
    assert found["labels"] == 60
    assert found["low"] >= 0.6
    # The knowledge base is empty, so the assistant knows nothing; the gate only reports that.
    assert [rule["verdict"] for rule in summary["gate"]["rules"]] == ["passed", "failed", "not_judged"]
