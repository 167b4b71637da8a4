"""The row of a document, and the stream of rows and notes that a source is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias, TypedDict

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

# Unreadable files that one error names.
MOST_PROBLEMS = 20


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


@dataclass(slots=True)
class Unreadable:
    """
    A file, page or article that cannot be read.

    :param parent: Key that its documents have as their parent.
    :param problem: What is wrong and where, such as ``file 'a.pdf' is encrypted``.
    """

    parent: str
    problem: str


Item: TypeAlias = "DocumentRow | Note | Unreadable"


def document_rows(
    items: Iterable[Item], *, unit: str, todo: str, on_error: str = "fail", strict: bool = False
) -> DocumentRows:
    """
    Return the documents of a source, and count its notes.

    :param items: Documents, notes and what cannot be read, in the order of the source.
    :param unit: What the source is made of: ``file``, ``page`` or ``article``.
    :param todo: What to do about the unreadable ones, for the error.
    :param on_error: ``fail``: raise an error after the last item that names the unreadable ones. ``skip``: return a row
        whose key is None for each of them. A load rejects this row, and does not take the documents of its parent for
        stale.
    :param strict: Whether notes that are not expected are an error, after the last row.
    :raises AssistantInputError: ``on_error`` is another word, or see the parameters.
    """
    if on_error not in {"fail", "skip"}:
        raise AssistantInputError(f"on_error must be 'fail' or 'skip', not {on_error!r}", field="on_error")

    def rows(account: SourceAccount) -> Iterator[DocumentRow]:
        problems: list[str] = []
        for item in items:
            if isinstance(item, Note):
                account.leave_out(item.unit, item.reason, item.name, is_expected=item.is_expected, count=item.count)
            elif not isinstance(item, Unreadable):
                # After an error, the rest is only read to name all that cannot be read.
                if not problems:
                    account.read(unit)
                    yield item
            elif on_error == "skip":
                account.leave_out(unit, "cannot be read", item.problem, is_expected=False)
                yield _row_without_key(item.parent)
            else:
                problems.append(item.problem)
                if len(problems) == MOST_PROBLEMS:
                    break
        if problems:
            todo_with_choice = f"{todo} With on_error='skip', the others are loaded without them."
            raise AssistantInputError("; ".join(problems), todo=todo_with_choice, field="source")

    return AccountedRows(rows, strict=strict)


def _row_without_key(parent: str) -> DocumentRow:
    return DocumentRow(key=None, parent=parent, title=None, content="", category=None, url=None, date=None)


def text_of(value: Any) -> str | None:
    """
    Return a value of a loader's metadata or of front matter as text.

    :return: Text without whitespace around it; dates in ISO format. None for an empty value, a list or a mapping, and
        for what dataframes have in the place of None.
    """
    if is_missing(value):
        return None
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Mapping | list | tuple | set | bytes):
        return None
    return str(value).strip() or None


def is_missing(value: Any) -> bool:
    """Return whether a value is None, or what dataframes have in its place: NaN, or NaT or NA of pandas."""
    try:
        # NaN and NaT are not even equal to themselves.
        return value is None or bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        # NA does not say what it is equal to, nor does an array, which is a list.
        return True
