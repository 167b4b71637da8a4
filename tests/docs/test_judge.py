"""The page on judges: its DAG compares a judge with people, and its tables list all rubrics and options."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_assistant.evaluation.judging.rubrics import BUILT_IN, POLICY, JudgeOptions
from airflow_provider_assistant.evaluation.judging.verdicts import verdicts_schema
from tests.conftest import RunningService
from tests.docs.pages import ROOT, blocks_of, codes, section, table
from tests.task_runs.run import Run

PAGE = "docs/evaluate/judge.md"


@pytest.mark.usefixtures("files")
def test_the_dag_compares_the_judge_with_people(
    connect: Callable[..., None],
    run_dag: Callable[..., Run],
    service: RunningService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    connect(retries=4)
    monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", service.server.judge_conn_json())
    code = next(block.code for block in blocks_of(ROOT / PAGE) if block.language == "python")
    (tmp_path / "judge.py").write_text(code)
    (dag,) = DagBag(tmp_path / "judge.py").dags.values()
    head = run_dag(dag).xcom("evaluate")
    summary = json.loads(Path(head["summary_path"].removeprefix("file://")).read_text())
    found = summary["scorers"]["judge.correctness"]["judge"]["agreement"]
    assert (found["labels"], found["kappa"]) == (60, 1.0)
    # The knowledge base is empty, so the assistant knows nothing; the gate only reports that.
    assert [rule["verdict"] for rule in summary["gate"]["rules"]] == ["passed", "failed", "not_judged"]


def test_every_rubric_is_listed_with_its_column() -> None:
    rows = table(section(PAGE, "Rubrics"))
    listed = {codes(row["Scorer"])[0].removeprefix("judge."): codes(row["Needs the column"]) for row in rows}
    assert set(listed) == {*BUILT_IN, POLICY, "<name>"}
    for name, rubric in BUILT_IN.items():
        assert listed[name] == ([rubric.reference] if rubric.reference else [])


def test_every_option_is_listed_with_its_default() -> None:
    rows = table(section(PAGE, "Options"))
    defaults = JudgeOptions()
    assert {codes(row["Option"])[0]: codes(row["Default"])[0] for row in rows} == {
        field.name: repr(getattr(defaults, field.name)) for field in dataclasses.fields(JudgeOptions)
    }


def test_every_column_of_the_verdicts_is_listed() -> None:
    rows = table(section("docs/reference/evaluation.md", "Verdicts"))
    said = [(codes(row["Column"])[0], codes(row["Type"])[0]) for row in rows]
    assert said == [(field.name, str(field.type)) for field in verdicts_schema()]
