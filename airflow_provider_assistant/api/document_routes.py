"""
The routes that list, change and delete documents, as data.

The API's specification does not show these routes, so a connection describes them: paths, methods, and the names in the
bodies. The defaults are the paths that the service's older documentation names, and common names of fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_state import DocumentWords
from airflow_provider_assistant.api.endpoints import segment
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.api.status import word, words_of
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError, AssistantInputError
from airflow_provider_assistant.texts import counted

T = TypeVar("T")

SITE = "/m2m/sites/{site_id}"
# Statuses of a route that the service does not have. A 404 may also concern the document.
MISSING_ROUTE = frozenset({404, 405, 501})
Change: TypeAlias = Literal["activate", "deactivate", "delete"]
PagingKind: TypeAlias = Literal["auto", "none", "page", "offset", "cursor", "link"]

_Words: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(word)], ...], BeforeValidator(words_of)]


def _path(path: str) -> str:
    """Check a path template, so that the API key is sent to no other host and below the base URL only."""
    parts = urlsplit(path)
    if not path.startswith("/") or path.startswith("//") or ".." in path.split("/"):
        raise ValueError("must begin with one '/' and lie below the base URL, such as '/m2m/sites/{site_id}/documents'")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    try:
        path.format(site_id="", document_id="")
    except (KeyError, IndexError, ValueError):
        raise ValueError("may only contain the placeholders {site_id} and {document_id}") from None
    return path


Path = Annotated[str, AfterValidator(_path)]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Paging(_Data):
    """
    How the list of documents is read in pages.

    :param kind: ``page`` numbers, ``offset``, ``cursor`` and ``link`` to the next page, ``none`` for one page. Default:
        ``auto``, what the replies show.
    :param parameter: Query parameter of the page number, offset or cursor. Default: ``page``, ``offset`` or ``cursor``.
    :param first: Number of the first page. Default: 1.
    :param size_parameter: Query parameter of the page size. Default: none is sent.
    :param size: Number of documents per page to ask for. Default: 100; only sent with ``size_parameter``.
    :param next: Path of the field with the next cursor or link, such as ``meta.next``. Default: the usual names.
    :param total: Path of the field with the number of all documents. Default: the usual names.
    """

    kind: PagingKind = "auto"
    parameter: str | None = None
    first: int = 1
    size_parameter: str | None = None
    size: Annotated[int, Field(ge=1)] = 100
    next: str | None = None
    total: str | None = None


class ListRoute(_Data):
    """
    The route that lists documents, and the names in its reply. A name may be a path, such as ``meta.state``.

    :param items: Field with the list. Default: the first list of objects in the reply.
    :param id: Field of an item with its id. Default: ``document_id``, ``id`` or ``uuid``.
    :param title: Field with the title or file name. Default: the usual names.
    :param status: Field with the status. Default: the usual names, see :mod:`.document_state`.
    :param created_at: Field with the time of creation, ISO 8601. Default: the usual names.
    :param updated_at: Field with the time of the last change. Default: the usual names.
    :param content: Field with the text, or the answer of a Q&A document. Default: ``content``, ``text`` or ``answer``.
    :param question: Field with the question. Default: ``question``.
    """

    method: Method = "GET"
    path: Path = f"{SITE}/documents"
    items: str | None = None
    id: str | None = None
    title: str | None = None
    status: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    content: str | None = None
    question: str | None = None
    paging: Paging = Paging()


class ChangeRoute(_Data):
    """
    A route that changes documents: one per request if its path has ``{document_id}``, otherwise a list of ids.

    :param ids: Field of the body with the ids.
    :param batch: Maximum number of ids per request. Default: 100.
    """

    method: Method
    path: Path
    ids: str = "document_ids"
    batch: Annotated[int, Field(ge=1)] = 100

    @property
    def is_single(self) -> bool:
        """Whether a request changes one document."""
        return "{document_id}" in self.path

    @property
    def batch_size(self) -> int:
        """Maximum number of documents per request."""
        return 1 if self.is_single else self.batch


class StatusRoute(ChangeRoute):
    """
    The route that activates and deactivates documents.

    :param status: Field of the body with the status. Default: ``status``.
    :param active: Value that activates. Default: ``active``.
    :param inactive: Value that deactivates. Default: ``draft``.
    """

    method: Method = "PATCH"
    path: Path = f"{SITE}/documents/bulk-status"
    status: str = "status"
    active: Any = "active"
    inactive: Any = "draft"


class DeleteRoute(ChangeRoute):
    """The route that deletes documents."""

    method: Method = "POST"
    path: Path = f"{SITE}/documents/bulk-delete"


class UpdateRoute(_Data):
    """The route that changes the fields of one document."""

    method: Method = "PATCH"
    path: Path = f"{SITE}/documents/{{document_id}}"


class DocumentRoutes(_Data):
    """
    The routes of documents that a connection switches on with ``manage_documents``. None for a route that is missing.

    :param list: Route that lists documents.
    :param set_status: Route that activates and deactivates documents.
    :param delete: Route that deletes documents.
    :param update: Route that changes the fields of a document.
    :param active_words: Further status words of a document that is in use.
    :param draft_words: Further status words of a document that is not in use.
    :param processing_words: Further status words of a document that is not ready yet.
    :param failed_words: Further status words of a document that cannot be used.
    """

    list: ListRoute | None = ListRoute()
    set_status: StatusRoute | None = StatusRoute()
    delete: DeleteRoute | None = DeleteRoute()
    update: UpdateRoute | None = UpdateRoute()
    active_words: _Words = ()
    draft_words: _Words = ()
    processing_words: _Words = ()
    failed_words: _Words = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.update and "{document_id}" not in self.update.path:
            raise ValueError("the path of update needs {document_id}")
        return self

    def changed(self, **fields: Any) -> Self:
        """Return these routes with other values of some fields."""
        # A copy of pydantic would also have the cached words.
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**values, **fields})

    @cached_property
    def words(self) -> DocumentWords:
        """The status words of documents: those known, and those of the connection."""
        return DocumentWords().extended(
            active=self.active_words,
            draft=self.draft_words,
            processing=self.processing_words,
            failed=self.failed_words,
        )


def described(reply: CreatedDocument, routes: DocumentRoutes | None) -> CreatedDocument:
    """
    Return the reply to a create as the connection describes documents: with its names and status words.

    :param routes: None if the connection describes none.
    """
    if routes is None:
        return reply
    if routes.list is None:
        return replace(reply, words=routes.words)
    return replace(
        reply,
        words=routes.words,
        id_field=routes.list.id,
        status_field=_last_name(routes.list.status),
    )


def _last_name(path: str | None) -> str | None:
    """Return the last name of a path such as ``meta.key``: the reply to a create may have other envelopes."""
    return path and path.split(".")[-1]


def required(route: T | None, name: str) -> T:
    """
    Return a route that the connection has.

    :param route: The route.
    :param name: Its field in ``manage_documents``.
    :raises AssistantInputError: The connection says that the service does not have it.
    """
    if route is None:
        raise AssistantInputError(
            f"the connection has no route {name!r} in manage_documents",
            todo="Describe the route there, if the service has it.",
            field="manage_documents",
        )
    return route


def path_of(template: str, site_id: str, document_id: str = "") -> str:
    """Return a path with its ids, percent-encoded."""
    document_segment = ""
    if "{document_id}" in template:
        document_segment = segment("document_id", document_id)
    return template.format(site_id=segment("site_id", site_id), document_id=document_segment)


def route_of(routes: DocumentRoutes, change: Change) -> ChangeRoute:
    """
    Return the route of a change.

    :raises AssistantInputError: The connection says that the service does not have it.
    """
    if change == "delete":
        return required(routes.delete, "delete")
    return required(routes.set_status, "set_status")


def change_documents(site_id: str, route: ChangeRoute, change: Change, ids: Sequence[str]) -> Call[ApiReply]:
    """
    Return the call that activates, deactivates or deletes documents. Sending it twice has the same effect as once.

    :param route: Route of the change.
    :param ids: Ids of the documents, at least one and at most ``batch_size`` of the route.
    """
    if not 1 <= len(ids) <= route.batch_size:
        raise ValueError(f"{counted(len(ids), 'document')} in a request of 1 to {route.batch_size}")
    body: dict[str, Any] = {}
    if not route.is_single:
        body[route.ids] = list(ids)
    if isinstance(route, StatusRoute):
        body[route.status] = route.active if change == "activate" else route.inactive
    subject = f"{counted(len(ids), 'document')} of site {site_id!r}"
    if len(ids) == 1:
        subject = f"document {ids[0]!r} of site {site_id!r}"
    return Call(
        endpoint=f"documents.{change}",
        method=route.method,
        path=path_of(route.path, site_id, ids[0]),
        subject=subject,
        parse=ApiReply,
        # The deletion of one document has no body.
        json=body or None,
        idempotent=True,
    )


def update(site_id: str, route: UpdateRoute, document_id: str, fields: dict[str, Any]) -> Call[ApiReply]:
    """
    Return the call that changes fields of a document.

    :param fields: New values by field name.
    """
    return Call(
        endpoint="documents.update",
        method=route.method,
        path=path_of(route.path, site_id, document_id),
        subject=f"document {document_id!r} of site {site_id!r}",
        parse=ApiReply,
        json=fields,
        idempotent=True,
    )


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in groups for one request each."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def is_missing_route(error: AssistantError) -> bool:
    """
    Return whether an error may mean that the service does not have the route: 404, 405 or 501.

    :param error: Error of a request. A 404 may also mean that the document is gone.
    """
    return isinstance(error, AssistantAPIError) and error.status in MISSING_ROUTE
