"""Opaque ids of ledger entries, with which a page names the entries to settle."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any, NamedTuple

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.ledger.queries import AmbiguousEntry
from airflow_provider_assistant.ledger.schema import OUTDATED, TABLES

SUPERSEDED, STALE = "superseded", "stale"


class EntryId(NamedTuple):
    """
    What an id names.

    :param kind: Kind of an ambiguous entry, ``superseded`` for a document with superseded ones, or ``stale``.
    :param claimed_at: Time of its latest claim. An entry that was claimed again since is another one.
    """

    kind: str
    scope: str
    key: str
    claimed_at: datetime

    def __str__(self) -> str:
        parts = [self.kind, self.scope, self.key, self.claimed_at.isoformat()]
        parts_json = json.dumps(parts, separators=(",", ":"))
        return base64.urlsafe_b64encode(parts_json.encode()).decode()


def entry_id(entry: AmbiguousEntry) -> str:
    """Return the id of an ambiguous entry."""
    return str(EntryId(entry.kind, entry.scope, entry.key, entry.claimed_at))


def outdated_id(kind: str, row: Any) -> str:
    """
    Return the id of a document with superseded ones, or of a stale one.

    :param kind: ``superseded`` or ``stale``.
    :param row: Row of the ledger's table of documents.
    """
    return str(EntryId(kind, row.scope, row.key, row.claimed_at))


def parse_id(text: str) -> EntryId:
    """
    Return what an id names.

    :raises ValueError: It is not an id of an entry.
    """
    try:
        parts_json = base64.urlsafe_b64decode(text.encode())
        kind, scope, key, claimed_at = strict_json.loads(parts_json)
        entry_id = EntryId(
            kind=str(kind),
            scope=str(scope),
            key=str(key),
            claimed_at=datetime.fromisoformat(claimed_at),
        )
    except (ValueError, TypeError, binascii.Error) as error:
        raise ValueError("not an id of an entry") from error
    if entry_id.kind not in {*TABLES, *OUTDATED} or entry_id.claimed_at.tzinfo is None:
        raise ValueError("not an id of an entry")
    return entry_id
