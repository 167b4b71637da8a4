"""Rows of documents from the objects of loaders, the articles of help desks, and any mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urljoin

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.front_matter import unpublished
from airflow_provider_assistant.knowledge.markdown import with_absolute_links
from airflow_provider_assistant.knowledge.rows import (
    DocumentRow,
    DocumentRows,
    Item,
    Unreadable,
    document_rows,
    text_of,
)
from airflow_provider_assistant.parsing.child import ChildParser, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Fields, Note, Page

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
_MISSING = object()


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
    :param on_error: What to do with HTML that cannot be parsed, see :func:`.file_documents`.
    :param strict: Whether what is left out and could be content is an error, after the last row. Default: False.
    :return: The rows. Their attribute ``account`` counts what was read, and what was left out by reason.
    :raises AssistantInputError: An object has no field of the text, or see ``on_error`` and ``strict``.
    """

    named = {"title": title, "url": url, "category": category, "date": date}

    def items() -> Iterator[Item]:
        with ChildParser() as parser:
            for number, item in enumerate(objects):
                label = f"object {number} ({type(item).__name__})"
                name = _text(item, key, _KEY)
                reason = unpublished(_fields(item), datetime.now(UTC))
                if keep and not _value(item, keep):
                    reason = "is not one to keep"
                if reason:
                    yield Note("document", reason, is_expected=True, name=name or label)
                    continue
                parent = name if key else _text(item, "", _PARENT)
                try:
                    text = _content(item, content)
                    if html:
                        page = _page(parser, text)
                        text = page.text
                        yield from (replace(note, name=name or label) for note in page.notes)
                except UnreadableFileError as error:
                    yield Unreadable(parent or label, f"{label} with the key {name!r} {error}")
                    continue
                if text.strip():
                    yield _row(item, name, parent, text, named, is_html=html)
                else:
                    yield Note("document", "has no text", is_expected=False, name=name or label)

    todo = "Name the field of the text with content=…, or repair what is named."
    return document_rows(items(), unit="document", todo=todo, on_error=on_error, strict=strict)


def _row(
    item: Any, key: str | None, parent: str | None, text: str, named: Mapping[str, Field], *, is_html: bool
) -> DocumentRow:
    url = _text(item, named["url"], ("url", "source"))
    if url and "://" not in url:  # it is a path
        url = None
    if url and is_html:
        text = with_absolute_links(text, partial(_joined, url))
    return DocumentRow(
        key=key,
        parent=parent,
        title=_text(item, named["title"], _TITLE),
        content=text,
        category=_text(item, named["category"], ("category",)),
        url=url,
        date=_text(item, named["date"], _DATE),
    )


def _content(item: Any, field: Field) -> str:
    """
    Return the text of an object; empty if its field is.

    :raises UnreadableFileError: It has no such field, or the field holds no text.
    """
    values = [_value(item, field or name) for name in ([field] if field else _CONTENT)]
    found = [value for value in values if value is not _MISSING]
    texts = [value for value in found if isinstance(value, str)]
    if texts:
        return texts[0]
    if found and all(value is None for value in found):
        return ""
    where = field if isinstance(field, str) and field else " or ".join(_CONTENT)
    if found:
        raise UnreadableFileError(f"has no text in {where}, but a value of the type {type(found[0]).__name__}")
    names = f": its fields are {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
    raise UnreadableFileError(f"has no {where}{names}")


def _page(parser: ChildParser, html: str) -> Page:
    body = f"<!doctype html><html><body>{html}</body></html>".encode("utf-8", "replace")
    try:
        # All of an article is content, also what is beside an element `main` of it.
        return parser.parse(".html", body, encoding="utf-8", select="body")
    except ModuleNotFoundError as error:
        raise AssistantInputError(
            f"HTML cannot be read, because {error.name} is not installed",
            todo="Run pip install 'airflow-provider-assistant[files]'.",
            field="html",
        ) from None


def _fields(item: Any) -> Fields:
    """Return the plain values of an object and of its metadata, under the names that front matter has."""
    fields: Fields = {}
    for place in (_metadata(item), item):
        for name, value in place.items() if isinstance(place, Mapping) else ():
            text = "null" if value is None else text_of(value)
            if text is not None:
                fields[re.sub(r"[\s_-]", "", str(name).lower())] = text.lower() if isinstance(value, bool) else text
    return fields


def _text(item: Any, field: Field, names: tuple[str, ...]) -> str | None:
    """
    Return a field of an object as text.

    :param field: Empty for the first of the names that has a text, in the object or in its metadata.
    """
    if field:
        value = _value(item, field)
        return None if value is _MISSING else text_of(value)
    for name in names:
        for place in (item, _metadata(item)):
            value = _get(place, name)
            text = None if value is _MISSING else text_of(value)
            if text and not (name in _RANDOM_NAMES and _RANDOM_ID.fullmatch(text)):
                return text
    return None


def _value(item: Any, field: Field) -> Any:
    if callable(field):
        return field(item)
    for name in field.split("."):
        item = _get(item, name)
    return item


def _metadata(item: Any) -> Mapping[Any, Any]:
    values = (_get(item, name) for name in _METADATA)
    return next((value for value in values if isinstance(value, Mapping)), {})


def _get(place: Any, name: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(name, _MISSING)
    value = getattr(place, name, _MISSING)
    # Methods are not fields.
    return _MISSING if callable(value) else value


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target
