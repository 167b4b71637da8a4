"""The embedded service as a process: a restart keeps port and data, and the API key is not logged."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.live.clients import local_request
from tests.live.process import NotReadyError, processes_in
from tests.live.service import AssistantService


def load(service: AssistantService, title: str) -> int:
    return local_request(
        "POST",
        f"{service.base_url}/m2m/sites/{service.site_id}/documents/text",
        headers={"X-API-Key": service.api_key},
        json={"title": title, "content": "A text.", "category": "test"},
    ).status_code


def test_data_and_place_survive_a_kill(tmp_path: Path) -> None:
    with AssistantService(tmp_path / "service") as service:
        connection = service.connection
        assert load(service, "one") < 300

        service.restart(kill=True, latency=0.01)

        assert service.connection == connection
        assert load(service, "two") < 300
        assert [document["title"] for document in service.documents()] == ["one", "two"]
        assert [entry["method"] for entry in service.journal(method="POST")] == ["POST"]
        assert service.api_key not in service.log.read_text()
    assert processes_in(tmp_path) == []


def test_the_control_plane_makes_and_undoes_faults(tmp_path: Path) -> None:
    with AssistantService(tmp_path / "service", rate_limit=500) as service:
        service.faults(fault_rate=1, fault_status="503")
        assert load(service, "one") == 503
        service.reset("faults")
        assert load(service, "two") < 300
        assert service.count_documents() == 1
        service.reset()
        assert service.count_documents() == 0
        with pytest.raises(httpx.HTTPStatusError, match="fault_rate"):
            service.faults(fault_rate=2)


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    service = AssistantService(tmp_path / "service", rate_limit="no-number")
    with pytest.raises(NotReadyError, match="--rate-limit"):
        service.__enter__()
    assert processes_in(tmp_path) == []
