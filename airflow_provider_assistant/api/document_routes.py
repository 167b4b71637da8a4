"""
The routes that list, change and delete documents, as settings of a connection.

The API's specification does not show these routes. The defaults are the paths that the service's older documentation
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_state import DEFAULT_WORDS, DocumentWords
from airflow_provider_assistant.api.endpoints import is_below_base_url, segment
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.api.status import words_of
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError, AssistantInputError
from airflow_provider_assistant.texts import counted

T = TypeVar("T")

DOCUMENTS = "/m2m/sites/{site_id}/documents"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
# Maximum number of ids in one request.
BATCH = 100
# Statuses of a route that the service does not have. A 404 may also concern the document.
MISSING_ROUTE = frozenset({404, 405, 501})
Change: TypeAlias = Literal["activate", "deactivate", "delete"]


@dataclass(frozen=True, slots=True)
class Route:
    """A route of documents: one of them per request if its path has ``{document_id}``, otherwise a list of ids."""

    method: str
    path: str

    @property
    def batch_size(self) -> int:
        """Maximum number of documents per request."""
        return 1 if "{document_id}" in self.path else BATCH


def _checked_route(text: str) -> str:
    """Check a path, with or without a method before it, so that the API key is sent below the base URL only."""
    method, _, path = text.rpartition(" ")
    if method and method not in METHODS:
        raise ValueError(f"must be a path, or one of {', '.join(sorted(METHODS))} and a path")
    if not is_below_base_url(path) or "?" in path or "#" in path:
        raise ValueError(f"must lie below the base URL, such as '{DOCUMENTS}', without a query or a fragment")
    try:
        path.format(site_id="", document_id="")
    except (KeyError, IndexError, ValueError):
        raise ValueError("may only contain the placeholders {site_id} and {document_id}") from None
    return text


_Route: TypeAlias = Annotated[str, AfterValidator(_checked_route)]
_Words: TypeAlias = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(words_of)]


class DocumentRoutes(BaseModel):
    """
    The settings with which a connection describes its documents, in ``manage_documents``.

    A route is a path, or a method and a path, such as ``POST /m2m/sites/{site_id}/documents/{document_id}/activate``.
    None for a route that the service does not have.

    :param list: Route that lists documents. Its default method is GET.
    :param activate: Route that puts documents into use. Its default method is PATCH.
    :param deactivate: Route that takes documents out of use. Its default method is PATCH.
    :param delete: Route that deletes documents. Its default method is DELETE if its path has ``{document_id}``,
        otherwise POST.
    :param status_field: Field with the status of a document, in replies and in requests. Default: ``status`` in
        requests, and the usual names in replies.
    :param active: Status that is sent to activate documents.
    :param inactive: Status that is sent to deactivate documents.
    :param active_words: Further status words of a document that is in use.
    :param draft_words: Further status words of a document that is not in use.
    :param processing_words: Further status words of a document that is not ready yet.
    :param failed_words: Further status words of a document that cannot be used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    list: _Route | None = DOCUMENTS
    activate: _Route | None = f"{DOCUMENTS}/bulk-status"
    deactivate: _Route | None = f"{DOCUMENTS}/bulk-status"
    delete: _Route | None = f"{DOCUMENTS}/bulk-delete"
    status_field: str | None = None
    active: str | bool = "active"
    inactive: str | bool = "draft"
    active_words: _Words = ()
    draft_words: _Words = ()
    processing_words: _Words = ()
    failed_words: _Words = ()

    @cached_property
    def words(self) -> DocumentWords:
        """The status words of documents: those known, and those of the connection."""
        words = DEFAULT_WORDS.extended(active=[str(self.active)], draft=[str(self.inactive)])
        names = ("active", "draft", "processing", "failed")
        return words.extended(**{name: getattr(self, f"{name}_words") for name in names})


def described(reply: CreatedDocument, routes: DocumentRoutes | None) -> CreatedDocument:
    """Return the reply to a create as the connection describes documents; ``routes`` is None if it does not."""
    if routes is None:
        return reply
    return replace(reply, words=routes.words, status_field=routes.status_field)


def route_of(routes: DocumentRoutes, name: Change | Literal["list"]) -> Route:
    """Return a route that the connection describes; an error if it says that the service does not have the route."""
    text: str | None = getattr(routes, name)
    if text is None:
        raise AssistantInputError(
            f"the connection has no route {name!r} in manage_documents",
            todo="Describe the route there, if the service has it.",
            field="manage_documents",
        )
    method, _, path = text.rpartition(" ")
    defaults = {"list": "GET", "delete": "DELETE" if "{document_id}" in path else "POST"}
    return Route(method or defaults.get(name, "PATCH"), path)


def change_documents(site_id: str, routes: DocumentRoutes, change: Change, ids: Sequence[str]) -> Call[ApiReply]:
    """
    Return the call that activates, deactivates or deletes documents. Sending it twice has the same effect as once.

    :param ids: Ids of the documents, at least one and at most ``batch_size`` of the route.
    """
    route = route_of(routes, change)
    if not 1 <= len(ids) <= route.batch_size:
        raise ValueError(f"{counted(len(ids), 'document')} in a request of 1 to {route.batch_size}")
    path = route.path.replace("{site_id}", segment("site_id", site_id))
    body: dict[str, Any] = {}
    if change != "delete":
        body[routes.status_field or "status"] = routes.active if change == "activate" else routes.inactive
    if route.batch_size == 1:
        path = path.replace("{document_id}", segment("document_id", ids[0]))
    else:
        body["document_ids"] = list(ids)
    subject = f"document {ids[0]!r}" if len(ids) == 1 else counted(len(ids), "document")
    return Call(
        endpoint=f"documents.{change}",
        method=route.method,
        path=path,
        subject=f"{subject} of site {site_id!r}",
        parse=ApiReply,
        # The deletion of one document has no body.
        json=body or None,
        idempotent=True,
    )


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in groups for one request each."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def is_missing_route(error: AssistantError) -> bool:
    """Return whether an error may mean that the service does not have the route; a 404 may also concern a document."""
    return isinstance(error, AssistantAPIError) and error.status in MISSING_ROUTE
