"""What a running Airflow tells OpenLineage, where its provider is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import wait_for

pytestmark = pytest.mark.system
pytest.importorskip("airflow.providers.openlineage", reason="needs apache-airflow-providers-openlineage")


def test_the_nightly_export_is_told(airflow: LiveAirflow, lineage_log: Path, lake: Path) -> None:
    run_id = airflow.trigger("assistant_nightly_export")
    assert airflow.wait_run("assistant_nightly_export", run_id) == "success"

    def written() -> dict[str, Any]:
        """Return the outputs of all tasks that completed, by name."""
        lines = lineage_log.read_text().splitlines() if lineage_log.exists() else []
        events = [event for event in map(json.loads, lines) if event["eventType"] == "COMPLETE"]
        mine = [event for event in events if event["job"]["name"].startswith("assistant_nightly_export.")]
        return {data["name"]: data for event in mine for data in event.get("outputs", ())}

    # Tasks tell it from a process of their own.
    wait_for("events", lambda: f"{lake}/statistics" in written(), timeout=60)
    statistics = written()[f"{lake}/statistics"]
    assert statistics["namespace"] == "file"
    assert statistics["outputFacets"]["outputStatistics"]["rowCount"] > 0
