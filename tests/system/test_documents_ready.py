"""Waiting for a document on a real Airflow: the time of the first look is stored while the task is deferred."""

from __future__ import annotations

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.clients import local_request
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService

pytestmark = pytest.mark.system

DAG = "document_ready"


@pytest.mark.promise("documents of a site", "A task waits without a worker until a document is active.")
def test_a_draft_is_waited_for_until_somebody_activates_it(airflow: LiveAirflow, service: AssistantService) -> None:
    documents = f"{service.base_url}/m2m/sites/{service.site_id}/documents"
    headers = {"X-API-Key": service.api_key}

    def send(method: str, path: str, **body: str) -> dict[str, str]:
        reply = local_request(method, f"{documents}{path}", json=body, headers=headers)
        return reply.raise_for_status().json()

    def looks() -> int:
        return len(service.journal(method="GET", path=r"/documents$"))

    created = send("POST", "/text", title="Winter", content="Closed in winter.", category="faq")
    document_id = created.get("id") or created["document_id"]
    send("PATCH", f"/{document_id}", status="draft")
    before = looks()
    run_id = airflow.trigger(DAG, conf={"document_id": document_id})
    wait_for("three looks", lambda: looks() >= before + 3, timeout=WAIT)
    assert airflow.task_instance(DAG, run_id, "ready")["state"] not in {"success", "failed"}

    send("PATCH", f"/{document_id}", status="active")
    assert airflow.wait_run(DAG, run_id) == "success"
    assert airflow.xcom(DAG, run_id, "ready") == {"site_id": service.site_id, "documents": 1}
    assert airflow.task_instance(DAG, run_id, "ready")["try_number"] == 1
