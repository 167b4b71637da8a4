"""The tutorials, step by step: what they say that happens, happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant.exceptions import AssistantGateFailed
from tests.docs.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import DAG

    from tests.conftest import Run, RunningService

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.fixture
def tutorial(connect: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DAG]:
    """Return the DAG of a tutorial, with a change that its reader makes."""
    connect(retries=4)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))

    def dag(name: str, old: str = "", new: str = "") -> DAG:
        from airflow.dag_processing.dagbag import DagBag

        (code,) = [block.code for block in blocks_of(TUTORIALS / f"{name}.md") if block.language == "python"]
        assert old in code
        (tmp_path / "tutorial.py").write_text(code.replace(old, new))
        (found,) = DagBag(tmp_path / "tutorial.py").dags.values()
        return found

    return dag


def test_knowledge_base(tutorial: Callable[..., DAG], run_dag: Callable[..., Run], service: RunningService) -> None:
    page = TUTORIALS / "knowledge-base.md"
    first, again, changed = (block.code.splitlines() for block in blocks_of(page) if block.language == "text")

    def outcome(*change: str) -> list[str]:
        run = run_dag(tutorial("knowledge-base", *change))
        assert run.state == "success"
        counts, answer = run.xcom("load_faq"), run.xcom("check", key="text")
        said = "{created} created, {unchanged} unchanged, {rejected} rejected".format(**counts)
        return [said, answer]

    assert outcome() == first
    assert outcome()[:1] == again
    new = "Within five working days.", "Within ten working days."
    assert outcome(*new)[:1] == changed
    # Which requests fail is a matter of the seed; that every row arrives is not.
    service.behave(fault_rate=0.25)
    last = outcome(new[0], new[1] + '"},\n{"id": 4, "headline": "Parking", "question": "May I park?", "answer": "Yes.')
    assert last[0] == "1 created, 2 unchanged, 1 rejected"


def test_evaluation(tutorial: Callable[..., DAG], run_dag: Callable[..., Run], service: RunningService) -> None:
    dag = tutorial("evaluation")
    good = run_dag(dag)
    assert good.state == "success"
    assert good.xcom("evaluate")["pass_rate"] == 1

    service.behave(answer_limit=12)
    worse = run_dag(dag)
    assert worse.state == "failed"
    assert isinstance(worse.error, AssistantGateFailed)

    service.behave(answer_limit=None)
    recovered = run_dag(dag)
    assert recovered.state == "success"
    assert recovered.xcom("evaluate")["baseline"] == good.xcom("evaluate")["scores_path"]
