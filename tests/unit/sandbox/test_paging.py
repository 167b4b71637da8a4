"""Lists in pages of every kind."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

KINDS = ["page", "offset", "cursor", "link", "header"]


def fill(client: httpx.Client, count: int) -> list[str]:
    ids = []
    for number in range(count):
        body = {"title": f"T{number}", "content": "Text."}
        ids.append(client.post("/documents/text", json=body).json()["id"])
    return ids


def read_all(client: httpx.Client, kind: str, **parameters: Any) -> list[list[str]]:
    """Return the ids of each page, read as a client of this kind of paging does."""
    pages: list[list[str]] = []
    url: str | None = "/documents"
    asked = dict(parameters)
    while url is not None:
        reply = client.get(url, params=asked or None)
        body = reply.json()
        ids = [document["id"] for document in body["documents"]]
        pages.append(ids)
        match kind:
            case "page":
                asked["page"] = body["page"] + 1
                url = url if body["page"] < body["total_pages"] else None
            case "offset":
                asked["offset"] = body["offset"] + len(ids)
                url = url if asked["offset"] < body["total"] else None
            case "cursor":
                asked["cursor"] = body["next_cursor"]
                url = url if body["next_cursor"] else None
            case "link":
                asked, url = {}, body["next"]
            case "header":
                asked, url = {}, reply.links.get("next", {}).get("url")
        assert len(pages) < 50
    return pages


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (3, 3), (4, 3), (11, 4), (6, 1)])
def test_every_document_is_on_one_page(
    server: SandboxServer, client: httpx.Client, kind: str, count: int, size: int
) -> None:
    server.service.faults.update(paging=kind, page_size=size)
    ids = fill(client, count)
    pages = read_all(client, kind)
    assert [document_id for page in pages for document_id in page] == ids
    assert max(len(page) for page in pages) <= size
    assert len(pages) == max(1, -(-count // size))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameter", ["page_size", "limit"])
def test_a_client_may_ask_for_smaller_pages_not_for_larger_ones(
    server: SandboxServer, client: httpx.Client, kind: str, parameter: str
) -> None:
    server.service.faults.update(paging=kind, page_size=5)
    fill(client, 7)
    first_pages = [read_all(client, kind, **{parameter: size})[0] for size in (2, 5, 1000)]
    assert [len(page) for page in first_pages] == [2, 5, 5]


@pytest.mark.parametrize("kind", ["cursor", "link", "header"])
def test_cursors_skip_nothing_where_documents_are_deleted_between_pages(
    server: SandboxServer, client: httpx.Client, kind: str
) -> None:
    server.service.faults.update(paging=kind, page_size=2)
    ids = fill(client, 7)
    dice = random.Random(kind)
    reply = client.get("/documents")
    seen = [document["id"] for document in reply.json()["documents"]]
    client.post("/documents/bulk-delete", json={"document_ids": dice.sample(seen, 1)})
    if kind == "cursor":
        reply = client.get("/documents", params={"cursor": reply.json()["next_cursor"]})
    elif kind == "link":
        reply = client.get(reply.json()["next"])
    else:
        reply = client.get(reply.links["next"]["url"])
    assert [document["id"] for document in reply.json()["documents"]] == ids[2:4]


def test_without_paging_a_list_is_whole(client: httpx.Client) -> None:
    ids = fill(client, 60)
    reply = client.get("/documents", params={"page": 2, "limit": 3})
    assert set(reply.json()) == {"documents"}
    assert [document["id"] for document in reply.json()["documents"]] == ids


def test_a_page_behind_the_last_one_is_empty(server: SandboxServer, client: httpx.Client) -> None:
    fill(client, 3)
    for kind, parameter in (("page", "page"), ("offset", "offset")):
        server.service.faults.update(paging=kind)
        reply = client.get("/documents", params={parameter: 1_000_000_000})
        assert (reply.status_code, reply.json()["documents"]) == (200, [])


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("page", {"page": 0}),
        ("page", {"page": "two"}),
        ("page", {"page_size": 0}),
        ("offset", {"offset": -1}),
        ("offset", {"limit": "x"}),
        ("cursor", {"cursor": "nonsense"}),
        ("cursor", {"cursor": "YWZ0ZXIgLTE="}),
        ("link", {"cursor": "ä"}),
    ],
)
def test_wrong_parameters_are_refused(
    server: SandboxServer, client: httpx.Client, kind: str, parameters: dict[str, Any]
) -> None:
    server.service.faults.update(paging=kind)
    assert client.get("/documents", params=parameters).status_code == 400
