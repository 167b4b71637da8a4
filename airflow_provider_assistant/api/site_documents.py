"""The documents of a site, as its list shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.document_routes import ListRoute
from airflow_provider_assistant.api.document_state import DocumentState, DocumentWords, document_state, status_word
from airflow_provider_assistant.api.json_objects import nested_objects, text_of
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import AssistantResponseError

ITEM_FIELDS = ("documents", "items", "data", "results", "records", "content", "rows", "entries")
ID_FIELDS = ("document_id", "documentId", "id", "uuid", "_id")
TITLE_FIELDS = ("title", "name", "filename", "file_name", "fileName")
CREATED_FIELDS = ("created_at", "createdAt", "created", "uploaded_at", "creation_date", "date_created")
UPDATED_FIELDS = ("updated_at", "updatedAt", "modified_at", "modifiedAt", "last_modified", "updated")
CONTENT_FIELDS = ("content", "text", "answer", "body")
QUESTION_FIELDS = ("question",)


@dataclass(frozen=True, slots=True)
class SiteDocument:
    """
    A document in the list of a site.

    :param title: Title or file name; None if the list shows none.
    :param status: Status word; None if the list shows none.
    :param state: What the status means; ``unknown`` if the list shows none.
    :param created_at: Time of creation, timezone-aware; None if the list shows none.
    :param updated_at: Time of the last change.
    :param content: Text, or answer of a Q&A document; None if the list does not show it.
    :param question: Question of a Q&A document.
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

    @property
    def is_in_use(self) -> bool | None:
        """Whether the assistant uses it: active and ready. None if the list does not show it."""
        if self.state == "unknown":
            return None
        return self.state == "active"


@dataclass(frozen=True, slots=True)
class DocumentPage(ApiReply):
    """
    A page of the list.

    :param documents: Its documents, in the order of the reply.
    :param skipped: Number of items without an id.
    """

    documents: tuple[SiteDocument, ...]
    skipped: int = 0


def document_page(route: ListRoute, words: DocumentWords, raw: Any, call_info: CallInfo) -> DocumentPage:
    """
    Return a page of the list.

    :param words: What the status words mean.
    :param raw: The decoded body.
    :raises AssistantResponseError: The body has no list.
    """
    items = items_of(route, raw)
    if items is None:
        where = repr(route.items) if route.items else "any usual field"
        raise AssistantResponseError(f"the reply has no list of documents in {where}")
    documents = []
    skipped = 0
    for item in items:
        document = _document(route, words, item)
        if document is None:
            skipped += 1
        else:
            documents.append(document)
    return DocumentPage(raw, call_info, tuple(documents), skipped)


def items_of(route: ListRoute, raw: Any) -> list[Any] | None:
    """Return the list in a reply; None if it has none."""
    if route.items is not None:
        items = value_at(raw, route.items)
        return items if isinstance(items, list) else None
    if raw is None:
        # An empty body is a success with nothing in it.
        return []
    if isinstance(raw, list):
        return raw
    for name in ITEM_FIELDS:
        for envelope in nested_objects(raw):
            items = envelope.get(name)
            if isinstance(items, list):
                return items
    for envelope in nested_objects(raw):
        for value in envelope.values():
            if isinstance(value, list) and value and isinstance(value[0], Mapping):
                return value
    return None


def _document(route: ListRoute, words: DocumentWords, item: Any) -> SiteDocument | None:
    if not isinstance(item, Mapping):
        return None
    document_id = text_of(_field(item, route.id, ID_FIELDS))
    if document_id is None:
        return None
    status, state = _status(route, words, item)
    return SiteDocument(
        document_id=document_id,
        title=text_of(_field(item, route.title, TITLE_FIELDS)),
        status=status,
        state=state,
        created_at=_time(_field(item, route.created_at, CREATED_FIELDS)),
        updated_at=_time(_field(item, route.updated_at, UPDATED_FIELDS)),
        content=text_of(_field(item, route.content, CONTENT_FIELDS)),
        question=text_of(_field(item, route.question, QUESTION_FIELDS)),
        raw=item,
    )


def _status(route: ListRoute, words: DocumentWords, item: Mapping[str, Any]) -> tuple[str | None, DocumentState]:
    """Return the status word of an item and what it means."""
    if route.status is None:
        return status_word(item, words=words), document_state(item, words)
    value = value_at(item, route.status)
    if isinstance(value, bool):
        word = str(value).lower()
        state = words.state(word)
        if state == "other":
            # No word of the connection says what the flag means.
            state = "active" if value else "draft"
        return word, state
    text = text_of(value)
    if text is None:
        return None, "unknown"
    return text, words.state(text)


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path such as ``meta.next``; None if there is none."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def first_value(raw: Any, names: tuple[str, ...]) -> Any:
    """Return the first of these fields that an envelope has; None if none has one."""
    for name in names:
        for envelope in nested_objects(raw):
            if envelope.get(name) is not None:
                return envelope[name]
    return None


def field_of(item: Mapping[str, Any], path: str | None, usual: tuple[str, ...]) -> str | None:
    """
    Return the field of an item that is used: the path of the connection, or a usual name.

    :return: None if the item does not have it, or its value is null.
    """
    names = usual
    if path is not None:
        names = (path,)
    for name in names:
        if value_at(item, name) is not None:
            return name
    return None


def _field(item: Mapping[str, Any], path: str | None, usual: tuple[str, ...]) -> Any:
    name = field_of(item, path, usual)
    return None if name is None else value_at(item, name)


def _time(value: Any) -> datetime | None:
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
