"""A real triggerer waits for a file and starts a DAG each time that the file appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT
from tests.unit.parsing.samples import pdf

pytestmark = pytest.mark.system

DAG = "waiting_for_a_file"


@pytest.mark.promise("sources of documents", "A file that appears starts a DAG, each time.")
def test_a_file_starts_the_dag_each_time(airflow: LiveAirflow, home: Path) -> None:
    folder = home / "handbook"
    folder.mkdir()
    (folder / "a.md").write_text("# Office")
    token = airflow.wait_dag(DAG)["file_token"]
    airflow.unpause(DAG)
    # Airflow starts the watchers of a DAG when it parses the DAG while the DAG is not paused.
    airflow.request("PUT", f"/api/v2/parseDagFile/{token}")
    for number, keys in enumerate((["a.md"], ["a.md", "b.pdf"])):
        assert len(airflow.runs(DAG)) == number
        (folder / "_READY").touch()

        def another(number: int = number) -> dict[str, Any] | None:
            found = airflow.runs(DAG)
            return found[0] if len(found) > number else None

        run = airflow.wait("a run", another, timeout=WAIT)
        assert run["run_type"] == "asset_triggered"
        assert not (folder / "_READY").exists()
        assert airflow.wait_run(DAG, run["dag_run_id"]) == "success"
        assert airflow.xcom(DAG, run["dag_run_id"], "read") == keys
        (folder / "b.pdf").write_bytes(pdf("From 9."))
