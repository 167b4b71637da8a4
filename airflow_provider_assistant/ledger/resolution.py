"""
The resolution of ambiguous entries: the rules, and the change.

The command line and the pages resolve entries by hand; a load resolves those whose documents the site lists.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.queries import AmbiguousEntry, kind_name
from airflow_provider_assistant.ledger.schema import TABLES
from airflow_provider_assistant.ledger.store import Ledger

ByHand: TypeAlias = Literal["created", "failed"]
BY_HAND = "resolved by hand"


def allowed_outcomes(entry: AmbiguousEntry) -> tuple[ByHand, ...]:
    """Return the outcomes, at least one, that an entry can be resolved as without further facts."""
    if entry.kind == "rating" or (entry.kind == "document" and entry.sent_hash is not None):
        return "created", "failed"
    return ("failed",)


def check_not_under_way(entry: AmbiguousEntry, advice: str) -> None:
    """
    Check that no task is sending an entry.

    :param advice: What to do otherwise, as a sentence.
    """
    if entry.may_be_under_way:
        raise AssistantInputError(
            f"{entry.run} claimed {entry.label} at {entry.claimed_at:%H:%M:%S} UTC and may still be sending it",
            todo=advice,
            field="entry",
        )


def resolve(
    ledger: Ledger | ScopeLedger,
    entry: AmbiguousEntry,
    outcome: ByHand,
    *,
    identifier: str | None = None,
    content_hash: str | None = None,
    status: str | None = None,
    note: str = BY_HAND,
    dry_run: bool = False,
) -> None:
    """
    Record the outcome of an ambiguous entry.

    ``failed`` means that the attempt created nothing; an earlier document of the key remains.

    :param outcome: ``created`` if the effect happened, otherwise ``failed``.
    :param identifier: Id of the document or request that was found.
    :param content_hash: Content hash of the document that was found. Default: that of the request that made the entry
        ambiguous, if it is known.
    :param status: Status word of the document that was found; None if it is not known.
    :param note: Who or what found the outcome, for the column ``error``.
    :param dry_run: Whether to check only, without changes.
    :raises AssistantInputError: The entry cannot have this outcome, required values are missing, or the entry has
        changed since it was read.
    """
    table = TABLES[entry.kind]
    c = table.c
    # The entry as it was when the caller read it.
    unchanged_entry = (
        c.scope == entry.scope,
        c.key == entry.key,
        c.outcome == entry.outcome,
        c.claimed_at == entry.claimed_at,
    )

    def record(connection: sa.Connection) -> None:
        row = connection.execute(sa.select(table).where(*unchanged_entry)).one_or_none()
        if row is None:
            raise _changed_meanwhile(entry)
        # Some resolutions of a document set another outcome than the given one.
        new_values = {"outcome": outcome, "error": note, "recorded_at": datetime.now(UTC)}
        new_values.update(further_values(entry, row, outcome, identifier, content_hash))
        if status is not None:
            new_values["status"] = status
        if dry_run:
            return
        # A task may change the entry after it was read above.
        change = sa.update(table).where(*unchanged_entry).values(**new_values)
        if connection.execute(change).rowcount == 0:
            raise _changed_meanwhile(entry)

    transaction(ledger.engine, record, writes=not dry_run)


def _changed_meanwhile(entry: AmbiguousEntry) -> AssistantInputError:
    return AssistantInputError(
        f"{kind_name(entry.kind)} {entry.key} has changed since it was read",
        safe=NOTHING_CHANGED,
        todo="List the entries again.",
        field="entry",
    )


def further_values(
    entry: AmbiguousEntry, row: Any, outcome: str, identifier: str | None, content_hash: str | None
) -> dict[str, Any]:
    """
    Return the values of the columns to change in addition to the outcome.

    For a document that was not created, they contain the outcome: ``created`` if an older document
    remains.
    """
    if entry.kind == "rating":
        return {}
    if entry.kind == "chat_request" and outcome == "failed":
        return {"ambiguous": 0}
    if entry.kind == "chat_request":
        if row.batch is not None:
            raise AssistantInputError(
                "a question of a chat batch can only be resolved as not-created",
                todo="The next try of its task then asks it again.",
                field="as",
            )
        if not identifier:
            raise AssistantInputError("a created chat request needs its id", todo="Pass --id.", field="id")
        return {"request_id": identifier}
    if outcome == "failed":
        # As after a failed request, the entry keeps the older document.
        has_older_document = row.content_hash is not None
        return {
            "ambiguous": 0,
            "sent_hash": None,
            "outcome": "created" if has_older_document else "failed",
        }
    content_hash = content_hash or row.sent_hash
    if content_hash is None:
        raise AssistantInputError(
            "a created document needs its content; without it, the next load would treat the row as changed",
            todo="Pass --file, with the --key, --column and --constant of the load.",
            field="file",
        )
    values = {
        "ambiguous": 0,
        "sent_hash": None,
        "content_hash": content_hash,
        "document_id": identifier,
        "status": None,
    }
    if row.content_hash is not None and row.document_id is not None:
        superseded_ids = json.loads(row.superseded or "[]")
        superseded_ids.append(row.document_id)
        values["superseded"] = json.dumps(superseded_ids)
    return values
