"""OpenLineage events of a running Airflow."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.live.process import WAIT, wait_for

pytestmark = pytest.mark.system


@pytest.mark.promise("Airflow", "OpenLineage names the dataset that an export has written.")
@pytest.mark.usefixtures("parrots")
def test_an_export_is_in_the_lineage(lineage_log: Path, lake: Path) -> None:
    def written() -> dict[str, Any]:
        """Return the outputs of all tasks that completed, by name."""
        events = []
        for line in lineage_log.read_text().splitlines() if lineage_log.exists() else ():
            with suppress(json.JSONDecodeError):  # another process may have written a part of the last line
                events.append(json.loads(line))
        completed = [event for event in events if event["eventType"] == "COMPLETE"]
        mine = [event for event in completed if event["job"]["name"].startswith("parrots.")]
        return {data["name"]: data for event in mine for data in event.get("outputs", ())}

    # Tasks send events from separate processes.
    wait_for("events", lambda: f"{lake}/parrots/statistics" in written(), timeout=WAIT)
    statistics = written()[f"{lake}/parrots/statistics"]
    assert statistics["namespace"] == "file"
    assert statistics["outputFacets"]["outputStatistics"]["rowCount"] > 0
