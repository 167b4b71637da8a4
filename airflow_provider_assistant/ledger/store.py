"""The ledger itself: effects that are made once, and what they came to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeAlias

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowException, BaseHook, conf

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantLedgerError,
    AssistantLedgerErrorForGood,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.batches import BatchLedger
from airflow_provider_assistant.ledger.bulk import PARAMETERS
from airflow_provider_assistant.ledger.database import NAME, attempts_on, name_of, said, transaction
from airflow_provider_assistant.ledger.loads import LoadRecord, recorded
from airflow_provider_assistant.ledger.schema import (
    SCHEMA_VERSION,
    Outcome,
    RunRef,
    documents,
    loads,
    prepared,
    questions,
    ratings,
    submissions,
)

log = logging.getLogger(__name__)

# An effect as the ledger has it, or as it would have it if its database could be written.
Effect: TypeAlias = sa.Row[Any] | SimpleNamespace


class Ledger:
    """
    One ledger in one SQL database.

    Every method repeats its transaction for some 20 seconds while the database is away, and then raises
    AssistantLedgerError, or AssistantLedgerErrorForGood if a retry cannot help.

    :param engine: Where it is kept; its tables are created when they are missing.
    :param now: The current time, aware.
    :raises AssistantLedgerError: The database cannot be used, or holds a ledger of a newer version.
    """

    def __init__(self, engine: sa.Engine, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine = engine
        self._now = now
        # Outcomes that could not be written yet, by table, scope and key.
        self._unwritten: dict[tuple[str, str, str], sa.Update] = {}
        with said(engine, "cannot be opened", "Nothing was sent."):
            found, version = attempts_on(engine.dialect.name)(prepared, engine)
        if version > SCHEMA_VERSION:
            raise AssistantLedgerErrorForGood(
                f"the ledger ({name_of(engine)}) has schema version {version}, this package knows {SCHEMA_VERSION}: "
                "upgrade airflow-provider-assistant on this worker. Nothing was sent."
            )
        if found is None:
            log.warning(
                "A new, empty ledger was created: %s. If this site was loaded before, the earlier ledger is lost or "
                "elsewhere, and every document will be created again: check [assistant] ledger_conn_id and "
                "AIRFLOW_HOME.",
                name_of(engine),
            )

    @classmethod
    def open(cls) -> Self:
        """
        Open the ledger that Airflow's configuration names.

        That is the SQL connection ``[assistant] ledger_conn_id``, or else a SQLite file in AIRFLOW_HOME.

        :raises AssistantLedgerError: The database cannot be used, or holds a ledger of a newer version.
        """
        conn_id = conf.get("assistant", "ledger_conn_id", fallback="")
        if conn_id:
            return cls(_engine_of(conn_id))
        return cls(sqlite_engine(airflow_home() / "assistant_ledger.db"))

    @classmethod
    @contextlib.contextmanager
    def opened(cls, wanted: bool = True, *, needed: bool = True) -> Iterator[Self | None]:
        """
        Open the ledger for a ``with`` block.

        :param wanted: Whether the task uses it; if not, the block gets None.
        :param needed: Whether the task fails if it cannot be opened; if not, that is logged and the block gets None.
        :raises AssistantLedgerError: It is needed, and cannot be opened.
        """
        try:
            opened = cls.open() if wanted else None
        except AssistantLedgerError as error:
            if needed:
                raise
            log.warning("Going on without the ledger, which only notes this: %s", error)
            opened = None
        with opened or contextlib.nullcontext():
            yield opened

    def documents(self, *, scope: str, site_id: str, source: str, run: RunRef) -> BatchLedger:
        """Return the documents of one site and endpoint, for one try of one task."""
        return BatchLedger(self.engine, documents, scope=scope, site_id=site_id, source=source, run=run, now=self._now)

    def questions(self, *, scope: str, site_id: str, source: str, run: RunRef) -> BatchLedger:
        """Return the questions that one task asks on one site, for one try of it."""
        return BatchLedger(self.engine, questions, scope=scope, site_id=site_id, source=source, run=run, now=self._now)

    def load(
        self, *, scope: str, endpoint: str, site_id: str, source: str, run: RunRef
    ) -> contextlib.AbstractContextManager[LoadRecord]:
        """Return the record of one try of a load, for the time that it runs."""
        names = {"scope": scope, "endpoint": endpoint, "site_id": site_id, "source": source}
        return recorded(self.engine, names, run, now=self._now)

    def find(self, table: sa.Table, scope: str, key: str) -> sa.Row[Any] | None:
        """Return the effect with this scope and key, if one was ever intended."""
        return self._one(sa.select(table).where(_is(table, scope, key)))

    def outcomes(
        self, table: sa.Table, scope: str, keys: Sequence[str], *, again_if: sa.ColumnElement[bool] | None = None
    ) -> dict[str, Outcome]:
        """
        Return what came of the effects with these keys; those that were never intended are left out.

        :param again_if: Leaves out those that were made, and where this holds for their row.
        """
        is_current = (table.c.outcome != "done") | sa.not_(sa.false() if again_if is None else again_if)

        def outcomes(connection: sa.Connection) -> dict[str, Outcome]:
            found: dict[str, Outcome] = {}
            for start in range(0, len(keys), PARAMETERS - 1):
                some = table.c.key.in_(keys[start : start + PARAMETERS - 1])
                query = sa.select(table.c.key, table.c.outcome).where(table.c.scope == scope, some, is_current)
                found |= {row.key: row.outcome for row in connection.execute(query)}
            return found

        return transaction(self.engine, outcomes)

    def intend(self, table: sa.Table, scope: str, key: str, run: RunRef, **facts: Any) -> None:
        """Record that an effect is about to be made; an earlier attempt at the same effect is counted."""
        self._unwritten.pop((table.name, scope, key), None)
        intent = {
            "outcome": "intended",
            "error": None,
            **run.columns(),
            "intended_at": self._now(),
            "settled_at": None,
            **facts,
        }
        again = sa.update(table).where(_is(table, scope, key)).values(attempts=table.c.attempts + 1, **intent)
        first = sa.insert(table).values(scope=scope, key=key, attempts=1, **intent)

        def update(connection: sa.Connection) -> bool:
            return bool(connection.execute(again).rowcount)

        def insert(connection: sa.Connection) -> bool:
            try:
                connection.execute(first)
            except sa.exc.IntegrityError:
                return False
            return True

        if not transaction(self.engine, update, writes=True) and not transaction(self.engine, insert, writes=True):
            # Another worker inserted the row between the two statements; it is now this one's too.
            transaction(self.engine, update, writes=True)

    def settle(
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
        Record what came of an intent; if the database cannot be written, when the ledger is closed.

        What the service has answered is then not lost for the task that asked.

        :return: Whether it is recorded by now.
        """
        settled = self._settled(table, scope, key, outcome, error, facts)
        try:
            transaction(self.engine, lambda connection: connection.execute(settled), writes=True)
        except AssistantLedgerError as why:
            log.warning("The service has answered, and the outcome is recorded when the task ends: %s", why)
            self._unwritten[table.name, scope, key] = settled
            return False
        return True

    def _settled(
        self, table: sa.Table, scope: str, key: str, outcome: Outcome, error: str | None, facts: Mapping[str, Any]
    ) -> sa.Update:
        change = {"outcome": outcome, "error": error, "settled_at": self._now(), **facts}
        return sa.update(table).where(_is(table, scope, key)).values(**change)

    def once(
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
        Make an effect, unless this ledger shows that it was made.

        An earlier attempt that may have happened is repeated, as the specification asks for after a 5xx, with a
        warning. An outcome that cannot be recorded is returned all the same, and recorded when the ledger is closed.

        :param table: The kind of effect.
        :param scope: What the effect is made on.
        :param key: What makes it the same effect when it is tried again, see :func:`key_of`.
        :param run: The task instance that makes it.
        :param send: Makes it, and returns the facts that are known only then.
        :param again_if: Makes it again although it was made, where this holds for its row.
        :param facts: Columns of the row, known before.
        :return: The effect's row, and whether it was made by this call.
        :raises AssistantLedgerError: The intent cannot be recorded; nothing was sent.
        """
        made = self._made(table, scope, key, again_if)
        if made is not None:
            return made, False
        earlier = self.find(table, scope, key)
        if earlier is not None and earlier.outcome in {"intended", "ambiguous"}:
            log.warning(
                "An earlier attempt at this may already have happened; it is made again: %s",
                earlier.error,
            )
        self.intend(table, scope, key, run, **facts)
        try:
            learned = send()
        except AssistantError as error:
            self.settle(table, scope, key, outcome_of(error), error=str(error))
            raise
        known: dict[str, Any] = {**facts, **learned}
        if self.settle(table, scope, key, "done", **learned):
            with contextlib.suppress(AssistantLedgerError):
                if (row := self.find(table, scope, key)) is not None:
                    return row, True
        return SimpleNamespace(**known, scope=scope, key=key, outcome="done", error=None, settled_at=self._now()), True

    def _made(
        self, table: sa.Table, scope: str, key: str, again_if: sa.ColumnElement[bool] | None
    ) -> sa.Row[Any] | None:
        query = sa.select(table).where(_is(table, scope, key), table.c.outcome == "done")
        if again_if is not None:
            query = query.where(sa.func.coalesce(again_if, sa.false()) == sa.false())
        return self._one(query)

    def _one(self, query: sa.Select[Any]) -> sa.Row[Any] | None:
        return transaction(self.engine, lambda connection: connection.execute(query).one_or_none())

    def submission_of(self, scope: str, request_id: str) -> sa.Row[Any] | None:
        """Return the submission that an async chat request came from, if this ledger saw it."""
        where = (submissions.c.scope == scope) & (submissions.c.request_id == request_id)
        return self._one(sa.select(submissions).where(where).limit(1))

    def chat_ended(self, scope: str, request_id: str, state: str, *, at: datetime | None = None) -> None:
        """
        Record how an async chat request ended; the first record stands, later ones change nothing.

        Only ``lost`` replaces another: a service may forget a request after it has answered it.

        :param at: When it ended, aware; by default now.
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

    @property
    def name(self) -> str:
        """Its connection id, file or URL, for messages."""
        return name_of(self.engine)

    def has_entries_before(self, moment: datetime) -> bool:
        """Return whether anything was recorded before a moment."""
        tables = (documents, questions, submissions, ratings)
        began = [table.c.intended_at < moment for table in tables] + [loads.c.started_at < moment]
        queries = [sa.exists().where(one) for one in began]
        return bool(transaction(self.engine, lambda connection: connection.scalar(sa.select(sa.or_(*queries)))))

    def close(self) -> None:
        """Record the outcomes that could not be recorded before, and close the database connections."""
        try:
            self._write_rest()
        finally:
            self.engine.dispose()

    def _write_rest(self) -> None:
        unwritten = list(self._unwritten.values())
        if not unwritten:
            return

        def settle(connection: sa.Connection) -> None:
            for settled in unwritten:
                connection.execute(settled)

        try:
            transaction(self.engine, settle, writes=True)
        except AssistantLedgerError:
            listed = ", ".join(f"{table} {key}" for table, _, key in self._unwritten)
            log.exception("What was sent is not recorded, and a retry of this task sends it again: %s", listed)
        self._unwritten.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def outcome_of(error: AssistantError) -> Outcome:
    """Return what an effect whose request ended in this error came to."""
    return "ambiguous" if isinstance(error, AssistantAmbiguousError | AssistantResponseError) else "refused"


def document_scope(target: str, endpoint: str, namespace: str | None = None) -> str:
    """
    Return the scope in which documents of one site have keys of their own.

    :param target: The site, see :meth:`AssistantHook.target`.
    :param endpoint: The kind of document.
    :param namespace: Separates loads whose keys overlap.
    """
    return f"{target}/{endpoint}" if namespace is None else f"{target}/{endpoint}#{namespace}"


def key_of(*parts: str | None) -> str:
    """Return the key of an effect: a digest of what makes it the same effect when it is tried again."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _engine_of(conn_id: str) -> sa.Engine:
    """
    Return the engine of an Airflow connection.

    :raises AssistantLedgerErrorForGood: There is no such connection, or it is not one of a SQL database.
    """
    try:
        engine: sa.Engine = BaseHook.get_hook(conn_id).get_sqlalchemy_engine()
    except (AirflowException, AttributeError, ImportError, ValueError, sa.exc.ArgumentError) as error:
        raise AssistantLedgerErrorForGood(
            f"the ledger cannot be opened: connection {conn_id!r}, which [assistant] ledger_conn_id names, cannot be "
            f"used for SQL ({type(error).__name__}). Nothing was sent. Correct the connection or install its "
            "provider, then clear the task."
        ) from error
    engine.update_execution_options(**{NAME: f"connection {conn_id!r}"})
    return engine


def sqlite_engine(path: Path) -> sa.Engine:
    """Return an engine for a SQLite file that several processes write to."""
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _is(table: sa.Table, scope: str, key: str) -> sa.ColumnElement[bool]:
    return (table.c.scope == scope) & (table.c.key == key)


def airflow_home() -> Path:
    """Return AIRFLOW_HOME."""
    from airflow.configuration import AIRFLOW_HOME

    return Path(AIRFLOW_HOME)
