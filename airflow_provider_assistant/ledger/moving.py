"""Move entries of the ledger to another name of their service, or to another tenant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.document_changes import change_key
from airflow_provider_assistant.ledger.leases import is_living
from airflow_provider_assistant.ledger.schema import TABLES, document_changes, loads
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS, Site, moved_scope
from airflow_provider_assistant.ledger.store import Ledger
from airflow_provider_assistant.texts import counted

LISTED = 3


@dataclass(frozen=True, slots=True)
class Move:
    """
    Say which entries to move, and where.

    :param service: Name of their service.
    :param to_service: Its new name.
    :param site_id: Only the entries of this site. Default: None, all sites of the service.
    :param tenant_id: Only the entries of this tenant. Default: None; all tenants, or with ``to_tenant`` the entries
        without a tenant.
    :param to_tenant: Their new tenant. Default: None, the one that they have.
    """

    service: str
    to_service: str
    site_id: str | None = None
    tenant_id: str | None = None
    to_tenant: str | None = None

    def of(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """Return the condition for the rows to move."""
        conditions = [table.c.service == self.service]
        if self.site_id is not None:
            conditions.append(table.c.site_id == self.site_id)
        if self.tenant_id is not None or self.to_tenant is not None:
            conditions.append(table.c.tenant_id.is_not_distinct_from(self.tenant_id))
        return sa.and_(*conditions)

    def target(self, site: Site) -> Site:
        """Return the site to which the entries of a site move."""
        return replace(site, service=self.to_service, tenant_id=self.to_tenant or site.tenant_id)


def move(ledger: Ledger, wanted: Move, *, dry_run: bool = False) -> dict[str, int]:
    """
    Move entries, loads and changes of documents, in one transaction.

    :param dry_run: Whether to count and check only.
    :return: The number of rows by kind.
    :raises AssistantInputError: There are none, a task is sending one of them, or a key has entries in both places.
    """
    if (wanted.to_service, wanted.to_tenant or wanted.tenant_id) == (wanted.service, wanted.tenant_id):
        raise AssistantInputError(
            "the new service and tenant are the old ones", safe=NOTHING_CHANGED, field="to_service"
        )

    def work(connection: sa.Connection) -> dict[str, int]:
        counts = {}
        for kind, table in TABLES.items():
            _check_living(connection, ledger, table, wanted)
            counts[kind] = _move_entries(connection, table, wanted, dry_run)
        counts["document_change"] = _move_changes(connection, wanted, dry_run)
        counts["load"] = _count(connection, loads, wanted)
        if not any(counts.values()):
            raise AssistantInputError(
                f"the ledger has no such entries of service {wanted.service!r}",
                safe=NOTHING_CHANGED,
                todo="`airflow assistant ledger status` lists its services, tenants and sites.",
                field="service",
            )
        if not dry_run:
            target: dict[str, Any] = {"service": wanted.to_service}
            if wanted.to_tenant is not None:
                target["tenant_id"] = wanted.to_tenant
            for table in (*TABLES.values(), loads):
                connection.execute(sa.update(table).where(wanted.of(table)).values(**target))
        return counts

    return transaction(ledger.engine, work, writes=True)


def _count(connection: sa.Connection, table: sa.Table, wanted: Move) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(wanted.of(table))
    return connection.scalar(query) or 0


def _check_living(connection: sa.Connection, ledger: Ledger, table: sa.Table, wanted: Move) -> None:
    """Check that no task is sending one of the entries: it would record the outcome in the old place."""
    query = sa.select(table.c.label, table.c.source).where(wanted.of(table), table.c.outcome == "claimed")
    for row in connection.execute(ledger.leases.with_lease(query, table)):
        if is_living(row.heartbeat_at, row.lease_seconds, row.database_now):
            raise AssistantInputError(
                f"{row.source} is sending {row.label!r}",
                safe=NOTHING_CHANGED,
                todo="Repeat the command when the task has ended.",
                field="service",
            )


def _move_entries(connection: sa.Connection, table: sa.Table, wanted: Move, dry_run: bool) -> int:
    """Set the scopes of the entries of a table, and return the number of entries."""
    c, other = table.c, table.alias()
    site_columns = [c[name] for name in SITE_COLUMNS]
    scopes = connection.execute(sa.select(c.scope, *site_columns).where(wanted.of(table)).distinct()).all()
    for scope, *columns in scopes:
        new_scope = moved_scope(scope, wanted.target(Site(*columns)))
        is_in_both = sa.select(c.label).where(c.scope == scope, c.key == other.c.key, other.c.scope == new_scope)
        labels = list(connection.scalars(is_in_both.order_by(c.label)))
        if labels:
            more = ", …" if len(labels) > LISTED else ""
            listed = ", ".join(map(repr, labels[:LISTED]))
            raise AssistantInputError(
                f"site {columns[-1]!r} has entries in both places, with {counted(len(labels), 'key')}: {listed}{more}",
                safe=NOTHING_CHANGED,
                todo="The same rows were loaded twice. Delete the documents of one place at the service, record that "
                "with `airflow assistant ledger forget`, and repeat the command.",
                field="to_service",
            )
    count = _count(connection, table, wanted)
    if not dry_run:
        for scope, *columns in scopes:
            new_scope = moved_scope(scope, wanted.target(Site(*columns)))
            connection.execute(sa.update(table).where(c.scope == scope).values(scope=new_scope))
    return count


def _move_changes(connection: sa.Connection, wanted: Move, dry_run: bool) -> int:
    """Move the changes of documents, whose keys depend on their site, and return their number."""
    rows = connection.execute(sa.select(document_changes).where(wanted.of(document_changes))).all()
    if dry_run:
        return len(rows)
    c = document_changes.c
    for row in rows:
        site = Site(row.service, row.tenant_id, row.site_id)
        target = wanted.target(site)
        new_key = change_key(target, row.document_id, row.change)
        # A change that was repeated in the new place is the later one.
        connection.execute(sa.delete(document_changes).where(c.change_key == new_key))
        values = {**target.columns(), "scope": moved_scope(row.scope, target), "change_key": new_key}
        connection.execute(sa.update(document_changes).where(c.change_key == row.change_key).values(**values))
    return len(rows)
