"""Read the list of documents to its end, in every kind of pages; and the routes and words that a connection names."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.document_routes import DocumentRoutes, change_documents, route_of
from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantNotFoundError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.document_site import PAGINGS, DocumentSite

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


def items(*ids):
    return [{"id": one, "title": f"Title {one}"} for one in ids]


def read(*answers, routes=None):
    """Return the ids that replies show, and the queries of the requests; an error answers a request as well."""
    pages = DocumentPages("docs", routes or DocumentRoutes())
    ids, queries = [], []
    for answer in answers:
        queries.append(pages.call.path.partition("?")[2])
        if isinstance(answer, Exception):
            pages.failed(answer)
            continue
        raw, link = answer if isinstance(answer, tuple) else (answer, None)
        ids += [document.document_id for document in pages.take(pages.call.parse(raw, CallInfo(200, link=link)))]
    assert pages.call is None
    return ids, queries


def header(query):
    return f'<https://h.example/x?{query}>; rel="prev", </x?{query}>; rel="next"'


@pytest.mark.parametrize(
    ("answers", "ids", "queries"),
    [
        # One page, and what a service without pages answers to the question for a second one.
        ([None], [], [""]),
        ([{"documents": []}], [], [""]),
        ([items(1, 2), items(1, 2)], ["1", "2"], ["", "page=2"]),
        ([items(1, 2), []], ["1", "2"], ["", "page=2"]),
        ([items(1, 2), AssistantNotFoundError("no", status=404)], ["1", "2"], ["", "page=2"]),
        ([items(1, 2), items(3), items(3)], ["1", "2", "3"], ["", "page=2", "page=3"]),
        ([{"data": {"items": items(1), "total": 1}}], ["1"], [""]),
        # Page numbers.
        ([{"results": items(1), "meta": {"total": 2}}, {"results": items(2), "meta": {"total": 2}}],
         ["1", "2"], ["", "page=2"]),
        ([{"documents": items(1), "total_pages": 2}, {"documents": items(2), "total_pages": 2}],
         ["1", "2"], ["", "page=2"]),
        ([{"documents": items(1), "has_more": True}, {"documents": items(2), "has_more": False}],
         ["1", "2"], ["", "page=2"]),
        ([{"documents": items(1), "page": 0, "total_pages": 2}, {"documents": items(2), "page": 1, "total_pages": 2}],
         ["1", "2"], ["", "page=1"]),
        ([{"documents": items(1), "total": "2"}, {"documents": items(2), "total": "2"}],
         ["1", "2"], ["", "page=2"]),
        ([{"documents": items(1), "hasMore": "true"}, {"documents": items(2), "hasMore": "false"}],
         ["1", "2"], ["", "page=2"]),
        ([{"documents": items(1), "nextPage": "2"}, {"documents": items(2), "nextPage": None}],
         ["1", "2"], ["", "page=2"]),
        # A next page is named, but only its number may lead to it.
        ([{"documents": items(1), "next": "tok2"}, {"documents": items(2), "next": None}], ["1", "2"], ["", "page=2"]),
        # Offsets.
        ([{"documents": items(1, 2), "offset": 0, "limit": 2}, {"documents": items(3), "offset": 2, "limit": 2}],
         ["1", "2", "3"], ["", "offset=2"]),
        ([{"documents": items(1, 2), "offset": 0, "limit": 2, "total": 2}], ["1", "2"], [""]),
        # Cursors. A list without more pages is complete, whatever its cursor.
        ([{"documents": items(1), "next_cursor": "a="}, {"documents": items(2), "next_cursor": None}],
         ["1", "2"], ["", "cursor=a%3D"]),
        ([{"documents": items(1), "has_more": False, "end_cursor": "a"}], ["1"], [""]),
        ([{"items": items(1), "page": {"hasNext": False, "cursor": "a"}}], ["1"], [""]),
        # Links. Only their query is used: the API key stays with the host of the connection.
        ([{"data": items(1), "links": {"next": {"href": "https://evil.example/x?after=1"}}}, {"data": items(2)}],
         ["1", "2"], ["", "after=1"]),
        ([(items(1), header("p=2")), items(2)], ["1", "2"], ["", "p=2"]),
        ([{"data": items(1), "links": {"next": {"href": None}}}, AssistantNotFoundError("no", status=404)],
         ["1"], ["", "page=2"]),
    ],
)  # fmt: skip
def test_a_list_is_read_to_its_end(answers, ids, queries):
    assert read(*answers) == (ids, queries)


@pytest.mark.promise("documents of a site", "A list that cannot be read to its end is an error that shows its fields.")
@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([{"documents": items(1), "next_cursor": "a"}, {"documents": items(1), "next_cursor": "a"}],
         "repeats a page.* 'documents', 'next_cursor'"),
        ([{"documents": items(1), "total": 3}, {"documents": items(1), "total": 3}], "repeats a page"),
        ([{"documents": items(1), "total": 3}, {"documents": [], "total": 3}],
         "at least 2 more documents than the 1 .* 'documents', 'total'"),
        ([{"documents": items(1), "has_more": True}, {"documents": [], "has_more": True}],
         "1 more document than the 1"),
        *[([{"documents": items(1), **more}] * 2, "repeats a page") for more in (
            {"next": "tok2"}, {"nextPage": "tok2"}, {"pagination": {"next": "tok2"}}, {"next": "/docs/page/2"},
            {"links": {"next": {"token": "tok2"}}}, {"next": "http://[x"}, {"total": "6"}, {"has_more": "true"},
            {"offset": 0, "limit": 1})],
        ([(items(1), '</docs/page/2>; rel="next"')] * 2, "repeats a page"),
        ([{"files": items(1), "count": 1}], "no list of documents, and its fields are 'files', 'count'"),
        (["text"], "no list of documents, and is not an object"),
        ([[{"key": 1, "name": "n"}]], "no id, and its fields are 'key', 'name'"),
        ([[1]], "no id, and is not an object"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_error_with_the_fields(answers, message):
    with pytest.raises(AssistantResponseError, match=message):
        read(*answers)


def test_an_error_of_a_page_is_raised():
    with pytest.raises(AssistantServerError):
        read({"documents": items(1), "next_cursor": "a"}, AssistantServerError("down", status=500))


def test_the_fields_of_a_document():
    record = {"documentId": 7, "name": "a.pdf", "created_at": "2026-11-01T10:00:00", "site": {"id": "docs"}}
    pages = DocumentPages("docs", DocumentRoutes(status_field="phase", active="Live!"))
    page = pages.call.parse({"documents": [record, {"id": "d", "attributes": {"title": "T", "phase": "LIVE!"}}]}, None)
    first, second = page.documents
    assert (first.document_id, first.title, first.state) == ("7", "a.pdf", "unknown")
    assert first.created_at.isoformat() == "2026-11-01T10:00:00+00:00"
    assert (second.title, second.state) == ("T", "active")


@pytest.mark.parametrize("paging", PAGINGS)
def test_documents_are_listed_and_changed(paging, monkeypatch):
    with DocumentSite(paging=paging, page_size=7) as site:
        ids = [site.store(f"Title {number}", "Text").id for number in range(20)]
        monkeypatch.setenv(CONN, site.connection(manage_documents=True))
        hook = AssistantHook()
        assert [document.document_id for document in hook.list_documents()] == ids
        hook.set_document_status(ids[:2], "inactive")
        hook.set_document_status(ids[1:2], "active")
        hook.delete_documents(ids[5:])
        states = {document.document_id: document.state for document in hook.list_documents()}
        hook.client.close()
    assert states == {one: "draft" if one == ids[0] else "active" for one in ids[:5]}


@pytest.mark.parametrize(
    ("settings", "change", "request_sent"),
    [
        ({}, "activate", ("PATCH", "bulk-status", {"document_ids": ["a/b"], "status": "active"})),
        ({}, "deactivate", ("PATCH", "bulk-status", {"document_ids": ["a/b"], "status": "draft"})),
        ({}, "delete", ("POST", "bulk-delete", {"document_ids": ["a/b"]})),
        ({"status_field": "phase", "inactive": "off", "draft_words": "hidden"}, "deactivate",
         ("PATCH", "bulk-status", {"document_ids": ["a/b"], "phase": "off"})),
        ({"status_field": "is_active", "active": True}, "activate",
         ("PATCH", "bulk-status", {"document_ids": ["a/b"], "is_active": True})),
        ({"delete": "/m2m/sites/{site_id}/documents/{document_id}"}, "delete", ("DELETE", "a%2Fb", None)),
        ({"activate": "POST /m2m/sites/{site_id}/documents/{document_id}/on"}, "activate",
         ("POST", "a%2Fb/on", {"status": "active"})),
    ],
)  # fmt: skip
def test_routes_and_words_are_settings(settings, change, request_sent):
    call = change_documents("docs", DocumentRoutes(**settings), change, ["a/b"])
    method, path, body = request_sent
    assert (call.method, call.path, call.json) == (method, f"/m2m/sites/docs/documents/{path}", body)
    assert call.repeatable


def test_ids_go_into_batches_of_a_hundred():
    assert route_of(DocumentRoutes(), "delete").batch_size == 100
    assert route_of(DocumentRoutes(delete="/x/{document_id}"), "delete").batch_size == 1


def test_a_connection_that_does_not_manage_documents_sends_nothing(monkeypatch):
    with DocumentSite() as site:
        for value in (None, False, "", "false"):
            monkeypatch.setenv(CONN, site.connection(manage_documents=value))
            for use in (
                lambda hook: list(hook.list_documents()),
                lambda hook: hook.delete_documents(["d1"]),
                lambda hook: hook.set_document_status(["d1"], "active"),
            ):
                with pytest.raises(AssistantInputError, match="manage_documents"):
                    use(AssistantHook())
    assert not site.requests


@pytest.mark.parametrize(
    "value",
    [
        "yes please",
        {"list": "https://evil.example.com/x"},
        {"list": "//evil.example.com/x"},
        {"list": "/m2m/documents?size=100"},
        {"delete": "/m2m/../admin"},
        {"delete": "/m2m/%2E%2e/admin"},
        {"delete": "/m2m/{tenant_id}"},
        {"delete": "get it /m2m/x"},
        {"unknown": {}},
    ],
)
def test_routes_that_cannot_be_used_are_an_error_of_the_connection(value, monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection(manage_documents=value))
        with pytest.raises(AssistantInputError, match="manage_documents"):
            AssistantHook().document_routes()
