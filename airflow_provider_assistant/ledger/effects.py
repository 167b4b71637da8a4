"""Claims and outcomes of single effects: chat requests and ratings."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantError,
    AssistantLedgerError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import UNRESOLVED, Outcome, RunRef, submissions

log = logging.getLogger(__name__)

# A ledger entry: the stored row, or its values if the database cannot be written.
Effect: TypeAlias = sa.Row[Any] | SimpleNamespace


class EffectLedger:
    """
    Keep the entries of effects that are made one at a time.

    :param engine: Engine of the ledger's database. The tables must exist.
    :param now: Returns the current time, timezone-aware. Default: the system clock.
    """

    def __init__(self, engine: sa.Engine, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine = engine
        self._now = now
        # Outcomes that could not be written yet, by table, scope and key.
        self._unwritten: dict[tuple[str, str, str], sa.Update] = {}

    def find(self, table: sa.Table, scope: str, key: str) -> sa.Row[Any] | None:
        """
        Return the entry of an effect.

        :param table: Table of the effect's kind.
        :param scope: Scope of the effect.
        :param key: Key of the effect, see :func:`key_of`.
        :return: The row; None if the effect was never claimed.
        :raises AssistantLedgerError: The database cannot be read.
        """
        return self._one(sa.select(table).where(_is(table, scope, key)))

    def outcomes(
        self, table: sa.Table, scope: str, keys: Sequence[str], *, again_if: sa.ColumnElement[bool] | None = None
    ) -> dict[str, Outcome]:
        """
        Return the outcomes of several effects.

        :param table: Table of the effects' kind.
        :param scope: Scope of the effects.
        :param keys: Keys of the effects.
        :param again_if: Condition on the row of a completed effect under which it is left out, because it has to be
            made again. Default: none.
        :return: Outcome by key; keys that were never claimed are left out.
        :raises AssistantLedgerError: The database cannot be read.
        """
        is_current = (table.c.outcome != "created") | sa.not_(sa.false() if again_if is None else again_if)

        def outcomes(connection: sa.Connection) -> dict[str, Outcome]:
            found: dict[str, Outcome] = {}
            for start in range(0, len(keys), PARAMETERS - 1):
                some = table.c.key.in_(keys[start : start + PARAMETERS - 1])
                query = sa.select(table.c.key, table.c.outcome).where(table.c.scope == scope, some, is_current)
                found |= {row.key: row.outcome for row in connection.execute(query)}
            return found

        return transaction(self.engine, outcomes)

    def claim(self, table: sa.Table, scope: str, key: str, run: RunRef, **facts: Any) -> None:
        """
        Claim an effect: record that it is about to be sent.

        If the effect was claimed before, the number of its attempts increases.

        :param table: Table of the effect's kind.
        :param scope: Scope of the effect.
        :param key: Key of the effect, see :func:`key_of`.
        :param run: The task instance.
        :param facts: Values of further columns.
        :raises AssistantLedgerError: The claim cannot be recorded; nothing may be sent.
        """
        self._unwritten.pop((table.name, scope, key), None)
        values = {
            "outcome": "claimed",
            "error": None,
            **run.columns(),
            "claimed_at": self._now(),
            "recorded_at": None,
            **facts,
        }
        again = sa.update(table).where(_is(table, scope, key)).values(attempts=table.c.attempts + 1, **values)
        first = sa.insert(table).values(scope=scope, key=key, attempts=1, **values)

        def update(connection: sa.Connection) -> bool:
            return bool(connection.execute(again).rowcount)

        def insert(connection: sa.Connection) -> bool:
            try:
                connection.execute(first)
            except sa.exc.IntegrityError:
                return False
            return True

        if not transaction(self.engine, update, writes=True) and not transaction(self.engine, insert, writes=True):
            # Another worker inserted the row between the two statements: update that row.
            transaction(self.engine, update, writes=True)

    def record_outcome(
        self,
        table: sa.Table,
        scope: str,
        key: str,
        outcome: Outcome,
        *,
        error: str | None = None,
        **facts: Any,
    ) -> bool:
        """
        Record the outcome of a claim.

        If the database cannot be written, the outcome is kept in memory and written when the ledger is closed, so that
        the task does not lose the service's answer.

        :param table: Table of the effect's kind.
        :param scope: Scope of the effect.
        :param key: Key of the effect.
        :param outcome: The outcome.
        :param error: Error message, or None.
        :param facts: Values of further columns.
        :return: Whether the outcome has been written.
        """
        update = self._outcome_update(table, scope, key, outcome, error, facts)
        try:
            transaction(self.engine, lambda connection: connection.execute(update), writes=True)
        except AssistantLedgerError as why:
            log.warning(
                "The ledger cannot be written; the service has answered, and the outcome will be recorded when the "
                "task ends: %s",
                why,
            )
            self._unwritten[table.name, scope, key] = update
            return False
        return True

    def _outcome_update(
        self, table: sa.Table, scope: str, key: str, outcome: Outcome, error: str | None, facts: Mapping[str, Any]
    ) -> sa.Update:
        change = {"outcome": outcome, "error": error, "recorded_at": self._now(), **facts}
        return sa.update(table).where(_is(table, scope, key)).values(**change)

    def run_once(
        self,
        table: sa.Table,
        scope: str,
        key: str,
        run: RunRef,
        send: Callable[[], Mapping[str, Any]],
        *,
        again_if: sa.ColumnElement[bool] | None = None,
        **facts: Any,
    ) -> tuple[Effect, bool]:
        """
        Make an effect, unless this ledger shows that it has been made.

        An ambiguous earlier attempt is repeated with a warning, as the API requires after a 5xx. An outcome that cannot
        be recorded is returned nevertheless, and recorded when the ledger is closed.

        :param table: Table of the effect's kind.
        :param scope: Scope of the effect.
        :param key: Key that identifies the effect across retries, see :func:`key_of`.
        :param run: The task instance.
        :param send: Sends the request and returns values of columns that are known only from the response.
        :param again_if: Condition on the row of a completed effect under which it is made again. Default: none.
        :param facts: Values of further columns that are known before the request.
        :return: The effect's row, and whether this call made the effect.
        :raises AssistantLedgerError: The claim cannot be recorded; nothing was sent.
        :raises AssistantError: The request failed.
        """
        completed = self._completed(table, scope, key, again_if)
        if completed is not None:
            return completed, False
        earlier = self.find(table, scope, key)
        if earlier is not None and earlier.outcome in UNRESOLVED:
            log.warning(
                "An earlier attempt at this request may already have happened; sending it again: %s",
                earlier.error,
            )
        self.claim(table, scope, key, run, **facts)
        try:
            learned = send()
        except AssistantError as error:
            self.record_outcome(table, scope, key, outcome_of(error), error=str(error))
            raise
        columns: dict[str, Any] = {**facts, **learned}
        if self.record_outcome(table, scope, key, "created", **learned):
            with contextlib.suppress(AssistantLedgerError):
                if (row := self.find(table, scope, key)) is not None:
                    return row, True
        entry = SimpleNamespace(**columns, scope=scope, key=key, outcome="created", error=None, recorded_at=self._now())
        return entry, True

    def _completed(
        self, table: sa.Table, scope: str, key: str, again_if: sa.ColumnElement[bool] | None
    ) -> sa.Row[Any] | None:
        query = sa.select(table).where(_is(table, scope, key), table.c.outcome == "created")
        if again_if is not None:
            query = query.where(sa.func.coalesce(again_if, sa.false()) == sa.false())
        return self._one(query)

    def _one(self, query: sa.Select[Any]) -> sa.Row[Any] | None:
        return transaction(self.engine, lambda connection: connection.execute(query).one_or_none())

    def submission_of(self, scope: str, request_id: str) -> sa.Row[Any] | None:
        """
        Return the entry of an async chat request.

        :param scope: Scope of the request.
        :param request_id: Id of the request.
        :return: The row; None if this ledger did not record the request.
        :raises AssistantLedgerError: The database cannot be read.
        """
        where = (submissions.c.scope == scope) & (submissions.c.request_id == request_id)
        return self._one(sa.select(submissions).where(where).limit(1))

    def chat_ended(self, scope: str, request_id: str, state: str, *, at: datetime | None = None) -> None:
        """
        Record how an async chat request ended.

        Only the first call has an effect, except that ``lost`` replaces an earlier state: a service may forget a
        request after it has answered it.

        :param scope: Scope of the request.
        :param request_id: Id of the request.
        :param state: ``complete``, ``failed``, ``lost`` or ``timed_out``.
        :param at: Time of the end, timezone-aware. Default: now.
        :raises AssistantLedgerError: The database cannot be written.
        """
        table = submissions
        where = (table.c.scope == scope) & (table.c.request_id == request_id)
        if state != "lost":
            where &= table.c.completed_at.is_(None)
        moment = sa.literal(at or self._now(), table.c.completed_at.type)
        ended = (
            sa.update(table)
            .where(where)
            .values(state=state, completed_at=sa.func.coalesce(table.c.completed_at, moment))
        )
        transaction(self.engine, lambda connection: connection.execute(ended), writes=True)

    def _write_remaining(self) -> None:
        unwritten = list(self._unwritten.values())
        if not unwritten:
            return

        def write(connection: sa.Connection) -> None:
            for update in unwritten:
                connection.execute(update)

        try:
            transaction(self.engine, write, writes=True)
        except AssistantLedgerError:
            listed = ", ".join(f"{table} {key}" for table, _, key in self._unwritten)
            log.exception("An effect is not recorded, and a retry of this task sends it again: %s", listed)
        self._unwritten.clear()


def outcome_of(error: AssistantError) -> Outcome:
    """
    Return the outcome of an effect whose request failed.

    :param error: The error of the request.
    :return: ``ambiguous`` if the effect may have happened, ``rejected`` if the service rejected it, otherwise
        ``failed``.
    """
    if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
        return "ambiguous"
    return "rejected" if isinstance(error, AssistantBadRequestError) else "failed"


def key_of(*parts: str | None) -> str:
    """
    Return the key of an effect.

    :param parts: Values that identify the effect across retries.
    :return: Digest of the values, 32 hexadecimal digits.
    """
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _is(table: sa.Table, scope: str, key: str) -> sa.ColumnElement[bool]:
    return (table.c.scope == scope) & (table.c.key == key)
