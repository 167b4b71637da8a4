"""Test reading the list of documents: every kind of paging, with usual and with other names."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_assistant.api.document_pages import next_link
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantResponseError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.document_site import PAGINGS, DocumentSite, Names

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


def filled(site: DocumentSite, count: int) -> list[str]:
    return [site.store(f"Title {number}", f"Text {number}").id for number in range(count)]


@pytest.mark.parametrize("paging", PAGINGS)
@pytest.mark.parametrize("count", [0, 7, 20])
def test_usual_names_need_no_description(paging, count, monkeypatch):
    with DocumentSite(paging=paging, page_size=7) as site:
        ids = filled(site, count)
        monkeypatch.setenv(CONN, site.connection(manage_documents=True))
        hook = AssistantHook()
        documents = list(hook.list_documents())
        hook.client.close()
    assert [document.document_id for document in documents] == ids
    assert [document.title for document in documents] == [f"Title {number}" for number in range(count)]
    assert {document.state for document in documents} <= {"active"}
    assert all(document.created_at and document.created_at.tzinfo for document in documents)


@pytest.mark.parametrize("seed", range(6))
def test_other_names_in_every_place(seed, monkeypatch):
    rng = Random(seed)
    paging = rng.choice(PAGINGS)
    with DocumentSite(Names.random(rng), paging=paging, page_size=rng.randint(1, 9)) as site:
        ids = filled(site, rng.randint(0, 30))
        drafts = set(rng.sample(ids, len(ids) // 3))
        for document_id in drafts:
            site.documents[document_id].active = False
        monkeypatch.setenv(CONN, site.connection())
        hook = AssistantHook()
        documents = list(hook.list_documents())
        assert [document.document_id for document in documents] == ids
        states = {document.document_id: document.state for document in documents}
        assert states == {document_id: "draft" if document_id in drafts else "active" for document_id in ids}
        assert [document.content for document in documents] == [site.documents[an_id].content for an_id in ids]
        if ids:
            hook.set_document_status(ids[:1], "inactive")
            hook.set_document_status(ids[1:], "active")
            hook.delete_documents(ids[2:3])
            remaining = ids[:2] + ids[3:]
            in_use = {document.document_id: document.is_in_use for document in hook.list_documents()}
            assert in_use == {document_id: document_id != ids[0] for document_id in remaining}
        hook.client.close()


def test_ids_go_into_batches(monkeypatch):
    with DocumentSite() as site:
        ids = filled(site, 250)
        monkeypatch.setenv(CONN, site.connection(manage_documents={"delete": {"batch": 40}}))
        hook = AssistantHook()
        assert len(hook.set_document_status(ids, "inactive")) == 3
        assert len(hook.delete_documents(ids)) == 7
        hook.client.close()
    assert not site.documents


@pytest.mark.parametrize("paging", ["page", "offset"])
def test_a_list_that_cannot_be_read_to_its_end_is_an_error(paging, monkeypatch):
    # The site ignores the parameter that is sent, and says that there are more documents.
    with DocumentSite(Names(parameter="blatt"), paging=paging, page_size=5) as site:
        filled(site, 12)
        monkeypatch.setenv(CONN, site.connection(manage_documents=True))
        hook = AssistantHook()
        with pytest.raises(AssistantResponseError, match="12 documents, and only 5 could be read"):
            list(hook.list_documents())
        hook.client.close()


def test_a_cursor_that_does_not_move_is_an_error(monkeypatch):
    with DocumentSite(Names(parameter="marker"), paging="cursor", page_size=5) as site:
        filled(site, 12)
        monkeypatch.setenv(CONN, site.connection(manage_documents=True))
        hook = AssistantHook()
        with pytest.raises(AssistantResponseError, match="repeats its last page"):
            list(hook.list_documents())
        hook.client.close()


def test_a_connection_that_does_not_manage_documents_sends_nothing(monkeypatch):
    with DocumentSite() as site:
        for value in (None, False, "", "false"):
            monkeypatch.setenv(CONN, site.connection(manage_documents=value))
            hook = AssistantHook()
            for use in (
                lambda hook: list(hook.list_documents()),
                lambda hook: hook.delete_documents(["d1"]),
                lambda hook: hook.set_document_status(["d1"], "active"),
                lambda hook: hook.update_document("d1", {"title": "T"}),
            ):
                with pytest.raises(AssistantInputError, match="manage_documents"):
                    use(hook)
    assert not site.requests


@pytest.mark.parametrize(
    "value",
    [
        "yes please",
        {"list": {"path": "https://evil.example.com/x"}},
        {"list": {"path": "//evil.example.com/x"}},
        {"delete": {"path": "/m2m/../admin"}},
        {"delete": {"path": "/m2m/{tenant_id}"}},
        {"delete": {"method": "get it"}},
        {"list": {"paging": {"kind": "guess"}}},
        {"unknown": {}},
        {"update": {"path": "/m2m/sites/{site_id}/documents"}},
    ],
)
def test_routes_that_cannot_be_used_are_an_error_of_the_connection(value, monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection(manage_documents=value))
        with pytest.raises(AssistantInputError, match="manage_documents"):
            AssistantHook().document_routes()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ('<https://x/y?page=2>; rel="next"', "https://x/y?page=2"),
        ("</y?page=2>; rel=next", "/y?page=2"),
        ('<?a=1,2>; rel="prev", <?a=3>; title="n, ext"; rel="last next"', "?a=3"),
        ('<?a=1>; rel="prev"', None),
    ],
)
def test_the_next_link_of_a_header(header, expected):
    assert next_link(None, header) == expected
