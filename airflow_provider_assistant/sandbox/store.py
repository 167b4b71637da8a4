"""What the double has stored, in memory. Times are in seconds since the epoch."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar


@dataclass(slots=True)
class Document:
    """A document: of the kind ``file`` (title: its name), ``text``, or ``qa`` (content: the answer)."""

    id: str
    site: str
    kind: str
    title: str
    content: str
    question: str | None
    category: str | None
    bytes: int
    created_at: float
    updated_at: float
    activated_at: float | None  # None for a draft

    @property
    def identity(self) -> tuple[str, str, str | None, str, int]:
        """Return what a repeated document has in common with this one; the text of a PDF is not known, but its size."""
        return (self.site, self.title, self.question, self.content, self.bytes)


@dataclass(slots=True)
class Chat:
    """A chat request, ``sync`` or ``async``. One that has ended without an answer has failed."""

    id: str
    site: str
    session_id: str
    mode: str
    message: str
    email: str | None
    language: str | None
    created_at: float
    ended_at: float | None = None
    answer: str | None = None
    document: str | None = None  # id of the document that the answer is from
    score: float = 0.0  # share of the message's words that this document has
    rating: str | None = None
    rated_at: float | None = None


@dataclass(slots=True)
class Session:
    """A conversation. A closed one gets no more messages."""

    id: str
    site: str
    opened_at: float
    closed_at: float | None = None


Record = Document | Chat | Session
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (Document, Chat, Session)}
OneRecord = TypeVar("OneRecord", Document, Chat, Session)


class Store:
    """Keep records by type, site and id, in the order of their creation.

    :param path: file to which each accepted write is appended, and from which the records are read at the start.
    """

    def __init__(self, path: str | None = None) -> None:
        self._file = Path(path).open("a+b", buffering=0) if path else None  # noqa: SIM115 (see close)
        self._records: dict[str, dict[tuple[str, str], Any]] = defaultdict(dict)
        self._identities: set[Any] | None = None  # of all documents, if they have been collected
        if self._file is not None:
            self._file.seek(0)
            *lines, cut = self._file.read().split(b"\n")
            for line in lines:
                self._replay(**json.loads(line))
            # The process was killed in the middle of the last line, before the request was answered.
            self._file.truncate(self._file.tell() - len(cut))

    def save(self, record: OneRecord) -> OneRecord:
        """Store a new or changed record."""
        self._append(kind=type(record).__name__, record=record)
        self._put(record)
        return record

    def delete(self, document: Document) -> None:
        """Delete a document."""
        self._append(kind="deleted", record=document)
        self._remove(document)

    def find(self, kind: type[OneRecord], site: str, identifier: str) -> OneRecord | None:
        """Return a record of a site, or None."""
        found: OneRecord | None = self._records[kind.__name__].get((site, identifier))
        return found

    def all(self, kind: type[OneRecord], *sites: str) -> list[OneRecord]:
        """Return the records of sites, oldest first; without a site, those of all."""
        records = list(self._records[kind.__name__].values())
        if sites:
            return [one for one in records if one.site in sites]
        return records

    def count_documents(self, *sites: str) -> int:
        """Return the number of documents of sites; without a site, of all."""
        return len(self.all(Document, *sites) if sites else self._records["Document"])

    def has_same(self, document: Document) -> bool:
        """Return whether the site has a document with the same title and content."""
        if self._identities is None:
            self._identities = {one.identity for one in self.all(Document)}
        return document.identity in self._identities

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._identities = None
        if self._file is not None:
            self._file.truncate(0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _append(self, kind: str, record: Record) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"kind": kind, "fields": asdict(record)}).encode() + b"\n")

    def _replay(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "deleted":
            self._remove(Document(**fields))
        else:
            self._put(_TYPES[kind](**fields))

    def _put(self, record: Record) -> None:
        records = self._records[type(record).__name__]
        if isinstance(record, Document):
            if (record.site, record.id) in records:
                self._identities = None
            elif self._identities is not None:
                self._identities.add(record.identity)
        records[record.site, record.id] = record

    def _remove(self, document: Document) -> None:
        del self._records["Document"][document.site, document.id]
        self._identities = None
