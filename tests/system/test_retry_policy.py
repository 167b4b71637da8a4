"""A real Airflow retries a task after the service's Retry-After, not after the task's ``retry_delay``."""

from __future__ import annotations

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.service import AssistantService

pytestmark = pytest.mark.system

PAUSE = 5
# Seconds, the same as in the DAG.
RETRY_DELAY = 3600


@pytest.mark.promise("loads", "A task that the service told to wait is retried when the pause is over.")
def test_the_next_try_comes_when_the_pause_is_over(airflow: LiveAirflow, service: AssistantService) -> None:
    site = "acme-shop/documents/text"
    service.reset("journal")
    service.faults(rules=[{"action": f"retry-after:{PAUSE}", "path": site, "skip": 1, "times": 1}])
    run_id = airflow.trigger("coming_back")
    assert airflow.wait_run("coming_back", run_id) == "success"
    service.reset("faults")

    assert airflow.task_instance("coming_back", run_id, "load")["try_number"] == 2
    counts = airflow.xcom("coming_back", run_id, "load")
    assert (counts["created"], counts["unchanged"]) == (3, 1)
    posts = service.journal(method="POST", path=site)
    assert [entry["status"] == 429 for entry in posts] == [False, True, False, False, False]
    asked, came = (posts[number]["at"] for number in (1, 2))
    assert PAUSE <= came - asked < RETRY_DELAY
    assert f"the service asked to wait {PAUSE} s" in airflow.task_log("coming_back", run_id, "load", try_number=1)
