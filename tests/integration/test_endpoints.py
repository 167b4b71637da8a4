"""Call every route with its hook method against a running service."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.sandbox.server import SandboxServer

QA = {"title": "Refunds", "question": "When are refunds paid?", "answer": "Within 14 days.", "category": "faq"}


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[AssistantHook]:
    with SandboxServer() as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", service.conn_json())
        hook = AssistantHook()
        yield hook
        hook.client.close()


def wait(hook: AssistantHook, request_id: str):
    deadline = time.monotonic() + 120
    while (request := hook.get_chat_request(request_id)).state == "pending":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return request


def test_1_limits(hook: AssistantHook) -> None:
    assert hook.get_limits().raw["tenant_id"] == "acme-inc"


@pytest.mark.parametrize("kind", ["path", "text path", "url", "open file", "unseekable"])
def test_2_upload(hook: AssistantHook, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "refunds.md"
    path.write_text("# Refunds\n\nRefunds are paid within 14 days.\n" * 1000)

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.inner = path.open("rb")

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self.inner.read(size)

        def seekable(self) -> bool:
            return False

    file = {
        "path": lambda: path,
        "text path": lambda: str(path),
        "url": lambda: f"file://{path}",
        "open file": lambda: path.open("rb"),
        "unseekable": Pipe,
    }[kind]()
    document = hook.upload_document(file, filename="refunds.md")

    assert document.document_id
    assert document.raw["kind"] == "file"
    answer = hook.chat("s", "When are refunds paid?")
    assert answer.raw["sources"][0]["document_id"] == document.document_id
    assert hook.get_statistics().raw["documents"]["total"] == 1


def test_3_text(hook: AssistantHook) -> None:
    document = hook.create_text_document("Refunds", "Refunds are paid within 14 days.", "policy")
    assert (document.raw["kind"], document.raw["category"]) == ("text", "policy")


def test_4_qa_and_5_chat(hook: AssistantHook) -> None:
    document = hook.create_qa_document(**QA)
    answer = hook.chat("s", "When are refunds paid?", email="ada@example.com", response_language="en")
    assert answer.text == "Within 14 days."
    assert answer.session_id == "s"
    assert answer.raw["sources"][0]["document_id"] == document.document_id


def test_6_submit_7_poll_8_feedback_9_close_10_statistics(hook: AssistantHook) -> None:
    hook.create_qa_document(**QA)
    submitted = hook.submit_chat("s", "When are refunds paid?")
    request = wait(hook, submitted.request_id)
    assert (request.state, request.text, request.error) == ("complete", "Within 14 days.", None)
    assert hook.send_feedback("s", submitted.request_id, "good").call_info.status == 201
    assert hook.close_session("s").raw is None
    statistics = hook.get_statistics().raw
    assert statistics["feedback"]["by_rating"] == {"good": 1}
    assert statistics["sessions"] == {**statistics["sessions"], "open": 0, "closed": 1}


def test_a_request_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with SandboxServer(fail_messages="explode") as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", service.conn_json())
        hook = AssistantHook()
        request = wait(hook, hook.submit_chat("s", "please explode").request_id)
    assert request.state == "failed"
    assert request.text is None
    assert request.error


async def test_the_same_calls_under_asyncio(hook: AssistantHook) -> None:
    async with hook.async_client() as client:
        limits = await client.asend(endpoints.get_limits("acme-inc"))
        assert limits.raw["tenant_id"] == "acme-inc"
        assert (await client.asend(endpoints.get_statistics("acme-docs"))).raw["documents"]["total"] == 0


def test_a_route_without_a_method(hook: AssistantHook) -> None:
    assert hook.call("get", "/m2m/sites/acme-docs/statistics").raw["site_id"] == "acme-docs"


def test_the_connection_is_tested_by_reading_the_limits(hook: AssistantHook) -> None:
    works, message = hook.test_connection()
    assert works
    assert "tenant 'acme-inc'" in message


def test_overrides(hook: AssistantHook) -> None:
    hook.create_qa_document(**QA, site_id="acme-shop")
    assert hook.get_statistics().raw["documents"]["total"] == 0
    assert hook.get_statistics(site_id="acme-shop").raw["documents"]["total"] == 1
    other = AssistantHook(site_id="acme-shop")
    assert other.get_statistics().raw["documents"]["total"] == 1
