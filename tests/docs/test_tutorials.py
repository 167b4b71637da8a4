"""Run the tutorials step by step, and check the results that they state."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant.exceptions import AssistantGateFailedError
from tests.docs.pages import ROOT, blocks_of
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import DAG

    from tests.conftest import RunningService
    from tests.task_runs.run import Run
    from tests.unit.cli.conftest import Ran

LOAD, EVALUATE, GATE = (
    ROOT / "docs" / name for name in ("load/tutorial.md", "evaluate/tutorial.md", "evaluate/nightly-gate.md")
)
COUNTED = ("created", "unchanged", "rejected", "possibly_duplicated")


@pytest.fixture
def tutorial(connect: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DAG]:
    """Return the DAG of a tutorial, with the changes that the tutorial asks for."""
    connect(retries=4)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))

    def dag(page: Path, *changes: tuple[str, str]) -> DAG:
        from airflow.dag_processing.dagbag import DagBag

        (code,) = [block.code for block in blocks_of(page) if block.language == "python"]
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        (tmp_path / "tutorial.py").write_text(code)
        (found,) = DagBag(tmp_path / "tutorial.py").dags.values()
        return found

    return dag


def test_knowledge_base(tutorial: Callable[..., DAG], run_dag: Callable[..., Run], service: RunningService) -> None:
    first, again, changed, added, broken = (
        block.code.splitlines() for block in blocks_of(LOAD) if block.language == "text"
    )

    def outcome(*changes: tuple[str, str]) -> list[str]:
        run = run_dag(tutorial(LOAD, *changes))
        assert run.state == "success"
        counts, answer = run.xcom("load_faq"), run.xcom("check", key="text")
        _, middle, end = first[len(COUNTED)].split("…")
        assert middle in counts["findings"]
        assert counts["findings"].endswith(end)
        return [*(f"{counts[count]} {count}" for count in COUNTED), answer]

    assert outcome() == [*first[: len(COUNTED)], first[-1]]
    assert outcome()[:-1] == again
    change = "Within five working days.", "Within ten working days."
    assert outcome(change)[:-1] == changed
    (shell,) = [block.code for block in blocks_of(LOAD) if "_sandbox/faults" in block.code]
    (fault,) = re.findall(r"-d '(.*)'", shell)
    service.behave(**json.loads(fault))
    assert outcome(change, ("return [", f"return [{added[0]}"))[:-1] == broken


def test_evaluation(tutorial: Callable[..., DAG], run_dag: Callable[..., Run], service: RunningService) -> None:
    dag = tutorial(EVALUATE)
    good = run_dag(dag)
    assert good.state == "success"
    assert good.xcom("evaluate")["pass_rate"] == 1

    service.behave(answer_limit=12)
    worse = run_dag(dag)
    assert worse.state == "failed"
    assert isinstance(worse.error, AssistantGateFailedError)

    service.behave(answer_limit=None)
    recovered = run_dag(dag)
    assert recovered.state == "success"
    # No rule of this gate compares, so no run got worse.
    assert recovered.xcom("evaluate")["baseline"] == worse.xcom("evaluate")["scores_path"]
    assert recovered.xcom("evaluate")["newly_failing"] == []


def test_nightly_gate(
    judge,
    tutorial: Callable[..., DAG],
    run_dag: Callable[..., Run],
    service: RunningService,
    cli: Callable[..., Ran],  # noqa: F811 (the fixture)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = blocks_of(GATE)
    files = [block.code for block in found if block.language in ("csv", "yaml")]
    for name, text in zip(("faq.csv", "questions.csv", "gate.yaml"), files, strict=True):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", judge.conn_json())
    typed = [line for block in found for line in block.code.splitlines() if line.startswith("airflow assistant ")]
    load, check, measure, judge, build = (shlex.split(line)[2:] for line in typed)
    polls = ("--poll-interval", "0.05")

    assert "8 created" in cli(*load).out
    assert cli(*check).code == 0
    assert cli(*measure, *polls).code == 0
    assert "Failing questions" in (tmp_path / "first.html").read_text()

    judged = cli(*judge, *polls)
    assert judged.code == 0, judged.out
    report = (tmp_path / "judged.html").read_text()
    assert all(heading in report for heading in (">Judges</h2>", ">Repetitions</h2>", "Cohen's kappa"))

    monkeypatch.setenv("AIRFLOW_VAR_NIGHTLY_GATE", str(tmp_path))
    dag = tutorial(GATE)
    first, second = run_dag(dag), run_dag(dag)
    assert (first.state, second.state) == ("success", "success"), first.errors
    assert first.xcom("load")["unchanged"] == 8
    assert second.xcom("evaluate")["baseline"] == first.xcom("evaluate")["scores_path"]

    (fault,) = (json.loads(cut) for block in found for cut in re.findall(r"-d '(.*)'", block.code))
    service.behave(**fault)
    assert cli(*build, *polls).code == 1
    assert (tmp_path / "gate.xml").exists()
    worse = run_dag(dag)
    assert isinstance(worse.error, AssistantGateFailedError)
    assert "judge.correctness drop <= 0.05" in {rule["rule"] for rule in worse.xcom("evaluate")["failed_rules"]}
