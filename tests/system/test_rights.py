"""The API of the pages on a real Airflow: rights of its users, and settling that the next load obeys."""

from __future__ import annotations

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.clients import local_request
from tests.live.rest import AirflowApi
from tests.live.service import AssistantService
from tests.system.dags.settled import ROWS, SITE

pytestmark = pytest.mark.system

AMBIGUOUS = 2


@pytest.fixture(scope="module")
def loaded(airflow: LiveAirflow, service: AssistantService) -> str:
    """A run whose load succeeded with findings: the answers to two rows were lost."""
    # The first request goes alone.
    rule = {"path": f"{SITE}/documents/qa", "skip": 1, "times": AMBIGUOUS, "action": "store-then-status:502"}
    service.faults(rules=[rule])
    run_id = airflow.trigger("settled")
    assert airflow.wait_run("settled", run_id) == "success"
    service.reset("faults")
    return run_id


@pytest.mark.promise("security", "The pages show no data to anybody who has not logged in.")
def test_who_has_not_logged_in_gets_no_data(airflow: LiveAirflow, loaded: str) -> None:
    for path in ("context", "tries", "documents", "entries", f"tasks/settled/{loaded}/load/-1"):
        reply = local_request("GET", f"{airflow.base_url}/assistant/api/{path}")
        assert (reply.status_code, reply.json()) == (401, {"detail": "Not authenticated"})
    assert local_request("GET", f"{airflow.base_url}/assistant/static/assistant.mjs").status_code == 401


@pytest.mark.promise("pages", "The next load obeys what an editor settles; a viewer cannot settle.")
def test_a_viewer_sees_everything_and_the_next_load_obeys_what_an_editor_settles(
    airflow: LiveAirflow, service: AssistantService, loaded: str
) -> None:
    viewer, editor = (AirflowApi(airflow.base_url, user, airflow.password) for user in ("viewer", "editor"))
    known = service.count_documents(SITE)
    seen = viewer.request("GET", "/assistant/api/entries", params={"which": "unresolved", "site": SITE})["rows"]
    mine = [row for row in seen if row["task"]["run_id"] == loaded]
    ids = [row["id"] for row in mine]
    assert len(ids) == AMBIGUOUS
    assert not any(row["outcomes"] for row in mine)
    assert viewer.send("GET", "/assistant/static/assistant.mjs").status_code == 200
    for outcome, one in zip(("created", "not-created"), ids, strict=True):
        body = {"outcome": outcome, "ids": [one]}
        assert viewer.send("POST", "/assistant/api/settle/preview", json=body).status_code == 403
        shown = editor.request("POST", "/assistant/api/settle/preview", json=body)
        body["confirmation"] = shown["confirmation"]
        assert viewer.send("POST", "/assistant/api/settle", json=body).status_code == 403
        assert editor.request("POST", "/assistant/api/settle", json=body)["settled"] == 1

    # Both documents exist, so the second one is created again.
    service.faults(allow_duplicates=True)
    run_id = airflow.trigger("settled")
    assert airflow.wait_run("settled", run_id) == "success"
    service.reset("faults")
    counts = airflow.xcom("settled", run_id, "load")
    assert (counts["created"], counts["unchanged"]) == (1, len(ROWS) - 1)
    assert service.count_documents(SITE) == known + 1
    events = airflow.request("GET", "/api/v2/eventLogs", params={"event": "assistant_settle", "dag_id": "settled"})
    assert [event["owner"] for event in events["event_logs"]] == ["editor", "editor"]
    for user in (viewer, editor):
        user.close()
