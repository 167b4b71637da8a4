"""The hook warns about a created document that is not in use."""

from __future__ import annotations

import contextlib
import json

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.wire import Answer, ScriptedService

REPLIES = [
    ({"document_id": "d-1", "status": "draft"}, "draft", "draft"),
    ({"data": {"id": 17, "is_active": False}}, "draft", "inactive"),
    ({"id": "d", "processing_status": "rejected"}, "failed", "rejected"),
    ({"id": "d", "state": "in orbit"}, "other", "in orbit"),
    ({"id": "d", "status": "processing"}, "processing", None),
    ({"id": "d", "status": "published"}, "active", None),
    ({"status": "ok", "id": "d"}, "unknown", None),
    (None, "unknown", None),
]


@pytest.fixture
def hook_of(monkeypatch):
    """Return the hook of a service that answers every request with the same body."""
    with contextlib.ExitStack() as stack:

        def opened(body, **extra):
            service = stack.enter_context(ScriptedService(Answer(201, body)))
            extra = {"site_id": "s1", "retries": 0, **extra}
            fields = {"conn_type": "assistant", "host": service.url, "password": "k-of-a-test"}
            connection = json.dumps({**fields, "extra": extra})
            monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection)
            hook = AssistantHook()
            stack.callback(hook.client.close)
            return hook

        yield opened


@pytest.mark.parametrize(("body", "state", "warned"), REPLIES)
@pytest.mark.parametrize("kind", ["text", "qa", "file"])
def test_a_document_that_is_not_in_use(body, state, warned, kind, hook_of, tmp_path, capfd):
    (tmp_path / "a.txt").write_text("text")
    create = {
        "text": lambda hook: hook.create_text_document("t", "c"),
        "qa": lambda hook: hook.create_qa_document("t", "q", "a"),
        "file": lambda hook: hook.upload_document(tmp_path / "a.txt"),
    }
    created = create[kind](hook_of(body))
    assert created.state == state
    lines = capfd.readouterr().out.splitlines()
    warnings = [line for line in lines if "created with" in line]
    assert len(warnings) == (warned is not None)
    if warned is not None:
        assert "[warning" in warnings[0]
        assert repr(warned) in warnings[0]
        assert str(created.document_id) in warnings[0]


def test_the_words_of_the_connection(hook_of, capfd):
    hook = hook_of({"id": "d", "status": "LIVE!"}, manage_documents={"active_words": ["live!"]})
    created = hook.create_text_document("t", "c")
    assert (created.state, created.status) == ("active", "LIVE!")
    assert "created with" not in capfd.readouterr().out
