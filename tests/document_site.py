"""A site whose documents can be listed, activated, deactivated and deleted, with any names in paths and bodies."""

from __future__ import annotations

import json
import threading
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
PAGINGS = ("none", "page", "offset", "cursor", "link", "header")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Letters of names that no default has.
LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass
class Names:
    """
    The names in paths and bodies of the routes. The defaults are those of the package.

    :param items: Path of the list in its reply; empty for a reply that is a list.
    """

    list_path: str = f"{SITE}/documents"
    status_path: str = f"{SITE}/documents/bulk-status"
    delete_path: str = f"{SITE}/documents/bulk-delete"
    status_method: str = "PATCH"
    delete_method: str = "POST"
    items: str = "documents"
    id: str = "id"
    title: str = "title"
    status: str = "status"
    created_at: str = "created_at"
    content: str = "content"
    question: str = "question"
    ids: str = "document_ids"
    new_status: str = "status"
    active: Any = "active"
    draft: Any = "draft"
    processing: str = "processing"
    parameter: str = ""
    next: str = ""
    total: str = "total"

    @classmethod
    def random(cls, rng: Random) -> Names:
        """Return names that differ from the defaults in every one."""

        def word() -> str:
            return "".join(rng.choices(LETTERS, k=rng.randint(4, 9)))

        single = rng.random() < 0.3
        path = f"{SITE}/{word()}"
        ending = "/{document_id}" if single else ""
        active, draft = rng.choice([(word(), word()), (True, False), (1, 0)])
        return cls(
            list_path=path,
            status_path=f"{path}/{word()}{ending}",
            delete_path=f"{path}/{word()}{ending}",
            status_method=rng.choice(["POST", "PUT"]),
            delete_method=rng.choice(["DELETE", "PUT"]) if single else "POST",
            items=rng.choice([word(), f"{word()}.{word()}"]),
            id=word(),
            title=word(),
            status=rng.choice([word(), f"{word()}.{word()}"]),
            created_at=word(),
            content=word(),
            question=word(),
            ids=word(),
            new_status=word(),
            active=active,
            draft=draft,
            processing=word(),
            parameter=word(),
            next=f"{word()}.{word()}",
            total=word(),
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

    # -- the connection ------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://{self.host}{API}"

    def routes(self) -> dict[str, Any]:
        """Return ``manage_documents`` of a connection that describes this site."""
        names = self.names
        paging: dict[str, Any] = {"kind": "link" if self.paging == "header" else self.paging}
        if names.parameter and self.paging in {"page", "offset", "cursor"}:
            paging["parameter"] = names.parameter
        if names.next and self.paging in {"cursor", "link"}:
            paging["next"] = names.next
        return {
            "list": {
                "path": names.list_path,
                "items": names.items,
                "id": names.id,
                "title": names.title,
                "status": names.status,
                "created_at": names.created_at,
                "content": names.content,
                "question": names.question,
                "paging": paging,
            },
            "set_status": {
                "method": names.status_method,
                "path": names.status_path,
                "ids": names.ids,
                "status": names.new_status,
                "active": names.active,
                "inactive": names.draft,
            },
            "delete": {"method": names.delete_method, "path": names.delete_path, "ids": names.ids},
            "active_words": [str(names.active)],
            "draft_words": [str(names.draft)],
            "processing_words": [names.processing],
        }

    def connection(self, **extra: Any) -> str:
        """Return an Airflow connection as JSON, which manages documents."""
        name = f"site-{urlsplit(self.base_url).port}"
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
        for route, route_method, template in (
            ("status", names.status_method, names.status_path),
            ("delete", names.delete_method, names.delete_path),
        ):
            ids = self._ids(template, path, body) if method == route_method else None
            if ids is None:
                continue
            if route in self.missing:
                return self.missing[route], {"error": "no"}, {}
            return self._changed(route, ids, body)
        return 404, {"error": "no such route"}, {}

    def _ids(self, template: str, path: str, body: bytes) -> list[str] | None:
        if "{document_id}" in template:
            prefix = template.removesuffix("{document_id}")
            if not path.startswith(prefix):
                return None
            return [path.removeprefix(prefix)]
        if path != template:
            return None
        ids = json.loads(body).get(self.names.ids)
        return ids if isinstance(ids, list) else None

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
        # A path in the list has its last name here.
        return {"record": {names.id: stored.id, names.status.split(".")[-1]: status}}

    def _changed(self, route: str, ids: list[str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        unknown = [document_id for document_id in ids if document_id not in self.documents]
        if unknown and (self.unknown == "reject" or len(ids) == 1):
            return 404, {"error": "document not found"}, {}
        action = "delete"
        if route == "status":
            status = json.loads(body).get(self.names.new_status)
            if status not in (self.names.active, self.names.draft):
                return 400, {"error": "no such status"}, {}
            action = "activate" if status == self.names.active else "deactivate"
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
        item = {
            names.id: stored.id,
            names.title: stored.title,
            names.created_at: stored.created_at.isoformat(),
            names.content: stored.content,
            names.question: stored.question,
        }
        return with_value(item, names.status, status)

    def _listed(self, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        names = self.names
        everything = list(self.documents.values())
        parameter = names.parameter or {"link": "after", "header": "after"}.get(self.paging, self.paging)
        given = query.get(parameter)
        size = self.page_size
        start = 0
        if self.paging == "none":
            size = len(everything)
        elif given is not None:
            start = int(given)
            if self.paging == "page":
                start = (start - 1) * size
        end = start + size
        page = [self._item(stored) for stored in everything[start:end]]
        reply: Any = page
        if names.items:
            reply = with_value({}, names.items, page)
        headers = {}
        has_more = end < len(everything)
        if self.paging in {"page", "offset"} and names.items:
            reply = with_value(reply, names.total, len(everything))
        if self.paging == "cursor":
            reply = with_value(reply, names.next or "next_cursor", str(end) if has_more else None)
        if self.paging == "link":
            link = f"https://other.example.com{names.list_path}?{parameter}={end}"
            reply = with_value(reply, names.next or "next", link if has_more else None)
        if self.paging == "header" and has_more:
            headers["Link"] = (
                f'<{names.list_path}?{parameter}=0>; rel="first", <{names.list_path}?{parameter}={end}>; rel="next"'
            )
        return 200, reply, headers


def with_value(mapping: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Set the value at a path such as ``meta.next``, and return the mapping."""
    *parents, name = path.split(".")
    inner = mapping
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[name] = value
    return mapping
