"""Documents of the embedded service are listed and changed, whatever its names and its paging are."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantAPIError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.live.process import wait_for

SITE = "/m2m/sites/{site_id}"
PAGING = ["none", "page", "offset", "cursor", "link", "header"]
# Other names of the service, and how the connection describes them.
NAMES = {
    "documents": "payload.entries",
    "id": "uuid",
    "title": "label",
    "status": "phase",
    "status.active": "ON AIR",
    "status.draft": "shelved",
    "active": None,
    "document_ids": "keys",
    "/documents": "/knowledge",
    "/documents/bulk-status": "/knowledge-phases",
    "/documents/bulk-delete": "/knowledge/remove",
}
ROUTES = {
    "list": {
        "path": f"{SITE}/knowledge",
        "items": "payload.entries",
        "id": "uuid",
        "title": "label",
        "status": "phase",
    },
    "set_status": {
        "path": f"{SITE}/knowledge-phases",
        "ids": "keys",
        "status": "phase",
        "active": "ON AIR",
        "inactive": "shelved",
        "batch": 3,
    },
    "delete": {"path": f"{SITE}/knowledge/remove", "ids": "keys"},
    "update": {"path": f"{SITE}/knowledge/{{document_id}}"},
    "active_words": ["on air"],
    "draft_words": ["shelved"],
}


@pytest.fixture(params=["usual names", "other names"])
def hook(request, service, connect):
    service.behave(document_status="draft", page_size=4)
    if request.param == "usual names":
        connect(manage_documents=True)
    else:
        service.behave(document_names=NAMES)
        connect(manage_documents=ROUTES)
    hook = AssistantHook()
    yield hook
    hook.client.close()


@pytest.fixture
def ids(hook):
    """Eleven drafts: three pages, the last one of them not full."""
    created = []
    for number in range(11):
        document = hook.create_text_document(f"Title {number}", f"Text {number}.")
        created.append(document.document_id)
    return created


@pytest.mark.parametrize("paging", PAGING)
def test_the_life_of_documents(paging, hook, ids, service):
    service.behave(paging=paging)

    def listed():
        return [(one.document_id, one.title, one.state) for one in hook.list_documents()]

    assert listed() == [(ids[n], f"Title {n}", "draft") for n in range(11)]
    hook.set_document_status(ids[:5], "active")
    assert [state for _, _, state in listed()] == ["active"] * 5 + ["draft"] * 6
    assert hook.chat("s", "What is text 4?").raw["answered"]
    hook.set_document_status(ids[1:2], "inactive")
    hook.delete_documents([ids[0], ids[10]])
    service.behave(document_seconds=3600)
    hook.set_document_status(ids[6:7], "active")
    assert [state for _, _, state in listed()] == [
        *["draft", "processing", "processing", "processing", "draft"],
        *["processing", "draft", "draft", "draft"],
    ]


def test_the_documented_service(service, connect):
    service.behave(documented=True)
    connect(manage_documents=True)
    hook = AssistantHook()
    created = hook.create_qa_document("Refunds", "When are refunds paid?", "Within 14 days.", "faq")
    assert created.state == "draft"
    question = "When are refunds paid?"
    unknown = hook.chat("s", question)
    assert (unknown.confidence_level, unknown.confidence_score) == ("low", 0)
    hook.set_document_status([created.document_id], "active")
    submitted = hook.submit_chat("s", question)

    def is_done():
        return hook.get_chat_request(submitted.request_id).state == "complete"

    wait_for("the answer", is_done, timeout=60)
    assert hook.get_chat_request(submitted.request_id).text == "Within 14 days."
    first = hook.send_feedback("s", submitted.request_id, "good")
    assert "feedback_submitted_at" in first.raw
    again = hook.send_feedback("s", submitted.request_id, "bad")
    assert again.raw == {"status": "ok", "request_id": submitted.request_id, "feedback": "good"}
    for _ in range(2):
        hook.close_session("s")
    with pytest.raises(AssistantAPIError) as refused:
        hook.chat("s", question)
    assert refused.value.status == 409
    hook.client.close()
