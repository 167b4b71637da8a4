"""Rows of documents from the objects of other libraries, told apart by their attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows, first_text, text_of
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

# Attributes or keys of the text: of LangChain, of Haystack and plain mappings, of LlamaIndex and Airflow's common.ai.
TEXT = ("page_content", "content", "text")
METADATA = ("metadata", "meta", "extra_info")
# Names in the metadata, the specific ones first. `source` is LangChain's name for the address or path.
PARENT = ("url", "source", "file_path", "path", "file_name", "filename")
PAGE = ("page", "page_number", "page_label", "row")
TITLE = ("title", "file_name", "filename", "name")
DATE = ("date", "updated_at", "last_modified", "last_modified_date", "lastmod")
# Attributes of LlamaIndex: the document of a node, and its own id. It gives a random one to an object without id.
PARENT_ID = ("ref_doc_id",)
OWN_ID = ("id_", "node_id")
METADATA_ID = ("id", "page_id", "document_id", "doc_id")
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


def documents_of(objects: Iterable[Any], *, content: str | None = None) -> DocumentRows:
    """
    Convert the output of a document loader to rows.

    Known are the documents of LangChain, LlamaIndex, Haystack and Airflow's common.ai provider, and mappings such as
    the rows of dlt. They are read one after the other.

    The key of a row is the address, path or id in its metadata, and the number of its page or row if there is one;
    otherwise the ``id`` of the object, or ``id_`` of LlamaIndex unless it is a random UUID. Without either, it is None,
    and a load with ``key_columns=["key"]`` rejects the row. Several objects may have one key, such as the parts of a
    page: :func:`.split_documents` gives each chunk a key of its own, and a load of the rows themselves fails.

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
    metadata = _first_of_type(fields, METADATA, Mapping) or {}
    own_id = text_of(fields.get("id")) or _stable_id(fields, OWN_ID) or first_text(metadata, METADATA_ID)
    if isinstance(document, Mapping):
        # Metadata may be beside the text, too.
        metadata = {**document, **metadata}
    address = first_text(metadata, PARENT)
    parent = address or _stable_id(fields, PARENT_ID) or own_id
    page = first_text(metadata, PAGE)
    if address and page:
        key: str | None = f"{address}#page={page}"
    else:
        key = address or own_id or parent
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


def _stable_id(fields: Any, names: tuple[str, ...]) -> str | None:
    """Return the first id that is not random: with a random one, each run would create the document again."""
    for name in names:
        value = text_of(fields.get(name))
        if value and not _RANDOM_ID.fullmatch(value):
            return value
    return None


class _Attributes:
    """The attributes of an object, with the interface of a mapping."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def get(self, name: str) -> Any:
        return getattr(self._document, name, None)
