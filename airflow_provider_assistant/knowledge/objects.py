"""Rows of documents from the objects of other libraries, told apart by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.documents import DocumentRow, first_text, text_of

# Attributes or keys of the text: of LangChain, of Haystack and plain mappings, of LlamaIndex and Airflow's common.ai.
TEXT = ("page_content", "content", "text")
METADATA = ("metadata", "meta")
# Names in the metadata, the specific ones first. `source` is LangChain's name for the address or path.
PARENT = ("url", "source", "file_path", "path", "file_name", "filename")
PAGE = ("page", "page_number", "page_label")
TITLE = ("title", "file_name", "filename", "name")
DATE = ("date", "updated_at", "last_modified", "last_modified_date", "lastmod")


def documents_of(objects: Iterable[Any], *, content: str | None = None) -> Iterator[DocumentRow]:
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
    for number, found in enumerate(objects):
        yield _row(found, number, (content,) if content else TEXT)


def _row(found: Any, number: int, names: tuple[str, ...]) -> DocumentRow:
    fields = found if isinstance(found, Mapping) else _Attributes(found)
    text = next((value for name in names if isinstance(value := fields.get(name), str)), None)
    if text is None:
        raise AssistantInputError(
            f"object {number} ({type(found).__name__}) has no text in {' or '.join(names)}",
            todo="Pass the documents of a loader, or name the field with content=….",
            field="objects",
        )
    flat: Mapping[Any, Any] = found if isinstance(found, Mapping) else {}
    metadata = next((value for name in METADATA if isinstance(value := fields.get(name), Mapping)), flat)
    parent = first_text(metadata, PARENT)
    page = first_text(metadata, PAGE)
    url = first_text(metadata, PARENT[:2])
    return DocumentRow(
        key=f"{parent}#page={page}" if parent and page else parent or text_of(fields.get("id")),
        parent=parent,
        title=first_text(metadata, TITLE),
        content=text,
        category=text_of(metadata.get("category")),
        url=url if url and "://" in url else None,
        date=first_text(metadata, DATE),
    )


class _Attributes:
    """The attributes of an object, with the interface of a mapping."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def get(self, name: str) -> Any:
        return getattr(self._found, name, None)
