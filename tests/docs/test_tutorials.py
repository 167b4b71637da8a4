"""Run the tutorials step by step, and check the results that they state."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import DAG

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

LOAD = ROOT / "docs/load/tutorial.md"
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
