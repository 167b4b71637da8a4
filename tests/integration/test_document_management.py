"""Documents of a site are listed, activated, deactivated and deleted by the hook."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook


@pytest.mark.promise(
    "documents of a site", "The hook lists the documents of a site, changes their status and deletes them."
)
@pytest.mark.parametrize("paging", ["none", "cursor"])
def test_the_life_of_documents(paging, service, connect):
    service.behave(document_status="draft", page_size={"none": None, "cursor": 4}[paging])
    connect(manage_documents=True)
    hook = AssistantHook()
    ids = [hook.create_text_document(f"Title {n}", f"Text {n}.").document_id for n in range(11)]

    def listed():
        return [(one.document_id, one.title, one.state) for one in hook.list_documents()]

    assert listed() == [(ids[n], f"Title {n}", "draft") for n in range(11)]
    hook.set_document_status(ids[:5], "active")
    assert [state for _, _, state in listed()] == ["active"] * 5 + ["draft"] * 6
    hook.set_document_status(ids[1:2], "inactive")
    hook.delete_documents([ids[0], ids[10]])
    assert [state for _, _, state in listed()] == ["draft", *["active"] * 3, *["draft"] * 5]
    hook.client.close()
