"""A site whose documents can be listed, activated, deactivated and deleted, as ``manage_documents`` describes them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.servers import LocalServer, body_of, send

API = "/api/v1"
SITE_ID = "help"
SITE = f"/m2m/sites/{SITE_ID}"
PAGINGS = ("none", "page", "cursor", "link", "header")
# Letters of names that no default has.
LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass
class Names:
    """
    Routes and names of the site. The defaults are those of the package.

    :param items: Field of the list in its reply; empty for a reply that is a list.
    """

    list_path: str = f"{SITE}/documents"
    activate: str = f"PATCH {SITE}/documents/bulk-status"
    deactivate: str = f"PATCH {SITE}/documents/bulk-status"
    delete: str = f"POST {SITE}/documents/bulk-delete"
    items: str = "documents"
    id: str = "id"
    status: str = "status"
    active: str = "active"
    draft: str = "draft"
    processing: str = "processing"

    @classmethod
    def random(cls, rng: Random) -> Names:
        """Return other names, which a connection has to describe."""

        def word() -> str:
            return "".join(rng.choices(LETTERS, k=rng.randint(4, 9)))

        path = f"{SITE}/{word()}"
        ending = rng.choice(["", "/{document_id}"])
        return cls(
            list_path=path,
            activate=f"{rng.choice(['POST', 'PUT'])} {path}/{word()}{ending}",
            deactivate=f"{rng.choice(['POST', 'PUT'])} {path}/{word()}{ending}",
            delete=f"{rng.choice(['POST', 'DELETE'])} {path}{ending or '/remove'}",
            items=rng.choice(["items", "data", "results"]),
            id=rng.choice(["document_id", "documentId", "id", "uuid"]),
            status=word(),
            active=word(),
            draft=word(),
            processing=word(),
        )


@dataclass
class Stored:
    """A document of the site."""

    id: str
    title: str
    content: str
    question: str | None
    created_at: datetime
    active: bool = True
    # Number of lists that still show it as being processed.
    processing: int = 0


@dataclass(frozen=True)
class Change:
    """One change that the site carried out."""

    action: str
    document_id: str


class DocumentSite(LocalServer):
    """
    Answer creates and the routes of documents.

    :param paging: How the list is paged.
    :param page_size: Documents per page.
    :param missing: Status of each route that the service does not have: ``list``, ``status`` or ``delete``.
    :param draft: Whether new documents are drafts.
    :param processing: Number of lists that show a new document as being processed.
    :param unknown: What a request with an unknown id gets: ``reject`` for a 404, or ``ignore``.
    :param before: Called before each request is carried out, with its number, method and path. It returns None, or a
        status to answer without doing anything.
    :param after: Called after it was carried out, and before it is answered. It returns whether to answer.
    """

    def __init__(
        self,
        names: Names | None = None,
        *,
        paging: str = "none",
        page_size: int = 50,
        missing: Mapping[str, int] | None = None,
        draft: bool = False,
        processing: int = 0,
        unknown: str = "ignore",
        before: Callable[[int, str, str], int | None] = lambda _, __, ___: None,
        after: Callable[[int, str, str], bool] = lambda _, __, ___: True,
    ) -> None:
        super().__init__()
        self.names = names or Names()
        self.paging = paging
        self.page_size = page_size
        self.missing = dict(missing or {})
        self.draft = draft
        self.processing = processing
        self.unknown = unknown
        self.before = before
        self.after = after
        self.documents: dict[str, Stored] = {}
        self.changes: list[Change] = []
        self.requests: list[tuple[str, str]] = []
        self._guard = threading.Lock()
        self._last_number = 0
        self._created_at = time.monotonic_ns()

    # -- the connection ------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://{self.host}{API}"

    def routes(self) -> dict[str, Any]:
        """Return ``manage_documents`` of a connection that describes this site."""
        names = self.names
        return {
            "list": names.list_path,
            "activate": names.activate,
            "deactivate": names.deactivate,
            "delete": names.delete,
            "status_field": names.status,
            "active": names.active,
            "inactive": names.draft,
            "processing_words": [names.processing],
        }

    def connection(self, **extra: Any) -> str:
        """Return an Airflow connection as JSON, which manages documents."""
        # The system may give a port again, and tests share a ledger.
        name = f"site-{urlsplit(self.base_url).port}-{self._created_at}"
        fields = {"tenant_id": "acme", "site_id": SITE_ID, "service_name": name, "manage_documents": self.routes()}
        fields |= extra
        return json.dumps(
            {"conn_type": "assistant", "host": self.base_url, "password": "key-of-a-test-0123456789", "extra": fields}
        )

    # -- what a test looks at ------------------------------------------------------------------

    def in_use(self) -> list[tuple[str | None, str]]:
        """Return question (or title) and content of the documents in use, sorted."""
        return sorted(
            (stored.question or stored.title, stored.content) for stored in self.documents.values() if stored.active
        )

    # -- requests ------------------------------------------------------------------------------

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = body_of(request)
        with self._guard:
            number = len(self.requests)
            path = urlsplit(request.path).path.removeprefix(API)
            query = dict(parse_qsl(urlsplit(request.path).query, keep_blank_values=True))
            self.requests.append((request.command, path))
            refused = self.before(number, request.command, path)
            if refused is not None:
                status, reply, headers = refused, {"error": "refused by the test"}, {}
            else:
                status, reply, headers = self._carried_out(request.command, path, query, body)
            is_answered = self.after(number, request.command, path)
        if is_answered:
            send(request, status, json.dumps(reply).encode(), {"Content-Type": "application/json", **headers})
        else:
            request.close_connection = True

    def _carried_out(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        names = self.names
        if method == "POST" and path in {f"{SITE}/documents/qa", f"{SITE}/documents/text"}:
            return 201, self._created(json.loads(body)), {}
        if method == "GET" and path == names.list_path:
            if "list" in self.missing:
                return self.missing["list"], {"error": "no"}, {}
            return self._listed(query)
        for action, route in (
            ("activate", names.activate),
            ("deactivate", names.deactivate),
            ("delete", names.delete),
        ):
            ids = self._ids(route, method, path, body)
            if ids is None or (action != "delete" and not self._sets(action, body)):
                continue
            name = "delete" if action == "delete" else "status"
            if name in self.missing:
                return self.missing[name], {"error": "no"}, {}
            return self._changed(action, ids)
        return 404, {"error": "no such route"}, {}

    def _ids(self, route: str, method: str, path: str, body: bytes) -> list[str] | None:
        route_method, template = route.split()
        if method != route_method:
            return None
        if "{document_id}" in template:
            prefix = template.removesuffix("{document_id}")
            return [path.removeprefix(prefix)] if path.startswith(prefix) else None
        ids = json.loads(body).get("document_ids") if path == template else None
        return ids if isinstance(ids, list) else None

    def _sets(self, action: str, body: bytes) -> bool:
        wanted = self.names.active if action == "activate" else self.names.draft
        return json.loads(body).get(self.names.status) == wanted

    def store(self, title: str, content: str, question: str | None = None, *, active: bool | None = None) -> Stored:
        """Create a document without a request."""
        self._last_number += 1
        stored = Stored(
            id=f"d{self._last_number:05}",
            title=title,
            content=content,
            question=question,
            created_at=datetime.now(UTC),
            active=not self.draft if active is None else active,
            processing=self.processing,
        )
        self.documents[stored.id] = stored
        return stored

    def _created(self, fields: dict[str, Any]) -> dict[str, Any]:
        stored = self.store(
            title=fields.get("title") or "",
            content=fields.get("content") or fields["answer"],
            question=fields.get("question"),
        )
        self.changes.append(Change("create", stored.id))
        names = self.names
        status = names.active if stored.active else names.draft
        return {"status": "success", "data": {names.id: stored.id, names.status: status}}

    def _changed(self, action: str, ids: list[str]) -> tuple[int, Any, dict[str, str]]:
        unknown = [document_id for document_id in ids if document_id not in self.documents]
        if unknown and (self.unknown == "reject" or len(ids) == 1):
            return 404, {"error": "document not found"}, {}
        for document_id in ids:
            if document_id in unknown:
                continue
            self.changes.append(Change(action, document_id))
            if action == "delete":
                del self.documents[document_id]
            else:
                self.documents[document_id].active = action == "activate"
        return 200, {"ok": True}, {}

    # -- the list ------------------------------------------------------------------------------

    def _item(self, stored: Stored) -> dict[str, Any]:
        names = self.names
        status = names.active if stored.active else names.draft
        if stored.processing:
            stored.processing -= 1
            status = names.processing
        return {
            names.id: stored.id,
            names.status: status,
            "title": stored.title,
            "created_at": stored.created_at.isoformat(),
            "content": stored.content,
            "question": stored.question,
        }

    def _listed(self, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        everything = list(self.documents.values())
        size = self.page_size if self.paging != "none" else len(everything)
        start = (int(query.get("page", "1")) - 1) * size if self.paging == "page" else int(query.get("cursor", "0"))
        if self.paging == "none":
            start = 0
        end = start + size
        page = [self._item(stored) for stored in everything[start:end]]
        has_more = end < len(everything)
        if not self.names.items:
            return 200, page, {}
        reply: dict[str, Any] = {self.names.items: page}
        if self.paging == "page":
            reply["meta"] = {"total": len(everything)}
        if self.paging == "cursor":
            # As some services do, the cursor is there on the last page as well.
            reply |= {"has_more": has_more, "next_cursor": str(end)}
        if self.paging == "link":
            reply["next"] = f"https://other.example.com/x?cursor={end}" if has_more else None
        link = f'<{API}/x?cursor=0>; rel="first", <{API}/x?cursor={end}>; rel="next"'
        return 200, reply, {"Link": link} if self.paging == "header" and has_more else {}
