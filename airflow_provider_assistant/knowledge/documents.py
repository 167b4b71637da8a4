"""The row of a document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, TypeAlias, TypedDict

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.source_account import AccountedRows


class DocumentRow(TypedDict):
    """
    A document, or a chunk of one.

    :param key: Identifies the row: the parent, and for a chunk also its headings and the hash of its text.
    :param parent: Page, file or ticket that the row is part of.
    :param title: Title of the document.
    :param content: Text of the document.
    :param category: Category of the document.
    :param url: Address at which readers find the document.
    :param date: Day or time of the last change, in ISO format.
    """

    key: str | None
    parent: str | None
    title: str | None
    content: str
    category: str | None
    url: str | None
    date: str | None


COLUMNS = tuple(DocumentRow.__annotations__)
# An iterator of rows whose attribute account counts what was read and what was left out.
DocumentRows: TypeAlias = AccountedRows[DocumentRow]


def row_without_key(parent: str) -> DocumentRow:
    """
    Return the row of a file or an article that cannot be read.

    A load rejects it, and does not take the documents of its parent for stale.

    :param parent: Key that the documents of the file or the article have as their parent.
    """
    return DocumentRow(key=None, parent=parent, title=None, content="", category=None, url=None, date=None)


def check_on_error(on_error: str) -> None:
    """Refuse a value of ``on_error`` that is neither ``fail`` nor ``skip``."""
    if on_error not in {"fail", "skip"}:
        raise AssistantInputError(f"on_error must be 'fail' or 'skip', not {on_error!r}", field="on_error")


def text_of(value: Any) -> str | None:
    """
    Return a value of a loader's metadata or of front matter as text.

    :return: Text without whitespace around it; dates in ISO format. None for an empty value, a list or a mapping.
    """
    if isinstance(value, date | datetime):
        return value.isoformat()
    if value is None or isinstance(value, Mapping | list | tuple | set | bytes):
        return None
    return str(value).strip() or None


def first_text(values: Mapping[Any, Any], names: tuple[str, ...]) -> str | None:
    """
    Return the first value that is not empty.

    :param names: In the order to look them up.
    :return: The value as text, see :func:`text_of`. None if there is none.
    """
    for name in names:
        text = text_of(values.get(name))
        if text:
            return text
    return None
