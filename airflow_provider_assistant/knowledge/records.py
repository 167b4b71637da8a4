"""Rows of documents from the objects of loaders, the articles of help desks, and any mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from airflow_provider_assistant.knowledge.addresses import joined
from airflow_provider_assistant.knowledge.front_matter import fields_of, unpublished
from airflow_provider_assistant.knowledge.markdown import with_absolute_links
from airflow_provider_assistant.knowledge.rows import (
    DocumentRow,
    DocumentRows,
    Item,
    Unreadable,
    document_rows,
    is_missing,
    text_of,
)
from airflow_provider_assistant.parsing.child import ChildParser, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Note, Page

# The name of a field, its path with dots, or a function of the object.
Field: TypeAlias = str | Callable[[Any], Any]

# Names in the order to look them up: those of this package, then those of LangChain, LlamaIndex, Haystack, Airflow's
# common.ai and dlt. `source` is LangChain's name for the address or path.
_METADATA = ("metadata", "meta", "extra_info")
_CONTENT = ("content", "page_content", "text")
_ADDRESS = ("url", "source", "file_path", "path", "file_name", "filename")
_ID = ("id", "id_", "node_id", "page_id", "document_id", "doc_id")
_KEY = ("key", *_ADDRESS, *_ID, "ref_doc_id")
_PARENT = ("parent", *_ADDRESS, "ref_doc_id", *_ID, "key")
_TITLE = ("title", "file_name", "filename", "name")
_DATE = ("date", "updated_at", "last_modified", "last_modified_date", "lastmod")
# LlamaIndex gives such an id to an object without one. With it, each run would create the document again.
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_RANDOM_NAMES = frozenset({"doc_id", "id_", "node_id", "ref_doc_id"})
_ELEMENT = "assistant-record"


def documents_of(
    objects: Iterable[Any],
    *,
    key: Field = "",
    title: Field = "",
    content: Field = "",
    url: Field = "",
    category: Field = "",
    date: Field = "",
    keep: Field = "",
    html: bool = False,
    on_error: str = "fail",
    strict: bool = False,
) -> DocumentRows:
    """
    Convert the output of a document loader, articles of a help desk, or other mappings to rows.

    Without names, the fields of LangChain, LlamaIndex, Haystack, Airflow's common.ai, dlt and of this package are
    found. A field is the name of an attribute or a key, a path with dots such as ``body.export_view.value``, or a
    function of the object.

    Several objects may have one key, such as the pages of a PDF file: :func:`.split_documents` gives each chunk a key
    of its own, and a load of the rows themselves fails.

    :param objects: The objects, for example ``loader.lazy_load()``. They are read one after the other.
    :param key: Field that identifies the document. Default: the address or path in the metadata, otherwise the id,
        unless it is a random one of LlamaIndex. Without any, the key is None, and a load rejects the row.
    :param title: Field of the title. Default: ``title``, or the name of the file.
    :param content: Field of the text. Default: the first of ``content``, ``page_content`` and ``text``.
    :param url: Field of the address for readers. Default: ``url`` or ``source``, if it is an address.
    :param category: Field of the category. Default: ``category``.
    :param date: Field of the date of the last change. Default: ``date``, ``updated_at`` or ``last_modified``.
    :param keep: Field that is true for objects to read. Default: all. Objects whose fields say that they are drafts,
        private or archived are left out in any case.
    :param html: Whether the text is HTML, which becomes Markdown in another process. Needs the extra ``files``.
    :param on_error: What to do with objects that have no field of the text, or whose HTML cannot be parsed, see
        :func:`.file_documents`.
    :param strict: Whether what is left out and could be content is an error, after the last row. Default: False.
    :return: The rows. Their attribute ``account`` counts what was read, and what was left out by reason.
    :raises AssistantInputError: The extra is not installed, or see ``on_error`` and ``strict``.
    """

    def row(item: Any, name: str | None, parent: str | None, text: str) -> DocumentRow:
        address = _address(item, url)
        if address and html:
            text = with_absolute_links(text, partial(joined, address))
        return DocumentRow(
            key=name,
            parent=parent,
            title=_text(item, title, _TITLE),
            content=text,
            category=_text(item, category, ("category",)),
            url=address,
            date=_text(item, date, _DATE),
        )

    def items() -> Iterator[Item]:
        with ChildParser() as parser:
            for number, item in enumerate(objects):
                label = f"object {number} ({type(item).__name__})"
                name = _text(item, key, _KEY)
                parent = name if key else _text(item, "", _PARENT)
                reason = _reason_left_out(item, keep)
                if reason:
                    yield Note("document", reason, is_expected=True, name=name or label)
                    continue
                try:
                    page = _page(item, content, parser if html else None)
                except UnreadableFileError as error:
                    yield Unreadable(parent or label, f"{label} with the key {name!r} {error}")
                    continue
                yield from (replace(note, name=name or label) for note in page.notes)
                if page.text.strip():
                    yield row(item, name, parent, page.text)
                else:
                    yield Note("document", "has no text", is_expected=False, name=name or label)

    todo = "Name the field of the text with content=…, leave objects out with keep=…, or repair them."
    return document_rows(items(), unit="document", todo=todo, on_error=on_error, strict=strict)


def _reason_left_out(item: Any, keep: Field) -> str:
    """Return why an object is not for readers, or not to be kept; empty if it is."""
    if keep and not any(value for value in _values(item, keep) if not is_missing(value)):
        return "is not one to keep"
    # The plain values of an object and of its metadata are named like fields of front matter.
    values = {**_metadata(item), **(item if isinstance(item, Mapping) else {})}
    fields = {name: value for name, value in values.items() if not isinstance(value, Mapping | list | tuple)}
    return unpublished(fields_of(fields), datetime.now(UTC))


def _page(item: Any, content: Field, parser: ChildParser | None) -> Page:
    """
    Return the text of an object.

    :param parser: None if the text is no HTML.
    :raises UnreadableFileError: It has no field of the text, or its HTML cannot be parsed.
    """
    text = next((value for value in _values(item, content, _CONTENT) if isinstance(value, str)), None)
    if text is None:
        where = content if isinstance(content, str) and content else " or ".join(_CONTENT)
        raise UnreadableFileError(f"has no text in {where}")
    if parser is None:
        return Page(text=text)
    # All of the text is content, also beside a `main` in it. No end tag of the text closes an element of this name.
    body = f"<!doctype html><body><{_ELEMENT}>{text}</{_ELEMENT}></body>".encode("utf-8", "replace")
    return parser.parse(".html", body, encoding="utf-8", select=_ELEMENT)


def _address(item: Any, field: Field) -> str | None:
    """Return the address for readers. A path is none."""
    texts = filter(None, map(text_of, _values(item, field, ("url", "source"))))
    return next((text for text in texts if "://" in text), None)


def _text(item: Any, field: Field, names: tuple[str, ...]) -> str | None:
    """Return the first value that is a text, a number or a date, as text."""
    return next(filter(None, map(text_of, _values(item, field, names))), None)


def _values(item: Any, field: Field, names: tuple[str, ...] = ()) -> Iterator[Any]:
    """
    Yield the value of a field.

    :param field: Empty for the values of all names, in the object or in its metadata.
    """
    if callable(field):
        yield field(item)
    elif field:
        for name in field.split("."):
            item = _get(item, name)
        yield item
    else:
        for name in names:
            for place in (item, _metadata(item)):
                value = _get(place, name)
                if not (name in _RANDOM_NAMES and _RANDOM_ID.fullmatch(str(value))):
                    yield value


def _metadata(item: Any) -> Mapping[Any, Any]:
    values = (_get(item, name) for name in _METADATA)
    return next((value for value in values if isinstance(value, Mapping)), {})


def _get(place: Any, name: str) -> Any:
    value = place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)
    # Methods are not fields.
    return None if callable(value) else value
