"""
Changes of attempts by a person, or by what a list of documents shows: one way for one attempt and for many.

A person sees a list, and confirms it: what is settled is what the list showed, or nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.keys import hash_of
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.filters import Filter, condition_of, has_later
from airflow_provider_assistant.ledger.queries import pruned_before
from airflow_provider_assistant.ledger.schema import (
    DOCUMENT_KINDS,
    IS_UNRESOLVED,
    attempts,
    findings,
    given,
    ledger_info,
    tries,
)
from airflow_provider_assistant.ledger.scopes import Scope, Site, site_of
from airflow_provider_assistant.ledger.store import Ledger
from airflow_provider_assistant.texts import counted

# What a person says of attempts: they created something, they created nothing, or what they created was removed.
Settled: TypeAlias = Literal["created", "not-created", "removed"]
_STATES = {"created": "created", "not-created": "failed", "removed": "removed"}
BY_HAND = "settled by hand"
# Maximum number of attempts that one call settles, and of labels that its report has.
MOST_SETTLED, LABELS = 100_000, 100
UNDER_WAY = "A task may be sending it right now."
NOT_ALLOWED = "You may not change its DAG."
NEEDS_ID = "A chat request that was created needs its id, with which its answer is read: settle it by itself."

_c = attempts.c


@dataclass(slots=True)
class Report:
    """
    Report which attempts were settled, or would be.

    :param labels: Labels of the first ones.
    :param dag_ids: Their DAGs.
    :param kept: Number of matching attempts that stay as they are, by reason.
    :param confirmation: Number and hash of the attempts. Another list has another one.
    """

    settled: int = 0
    labels: list[str] = field(default_factory=list)
    sites: set[Site] = field(default_factory=set)
    dag_ids: set[str | None] = field(default_factory=set)
    kept: Counter[str] = field(default_factory=Counter)
    confirmation: str = ""


def settle(
    ledger: Ledger,
    selected: Filter,
    settled: Settled,
    *,
    confirmation: str | None = None,
    remote_id: str | None = None,
    note: str = BY_HAND,
    may_change: Callable[[str | None], bool] = lambda _: True,
) -> Report:
    """
    Record what became of attempts.

    :param selected: The attempts: those whose outcome is not known, or may not be the only one, for ``created`` and
        ``not-created``; documents for ``removed``.
    :param confirmation: :attr:`Report.confirmation` of the list that was seen. Default: None, to report only.
    :param remote_id: Id of the document or chat request that was found. Default: None, not known.
    :param may_change: Returns whether attempts of a DAG may be changed; it takes the id of the DAG or None.
    :raises AssistantInputError: The list is another one than the confirmed one, or too long; nothing was changed.
    """

    def change(connection: sa.Connection) -> Report:
        now = ledger.clock.read(connection)
        report = Report()
        chosen: list[sa.Row[Any]] = []
        for row in _matching(connection, ledger.clock.is_alive(now), selected, settled):
            reason = _reason_to_keep(row, settled, remote_id) if may_change(row.dag_id) else NOT_ALLOWED
            if reason:
                report.kept[reason] += 1
            else:
                chosen.append(row)
        if len(chosen) > MOST_SETTLED:
            raise AssistantInputError(
                f"more than {MOST_SETTLED:,} entries match",
                safe=NOTHING_CHANGED,
                todo="Select fewer, by their site, source or key.",
                field="all",
            )
        report.settled = len(chosen)
        report.labels = [row.label for row in chosen[:LABELS]]
        report.sites = {site_of(row) for row in chosen}
        report.dag_ids = {row.dag_id for row in chosen}
        digest = hash_of(repr([(row.scope, row.key, row.number, row.state) for row in chosen]))
        report.confirmation = f"{len(chosen)}-{digest[:12]}"
        if confirmation is not None and confirmation != report.confirmation:
            raise AssistantInputError(
                f"the list has changed since it was shown: {counted(len(chosen), 'entry matches', 'entries match')} "
                "now",
                safe=NOTHING_CHANGED,
                todo="Look at it again, then confirm.",
                field="confirm",
            )
        if confirmation is not None:
            values = {"state": _STATES[settled], "alive_until": None, "recorded_at": now, "error": note}
            _write(connection, chosen, settled, values | ({"remote_id": remote_id} if remote_id else {}))
        return report

    return transaction(ledger.engine, change, writes=True)


def _matching(
    connection: sa.Connection, is_alive: sa.ColumnElement[bool], selected: Filter, settled: Settled
) -> Iterator[sa.Row[Any]]:
    """Yield the selected attempts that can be settled so, locked until the end of the transaction."""
    if settled == "removed":
        possible = sa.and_(_c.state == "created", _c.kind.in_(DOCUMENT_KINDS))
    else:
        possible = condition_of("unresolved") | condition_of("doubled")
    columns = (_c.scope, _c.key, _c.number, _c.source, _c.state, _c.service, _c.site_id, _c.kind, _c.dag_id, _c.label)
    query: sa.Select[Any] = sa.select(*columns, sa.func.coalesce(is_alive, sa.false()).label("is_alive"))
    query = query.where(possible, *selected.conditions()).order_by(_c.scope, _c.key, _c.number)
    yield from connection.execute(query.with_for_update(of=attempts))


def _reason_to_keep(row: sa.Row[Any], settled: Settled, remote_id: str | None) -> str | None:
    if row.is_alive:
        return UNDER_WAY
    if settled == "created" and row.kind == "chat" and not remote_id:
        return NEEDS_ID
    return None


def _write(connection: sa.Connection, chosen: list[sa.Row[Any]], settled: Settled, values: Mapping[str, Any]) -> None:
    this = sa.update(attempts).where(given("scope", "key", "number"))
    before = sa.update(attempts).where(given("scope", "key"), _c.number < sa.bindparam("of_number"))
    # One of the requests without an answer has created what was found.
    others = sa.case((_c.ambiguous > 1, _c.ambiguous - 1), else_=0)
    of_unresolved = [this.values(**values, ambiguous=others)]
    if settled == "not-created":
        # What does not exist was not created by the attempts before it, either, back to the document of the row.
        is_doubtful = IS_UNRESOLVED & ~has_later("created")
        of_unresolved.append(before.where(given("source"), is_doubtful).values(values))
    if settled == "removed":
        of_created = [this.values(**values)]
    else:
        # A created attempt stays. The attempts before it, which may have created something as well, are settled.
        of_created = [this.values(ambiguous=0), before.where(IS_UNRESOLVED).values(values)]
    for is_created, changes in ((False, of_unresolved), (True, of_created)):
        rows = [
            {"of_scope": row.scope, "of_key": row.key, "of_number": row.number, "of_source": row.source}
            for row in chosen
            if (row.state == "created") == is_created
        ]
        for change in changes if rows else ():
            connection.execute(change, rows)


def rename(ledger: Ledger, old: str, new: str, *, site_id: str | None = None, dry_run: bool = False) -> int:
    """
    Give a service another name in all attempts and tries, or only count them.

    :return: Number of attempts of the old name.
    :raises AssistantInputError: A task is sending one of them, or both names have attempts of the same key.
    """

    def of(table: sa.Table) -> sa.ColumnElement[bool]:
        is_old = table.c.service == old
        return is_old if site_id is None else is_old & (table.c.site_id == site_id)

    def change(connection: sa.Connection) -> int:
        is_alive = ledger.clock.is_alive(ledger.clock.read(connection))
        alive = connection.scalar(sa.select(_c.label).where(of(attempts), is_alive).limit(1))
        if alive is not None:
            # The task could not record its outcome.
            raise AssistantInputError(
                f"a task may be sending entries of this name right now, such as {alive!r}",
                safe=NOTHING_CHANGED,
                todo="Wait until it has ended.",
                field="old",
            )
        count = 0
        columns = (_c.scope, _c.service, _c.site_id, _c.kind, _c.namespace)
        scopes = sa.select(*columns, sa.func.count().label("entries")).where(of(attempts)).group_by(*columns)
        for row in connection.execute(scopes).all():
            count += row.entries
            target = Scope(Site(new, row.site_id), row.kind, row.namespace)
            _check_free(connection, row.scope, target)
            if not dry_run:
                change_scope = sa.update(attempts).where(_c.scope == row.scope)
                connection.execute(change_scope.values(scope=target.id, service=new))
        if not dry_run:
            connection.execute(sa.update(tries).where(of(tries)).values(service=new))
        return count

    return transaction(ledger.engine, change, writes=True)


def _check_free(connection: sa.Connection, old_scope: str, target: Scope) -> None:
    other = attempts.alias()
    both = sa.select(_c.label).where(_c.scope == old_scope, other.c.scope == target.id, other.c.key == _c.key)
    label = connection.scalar(both.limit(1))
    if label is not None:
        raise AssistantInputError(
            f"{target.site} has entries of the same rows already, such as {label!r}",
            safe=NOTHING_CHANGED,
            todo="Settle those of one name as removed first.",
            field="new",
        )


def prune(ledger: Ledger, before: datetime, *, dry_run: bool = False) -> dict[str, int]:
    """
    Delete old attempts, and old tries with their findings, that are no longer needed; or only count them.

    Documents on a site, ratings that were sent, and whatever may exist are kept regardless of age; an old rating
    keeps its key, so that it is not sent again, and loses its session and its request. The ledger remembers
    the time, so that no export replaces the rows of pruned days.

    :return: Number of attempts by kind, and of ``tries``, that were, or would be, deleted.
    """
    is_over = _c.state.in_(("rejected", "failed", "removed"))
    # Only a retry of the DAG run that made it needs a chat request.
    is_old_chat = sa.and_(_c.kind == "chat", _c.state == "created")
    moment = sa.func.coalesce(_c.recorded_at, _c.claimed_at)
    is_old = sa.and_(moment < before, is_over | is_old_chat)

    def change(connection: sa.Connection) -> dict[str, int]:
        query = sa.select(_c.kind, sa.func.count()).where(is_old).group_by(_c.kind)
        deleted = dict(row for row in connection.execute(query).all())
        is_old_try = tries.c.started_at < before
        deleted["tries"] = connection.scalar(sa.select(sa.func.count()).select_from(tries).where(is_old_try)) or 0
        if dry_run:
            return deleted
        connection.execute(sa.delete(attempts).where(is_old))
        is_old_rating = sa.and_(_c.kind == "rating", _c.state == "created", _c.recorded_at < before)
        without_ids = {"session_id": "", "label": "", "remote_id": sa.literal("pruned-") + _c.key}
        connection.execute(sa.update(attempts).where(is_old_rating).values(without_ids))
        old_tokens = sa.select(tries.c.token).where(is_old_try)
        connection.execute(sa.delete(findings).where(findings.c.token.in_(old_tokens)))
        connection.execute(sa.delete(tries).where(is_old_try))
        recorded = pruned_before(connection)
        if recorded is None or recorded < before:
            connection.execute(sa.update(ledger_info).values(pruned_before=before))
        return deleted

    return transaction(ledger.engine, change, writes=True)
