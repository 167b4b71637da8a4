"""The documents of a site, as its list shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.api.document_state import ITEM_ENVELOPES, DocumentState, document_id_of, status_word
from airflow_provider_assistant.api.fields import find, find_as, list_of
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import AssistantResponseError

LIST_FIELDS = ("documents", "items", "data", "results", "records")
SHOWN_FIELDS = 30


@dataclass(frozen=True, slots=True)
class SiteDocument:
    """
    A document in the list of a site. A field is None if the list does not show it.

    :param title: Title or file name.
    :param state: What the status word means; ``unknown`` without one.
    :param content: Text, or answer of a Q&A document.
    :param raw: The item as received.
    """

    document_id: str
    title: str | None
    status: str | None
    state: DocumentState
    created_at: datetime | None
    updated_at: datetime | None
    content: str | None
    question: str | None
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DocumentPage(ApiReply):
    """A page of the list, with its documents in the order of the reply."""

    documents: tuple[SiteDocument, ...]

    @property
    def has_result(self) -> bool:
        """Whether the page has documents; the errors in it are theirs."""
        return bool(self.documents)


def document_page(routes: DocumentRoutes, raw: Any, call_info: CallInfo) -> DocumentPage:
    """
    Return a page of the list.

    :raises AssistantResponseError: The body has no list of documents with ids.
    """
    items = raw if isinstance(raw, list) else find_as(list_of, raw, *LIST_FIELDS)
    if items is None and raw is not None:
        raise AssistantResponseError(f"the reply has no list of documents, and {fields_of(raw)}")
    documents = [_document(routes, item) for item in items or ()]
    return DocumentPage(raw, call_info, tuple(documents))


def fields_of(value: Any) -> str:
    """Return the names of the fields of a reply, for an error."""
    if not isinstance(value, dict):
        return "is not an object"
    names = [repr(name[:SHOWN_FIELDS]) for name in list(value)[:SHOWN_FIELDS]]
    return f"its fields are {', '.join(names)}" if names else "it has no fields"


def _document(routes: DocumentRoutes, item: Any) -> SiteDocument:
    document_id = document_id_of(item, ITEM_ENVELOPES)
    if document_id is None:
        raise AssistantResponseError(f"a document of the list has no id, and {fields_of(item)}")
    status = status_word(item, routes.status_field, ITEM_ENVELOPES)
    text = partial(find, item, envelopes=ITEM_ENVELOPES)
    time = partial(find_as, _moment, item, envelopes=ITEM_ENVELOPES)
    return SiteDocument(
        document_id=document_id,
        title=text("title", "name", "filename", "file_name", "fileName"),
        status=status,
        state="unknown" if status is None else routes.words.state(status),
        created_at=time("created_at", "createdAt", "uploaded_at"),
        updated_at=time("updated_at", "updatedAt", "modified_at"),
        content=text("content", "text", "answer"),
        question=text("question"),
        raw=item,
    )


def _moment(value: Any) -> datetime | None:
    """Return an ISO 8601 time, or seconds or milliseconds since the epoch, timezone-aware; None for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Ten digits are seconds until the year 2286.
            seconds = value / 1000 if value > 1e11 else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
