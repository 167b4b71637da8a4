"""Decide which document in the list of a site is that of a row. Nothing here does I/O."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.site_documents import SiteDocument

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
    return Texts(title=_hash(document.title), question=_hash(document.question), text=_hash(document.content))


def _hash(text: str | None) -> bytes | None:
    """Return a hash of a text without the kind of line ends and space at the ends of lines."""
    if not text:
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    normalized = "\n".join([line.rstrip() for line in lines]).rstrip()
    octets = normalized.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(octets, digest_size=16).digest()


def fit(row: Texts, document: Texts) -> Fit | None:
    """Return how much of a row a document shows; None if it is not the document of the row."""
    if row.question is None and document.question is not None:
        # A text document has no question.
        return None
    question = document.question
    if question is None and row.title is None:
        # A service may show the question of a document without a title as its title.
        question = document.title
    pairs = {"title": (row.title, document.title), "question": (row.question, question)}
    pairs["text"] = (row.text, document.text)
    equal = {name for name, (one, other) in pairs.items() if one is not None and one == other}
    differ = {name for name, (one, other) in pairs.items() if None not in {one, other} and one != other}
    if differ:
        return None
    # Many questions may have the same answer.
    if "text" in equal and ("question" in equal or row.question is None):
        return "content"
    return "title" if equal & {"title", "question"} else None


class RowIndex:
    """Find the rows that a document may be of, without comparing it with all of them."""

    def __init__(self) -> None:
        # Rows by each combination of texts that a list may show of them.
        self._rows: defaultdict[tuple[bytes | None, ...], list[tuple[str, Texts]]] = defaultdict(list)

    def add(self, row: str, texts: Texts) -> None:
        """
        Add a row.

        :param row: What :meth:`fits` returns of it.
        """
        keys = {(b"question", texts.question), (b"title", texts.title), (b"title", texts.title, texts.text)}
        if texts.question is None:
            keys.add((b"text", texts.text))
        for key in keys:
            if key[1] is not None:
                self._rows[key].append((row, texts))

    def fits(self, document: Texts) -> dict[str, Fit]:
        """
        Return the rows that a document fits, but no more than ENOUGH.

        If a list shows only titles and many rows have the same one, its documents fit all of these rows.
        """
        keys: list[tuple[bytes | None, ...]] = [(b"question", document.question)]
        if document.question is None:
            keys = [(b"text", document.text), (b"question", document.title), (b"title", document.title)]
        if document.question is None and document.text is not None:
            # The row has this text, or its text is not known.
            keys[-1:] = [(b"title", document.title, document.text), (b"title", document.title, None)]
        found: dict[str, Fit] = {}
        for key in keys:
            for row, texts in self._rows.get(key, ()):
                how = fit(texts, document)
                if how is not None:
                    found[row] = how
                if len(found) == ENOUGH:
                    return found
        return found


@dataclass(frozen=True, slots=True)
class Match:
    """
    A document that fits a row.

    :param row: What identifies the row.
    """

    row: str
    document: SiteDocument
    how: Fit


def matches(
    index: RowIndex,
    documents: Iterable[SiteDocument],
    may_be: Callable[[str, SiteDocument], bool] = lambda _row, _document: True,
) -> list[Match]:
    """
    Return the matches whose row fits no other document and whose document fits no other row.

    :param may_be: Returns whether a document may be that of a row.
    """
    found = []
    for document in documents:
        for row, how in index.fits(texts_of_document(document)).items():
            if may_be(row, document):
                found.append(Match(row, document, how))
    documents_by_row = Counter(match.row for match in found)
    rows_by_document = Counter(match.document.document_id for match in found)

    def is_only_one(match: Match) -> bool:
        return documents_by_row[match.row] == 1 and rows_by_document[match.document.document_id] == 1

    return [match for match in found if is_only_one(match)]
