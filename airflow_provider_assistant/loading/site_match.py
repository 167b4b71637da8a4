"""Decide whether a document in the list of a site is that of a row. Nothing here does I/O."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.site_documents import SiteDocument

R = TypeVar("R")

# "content": the list shows the text of the row. "title": it shows only a title or question of it.
Fit: TypeAlias = Literal["content", "title"]
# Number of rows that say that a document fits several.
ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Texts:
    """
    Hold hashes of the texts of a row or document; None for a text that it does not have.

    :param title: Title or file name.
    :param text: Content of a text document, or answer of a Q&A document.
    """

    title: bytes | None = None
    question: bytes | None = None
    text: bytes | None = None


def texts_of_call(call: Call[Any]) -> Texts:
    """Return the texts of a row, as its request sends them."""
    if call.upload is not None:
        return Texts(title=_hash(call.upload.filename))
    fields: Mapping[str, Any] = call.json or {}
    question = fields.get("question")
    text = fields.get("content") if question is None else fields.get("answer")
    return Texts(title=_hash(fields.get("title")), question=_hash(question), text=_hash(text))


def texts_of_document(document: SiteDocument) -> Texts:
    """Return the texts of a document, as the list shows them."""
    return Texts(
        title=_hash(document.title),
        question=_hash(document.question),
        text=_hash(document.content),
    )


def fit(row: Texts, document: Texts) -> Fit | None:
    """Return how much of a row a document shows; None if it is not the document of the row."""
    if row.question is None and document.question is not None:
        # A text document has no question.
        return None
    question = document.question
    if question is None and row.title is None:
        # A service may show the question of a document without a title as its title.
        question = document.title
    compared = (
        (row.title, document.title),
        (row.question, question),
        (row.text, document.text),
    )
    for of_row, of_document in compared:
        if of_row is not None and of_document is not None and of_row != of_document:
            return None
    has_title = row.title is not None and document.title is not None
    has_question = row.question is not None and question is not None
    has_text = row.text is not None and document.text is not None
    # Many questions may have the same answer.
    if has_text and (has_question or row.question is None):
        return "content"
    return "title" if has_title or has_question else None


class RowIndex(Generic[R]):
    """Find the rows that a document may be of, without comparing it with all of them."""

    def __init__(self) -> None:
        # Rows by each combination of texts that a list may show of them.
        self._rows: defaultdict[tuple[bytes | None, ...], list[tuple[R, Texts]]] = defaultdict(list)

    def add(self, row: R, texts: Texts) -> None:
        """
        Add a row.

        :param row: What :meth:`fits` returns of it.
        """
        keys = set()
        if texts.question is not None:
            keys.add(_of_question(texts.question))
        elif texts.text is not None:
            keys.add(_of_text(texts.text))
        if texts.title is not None:
            keys |= {_of_title(texts.title), _of_title_and_text(texts.title, texts.text)}
        for key in keys:
            self._rows[key].append((row, texts))

    def fits(self, document: Texts) -> dict[R, Fit]:
        """
        Return the rows that a document fits, but no more than ENOUGH.

        If a list shows only titles and many rows have the same one, its documents fit all of these
        rows.
        """
        found: dict[R, Fit] = {}
        for row, texts in self._candidates(document):
            how = fit(texts, document)
            if how is not None:
                found[row] = how
            if len(found) == ENOUGH:
                break
        return found

    def _candidates(self, document: Texts) -> Iterator[tuple[R, Texts]]:
        keys = []
        if document.question is not None:
            keys.append(_of_question(document.question))
        else:
            if document.text is not None:
                keys.append(_of_text(document.text))
            if document.title is not None:
                keys.append(_of_question(document.title))
            if document.title is not None and document.text is not None:
                keys += [
                    _of_title_and_text(document.title, document.text),
                    _of_title_and_text(document.title, None),
                ]
            elif document.title is not None:
                keys.append(_of_title(document.title))
        for key in keys:
            yield from self._rows.get(key, ())


def _of_question(question: bytes) -> tuple[bytes | None, ...]:
    return (b"question", question)


def _of_text(text: bytes) -> tuple[bytes | None, ...]:
    return (b"text", text)


def _of_title(title: bytes) -> tuple[bytes | None, ...]:
    return (b"title", title)


def _of_title_and_text(title: bytes, text: bytes | None) -> tuple[bytes | None, ...]:
    return (b"title and text", title, text)


@dataclass(frozen=True, slots=True)
class Match(Generic[R]):
    """
    A document that fits a row.

    :param row: The row, or what identifies it.
    :param is_recent: Whether the document was created after the row was sent; False if the list
        shows no time.
    :param status: Status word of the document; None if the list shows none.
    """

    row: R
    document_id: str
    how: Fit
    is_recent: bool = False
    status: str | None = None


def one_to_one(matches: Iterable[Match[R]]) -> list[Match[R]]:
    """Return the matches whose row fits no other document and whose document fits no other row."""
    found = list(matches)
    documents_by_row = Counter(match.row for match in found)
    rows_by_document = Counter(match.document_id for match in found)

    def is_only_one(match: Match[R]) -> bool:
        return documents_by_row[match.row] == 1 and rows_by_document[match.document_id] == 1

    return [match for match in found if is_only_one(match)]


def _hash(text: str | None) -> bytes | None:
    """Return a hash of a text without the kind of line ends and space at the ends of lines."""
    if not text:
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    normalized = "\n".join([line.rstrip() for line in lines]).rstrip()
    octets = normalized.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(octets, digest_size=16).digest()
