"""The hook warns about a created document that is not in use."""

from __future__ import annotations

import io
import json

import pytest

from airflow_provider_assistant.exceptions import AssistantAmbiguousError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.wire import Answer, ScriptedService


@pytest.fixture
def created(monkeypatch, tmp_path):
    """Return the document that a hook creates, for the body of the reply."""

    def create(body, kind="text", **extra):
        (tmp_path / "a.txt").write_text("text")
        with ScriptedService(Answer(201, body)) as service:
            fields = {"conn_type": "assistant", "host": service.url, "password": "k-of-a-test"}
            connection = {**fields, "extra": {"site_id": "s1", "retries": 0, **extra}}
            monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
            hook = AssistantHook()
            creates = {
                "text": lambda: hook.create_text_document("t", "c"),
                "qa": lambda: hook.create_qa_document("t", "q", "a"),
                "file": lambda: hook.upload_document(tmp_path / "a.txt"),
            }
            document = creates[kind]()
            hook.client.close()
        return document

    return create


@pytest.mark.parametrize(
    ("body", "kind", "warned"),
    [
        ({"document_id": "d-1", "status": "draft"}, "text", "draft"),
        ({"data": {"id": 17, "is_active": False}}, "qa", "inactive"),
        ({"id": "d", "status": "rejected"}, "file", "rejected"),
        ({"id": "d", "state": "in orbit"}, "text", "in orbit"),
        ({"id": "d", "status": "processing"}, "file", None),
        ({"id": "d", "status": "published"}, "qa", None),
        (None, "text", None),
    ],
)
def test_a_document_that_is_not_in_use(body, kind, warned, created, capfd):
    document = created(body, kind)
    warnings = [line for line in capfd.readouterr().out.splitlines() if "created with" in line]
    assert len(warnings) == (warned is not None)
    for line in warnings:
        assert "[warning" in line
        assert repr(warned) in line
        assert str(document.document_id) in line


def test_the_words_of_the_connection(created, capfd):
    document = created({"id": "d", "status": "LIVE!"}, manage_documents={"active_words": ["live!"]})
    assert (document.state, document.status) == ("active", "LIVE!")
    assert "created with" not in capfd.readouterr().out


CREATES = {
    "file": lambda hook, **options: hook.upload_document(io.BytesIO(b"x"), "a.txt", **options),
    "text": lambda hook, **options: hook.create_text_document("T", "C", **options),
    "qa": lambda hook, **options: hook.create_qa_document("T", "Q?", "A.", **options),
    "chat": lambda hook, **options: hook.chat("s", "Q?", **options),
    "submit": lambda hook, **options: hook.submit_chat("s", "Q?", **options),
}


@pytest.mark.parametrize("name", CREATES)
def test_a_create_that_may_have_happened_is_not_repeated_if_that_is_forbidden(name, monkeypatch):
    with ScriptedService(Answer(502)) as service:
        fields = {"conn_type": "assistant", "host": service.url, "password": "a-key-of-a-test"}
        connection = {**fields, "extra": {"site_id": "d"}}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
        with pytest.raises(AssistantAmbiguousError) as unclear:
            CREATES[name](AssistantHook(), on_ambiguous="fail")
        assert len(service.received) == 1
    assert not unclear.value.retryable
