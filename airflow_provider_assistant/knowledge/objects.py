"""Rows of documents from the objects of other libraries, told apart by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows, first_text, text_of
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

# Attributes or keys of the text: of LangChain, of Haystack and plain mappings, of LlamaIndex and Airflow's common.ai.
TEXT = ("page_content", "content", "text")
METADATA = ("metadata", "meta")
# Names in the metadata, the specific ones first. `source` is LangChain's name for the address or path.
PARENT = ("url", "source", "file_path", "path", "file_name", "filename")
PAGE = ("page", "page_number", "page_label")
TITLE = ("title", "file_name", "filename", "name")
DATE = ("date", "updated_at", "last_modified", "last_modified_date", "lastmod")


def documents_of(objects: Iterable[Any], *, content: str | None = None) -> DocumentRows:
    """
    Convert the output of a document loader to rows.

    Known are the documents of LangChain, LlamaIndex, Haystack and Airflow's common.ai provider, and mappings such as
    the rows of dlt. They are read one after the other.

    The key of a row is the address or path in its metadata, and the number of its page if there is one; otherwise the
    ``id`` of the object. Without either, it is None, and a load with ``key_columns=["key"]`` rejects the row.

    :param objects: The documents, for example ``loader.lazy_load()``.
    :param content: Attribute or key of the text. Default: the first of ``page_content``, ``content`` and ``text``.
    :return: The rows.
    :raises AssistantInputError: An object has no text; the message names it.
    """
    names_of_text = (content,) if content else TEXT

    def rows(account: SourceAccount) -> Iterator[DocumentRow]:
        for number, document in enumerate(objects):
            yield _row(document, number, names_of_text)
            account.read("document")

    return AccountedRows(rows)


def _row(document: Any, number: int, names_of_text: tuple[str, ...]) -> DocumentRow:
    fields = document if isinstance(document, Mapping) else _Attributes(document)
    text = _first_of_type(fields, names_of_text, str)
    if text is None:
        raise AssistantInputError(
            f"object {number} ({type(document).__name__}) has no text in {' or '.join(names_of_text)}",
            todo="Pass the documents of a loader, or name the field with content=….",
            field="objects",
        )
    metadata = _first_of_type(fields, METADATA, Mapping)
    if metadata is None:
        # A plain mapping may have the metadata beside the text.
        metadata = document if isinstance(document, Mapping) else {}
    parent = first_text(metadata, PARENT)
    page = first_text(metadata, PAGE)
    if parent and page:
        key: str | None = f"{parent}#page={page}"
    else:
        key = parent or text_of(fields.get("id"))
    url = first_text(metadata, ("url", "source"))
    if url and "://" not in url:
        # It is a path.
        url = None
    return DocumentRow(
        key=key,
        parent=parent,
        title=first_text(metadata, TITLE),
        content=text,
        category=text_of(metadata.get("category")),
        url=url,
        date=first_text(metadata, DATE),
    )


def _first_of_type(fields: Any, names: tuple[str, ...], kind: type[Any]) -> Any:
    """Return the first value of a type, in the order of the names; None if there is none."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, kind):
            return value
    return None


class _Attributes:
    """The attributes of an object, with the interface of a mapping."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def get(self, name: str) -> Any:
        return getattr(self._document, name, None)
