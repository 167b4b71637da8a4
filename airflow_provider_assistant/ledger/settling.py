"""Settling of all entries that a filter matches, in one transaction."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.leases import is_living
from airflow_provider_assistant.ledger.queries import entry_of, unresolved_query
from airflow_provider_assistant.ledger.resolution import BY_HAND, ByHand, allowed_outcomes, further_values
from airflow_provider_assistant.ledger.schema import OUTDATED, TABLES, documents
from airflow_provider_assistant.ledger.scopes import Site, site_of
from airflow_provider_assistant.ledger.selection import Selection
from airflow_provider_assistant.ledger.store import Ledger
from airflow_provider_assistant.ledger.upkeep import WITHOUT_DOCUMENT, MayChange
from airflow_provider_assistant.texts import counted

Which: TypeAlias = Literal["ambiguous", "document", "chat_request", "rating", "superseded", "stale"]
# Maximum number of entries that one call settles, and of labels that its report has.
MOST_SETTLED, LABELS = 100_000, 100
# Entries of one statement. Each has up to seven parameters: its key, and key and value of three columns.
_PER_STATEMENT = PARAMETERS // 8
UNDER_WAY = "A task may be sending it right now."
NOT_ALLOWED = "You may not change its DAG."
NEEDS_MORE = "It cannot have this outcome without its content or the id of its request: settle it by itself."


@dataclass(slots=True)
class SettledAll:
    """
    Report which entries were settled, or would be.

    :param labels: Labels of the first ones.
    :param dag_ids: Their DAGs.
    :param kept: Number of matching entries that stay as they are, by reason.
    :param confirmation: Number and hash of the entries. Another list has another one.
    """

    settled: int = 0
    labels: list[str] = field(default_factory=list)
    sites: set[Site] = field(default_factory=set)
    dag_ids: set[str | None] = field(default_factory=set)
    kept: Counter[str] = field(default_factory=Counter)
    confirmation: str = ""


@dataclass(frozen=True, slots=True)
class _Match:
    """
    An entry of the list.

    :param reason: Why it stays as it is; None if it can be settled.
    :param new_values: Values of the columns to change; None to delete the entry.
    """

    table: sa.Table
    row: Any
    reason: str | None
    new_values: Mapping[str, Any] | None


def settle_all(
    ledger: Ledger,
    which: Which,
    selection: Selection,
    outcome: ByHand | Literal["deleted"],
    *,
    confirmation: str | None = None,
    may_change: MayChange = lambda _: True,
) -> SettledAll:
    """
    Record the outcome of all entries of a list that a selection matches.

    :param which: The list: ambiguous entries of all kinds or of one kind, superseded documents, or stale ones.
    :param outcome: ``deleted`` for superseded and stale documents, otherwise that of the ambiguous entries.
    :param confirmation: :attr:`SettledAll.confirmation` of the list that a person has seen. Default: None, to report
        only.
    :param may_change: Returns whether entries that a DAG claimed may be changed; it takes the id of the DAG or None.
    :raises AssistantInputError: The list is another one than the confirmed one, or too long; nothing was changed.
    """
    if (which in OUTDATED) != (outcome == "deleted"):
        raise AssistantInputError(f"entries of the list {which!r} cannot be settled as {outcome}", field="as")

    def settle(connection: sa.Connection) -> SettledAll:
        if outcome == "deleted":
            matches = _outdated(connection, ledger, which, selection)
        else:
            matches = _unresolved(connection, ledger, which, selection, outcome)
        report = SettledAll()
        settled: list[_Match] = []
        digest = hashlib.sha256()
        may_change_dag: dict[str | None, bool] = {}
        for match in matches:
            row = match.row
            if row.dag_id not in may_change_dag:
                may_change_dag[row.dag_id] = may_change(row.dag_id)
            reason = match.reason if may_change_dag[row.dag_id] else NOT_ALLOWED
            if reason is not None:
                report.kept[reason] += 1
                continue
            settled.append(match)
            _check_length(len(settled))
            identity = (match.table.name, row.scope, row.key, row.claimed_at, row.superseded, row.outcome)
            digest.update(repr(identity).encode())
            report.sites.add(site_of(row))
            report.dag_ids.add(row.dag_id)
        report.settled = len(settled)
        report.labels = [match.row.label for match in settled[:LABELS]]
        report.confirmation = f"{len(settled)}-{digest.hexdigest()[:12]}"
        if confirmation is not None:
            _check_confirmation(confirmation, report)
            _write(connection, settled)
        return report

    return transaction(ledger.engine, settle, writes=True)


def _check_length(entries: int) -> None:
    if entries > MOST_SETTLED:
        raise AssistantInputError(
            f"more than {MOST_SETTLED:,} entries match",
            safe=NOTHING_CHANGED,
            todo="Select fewer, by their site, source or key.",
            field="all",
        )


def _check_confirmation(confirmation: str, report: SettledAll) -> None:
    if confirmation != report.confirmation:
        raise AssistantInputError(
            f"the list has changed since it was shown: {counted(report.settled, 'entry matches', 'entries match')} now",
            safe=NOTHING_CHANGED,
            todo="Look at it again, then confirm.",
            field="confirm",
        )


def _unresolved(
    connection: sa.Connection, ledger: Ledger, which: Which, selection: Selection, outcome: ByHand
) -> Iterator[_Match]:
    """Yield the ambiguous entries that a selection matches, locked until the end of the transaction."""
    recorded_at = datetime.now(UTC)
    for kind, table in TABLES.items():
        if which not in {"ambiguous", kind}:
            continue
        query = unresolved_query(kind, ledger.leases, selection).order_by(table.c.scope, table.c.key)
        for row in connection.execute(query.with_for_update(of=table)):
            entry = entry_of(kind, row)
            if entry.may_be_under_way:
                yield _Match(table, row, UNDER_WAY, None)
                continue
            if outcome not in allowed_outcomes(entry):
                yield _Match(table, row, NEEDS_MORE, None)
                continue
            new_values = {"outcome": outcome, "error": BY_HAND, "recorded_at": recorded_at}
            new_values.update(further_values(entry, row, outcome, None, None))
            yield _Match(table, row, None, new_values)


def _outdated(connection: sa.Connection, ledger: Ledger, which: Which, selection: Selection) -> Iterator[_Match]:
    """Yield the entries with outdated documents that a selection matches, locked until the end of the transaction."""
    c = documents.c
    query = sa.select(documents).where(OUTDATED[which], *selection.of(documents)).order_by(c.scope, c.key)
    query = ledger.leases.with_lease(query, documents).with_for_update(of=documents)
    for row in connection.execute(query):
        is_alive = is_living(row.heartbeat_at, row.lease_seconds, row.database_now)
        reason = UNDER_WAY if row.outcome == "claimed" and is_alive else None
        new_values: Mapping[str, Any] | None = None
        if which == "superseded":
            new_values = {"superseded": None}
        elif row.superseded:
            # Its superseded documents are still on the site.
            new_values = WITHOUT_DOCUMENT
        yield _Match(documents, row, reason, new_values)


def _write(connection: sa.Connection, matches: list[_Match]) -> None:
    """Change or delete entries, several in one statement."""
    groups: defaultdict[Any, list[_Match]] = defaultdict(list)
    for match in matches:
        names = None if match.new_values is None else tuple(match.new_values)
        groups[match.table, match.row.scope, names].append(match)
    for (table, scope, names), group in groups.items():
        for start in range(0, len(group), _PER_STATEMENT):
            part = group[start : start + _PER_STATEMENT]
            statement: sa.Delete | sa.Update = sa.delete(table)
            if names is not None:
                statement = sa.update(table).values({name: _values_of(table, part, name) for name in names})
            keys = [match.row.key for match in part]
            connection.execute(statement.where(table.c.scope == scope, table.c.key.in_(keys)))


def _values_of(table: sa.Table, matches: list[_Match], name: str) -> Any:
    """Return the new value of a column: one for all entries, or an SQL expression that selects it by the key."""
    value_by_key = {match.row.key: match.new_values[name] for match in matches if match.new_values is not None}
    values = set(value_by_key.values())
    if len(values) == 1:
        return values.pop()
    return sa.case(value_by_key, value=table.c.key)
