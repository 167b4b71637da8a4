"""The ledger: claims and outcomes of effects that must happen once."""

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
    AssistantLedgerPermanentError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.claims import BatchLedger
from airflow_provider_assistant.ledger.database import NAME, attempts_on, name_of, said, transaction
from airflow_provider_assistant.ledger.load_log import LoadRecord, recorded
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

# A ledger entry: the stored row, or its values if the database cannot be written.
Effect: TypeAlias = sa.Row[Any] | SimpleNamespace


class Ledger:
    """
    Keep a ledger in a SQL database.

    Every method retries its transaction for about 20 seconds while the database is unreachable, and then raises
    AssistantLedgerError, or AssistantLedgerPermanentError if a retry of the task cannot help.

    :param engine: Engine of the database. Missing tables are created.
    :param now: Returns the current time, timezone-aware. Default: the system clock.
    :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
    """

    def __init__(self, engine: sa.Engine, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine = engine
        self._now = now
        # Outcomes that could not be written yet, by table, scope and key.
        self._unwritten: dict[tuple[str, str, str], sa.Update] = {}
        with said(engine, "cannot be opened", "Nothing was sent."):
            found, version = attempts_on(engine.dialect.name)(prepared, engine)
        if version > SCHEMA_VERSION:
            raise AssistantLedgerPermanentError(
                f"the ledger ({name_of(engine)}) has schema version {version}, but this package supports up to "
                f"{SCHEMA_VERSION}. Nothing was sent. Upgrade airflow-provider-assistant on this worker."
            )
        if found is None:
            log.warning(
                "A new, empty ledger was created: %s. If this site was loaded before, the earlier ledger is lost or in "
                "another place, and every document will be created again. Check [assistant] ledger_conn_id and "
                "AIRFLOW_HOME.",
                name_of(engine),
            )

    @classmethod
    def open(cls) -> Self:
        """
        Open the ledger of Airflow's configuration.

        It is in the database of the connection ``[assistant] ledger_conn_id``; if this option is empty, in a SQLite
        file in AIRFLOW_HOME.

        :return: The ledger. Call :meth:`close` or use it as a context manager.
        :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
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

        :param wanted: Whether the task uses the ledger. If False, the block gets None. Default: True.
        :param needed: Whether to raise if the ledger cannot be opened. If False, a warning is logged and the block
            gets None. Default: True.
        :return: Context manager that yields the ledger or None.
        :raises AssistantLedgerError: The ledger is needed and cannot be opened.
        """
        try:
            opened = cls.open() if wanted else None
        except AssistantLedgerError as error:
            if needed:
                raise
            log.warning("Going on without the ledger; this task does not depend on it: %s", error)
            opened = None
        with opened or contextlib.nullcontext():
            yield opened

    def documents(self, *, scope: str, site_id: str, source: str, run: RunRef) -> BatchLedger:
        """
        Return the ledger of documents for one try of one task.

        :param scope: Site and endpoint, see :func:`document_scope`.
        :param site_id: Id of the site.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :return: The ledger. Close it after use.
        :raises AssistantLedgerError: The database cannot be used.
        """
        return BatchLedger(self.engine, documents, scope=scope, site_id=site_id, source=source, run=run, now=self._now)

    def questions(self, *, scope: str, site_id: str, source: str, run: RunRef) -> BatchLedger:
        """
        Return the ledger of a chat batch's questions for one try of one task.

        :param scope: Site and batch, see :func:`questions_scope`.
        :param site_id: Id of the site.
        :param source: Name of the source of the questions.
        :param run: The task instance.
        :return: The ledger. Close it after use.
        :raises AssistantLedgerError: The database cannot be used.
        """
        return BatchLedger(self.engine, questions, scope=scope, site_id=site_id, source=source, run=run, now=self._now)

    def load(
        self, *, scope: str, endpoint: str, site_id: str, source: str, run: RunRef
    ) -> contextlib.AbstractContextManager[LoadRecord]:
        """
        Return a context manager that records one try of a load.

        :param scope: Site and endpoint, see :func:`document_scope`.
        :param endpoint: Name of the endpoint.
        :param site_id: Id of the site.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :return: Context manager that yields the :class:`LoadRecord` to fill.
        :raises AssistantLedgerError: The start of the load cannot be recorded.
        """
        names = {"scope": scope, "endpoint": endpoint, "site_id": site_id, "source": source}
        return recorded(self.engine, names, run, now=self._now)

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
            # Another worker inserted the row between the two statements: update that row.
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
        if earlier is not None and earlier.outcome in {"intended", "ambiguous"}:
            log.warning(
                "An earlier attempt at this request may already have happened; sending it again: %s",
                earlier.error,
            )
        self.intend(table, scope, key, run, **facts)
        try:
            learned = send()
        except AssistantError as error:
            self.settle(table, scope, key, outcome_of(error), error=str(error))
            raise
        columns: dict[str, Any] = {**facts, **learned}
        if self.settle(table, scope, key, "done", **learned):
            with contextlib.suppress(AssistantLedgerError):
                if (row := self.find(table, scope, key)) is not None:
                    return row, True
        entry = SimpleNamespace(**columns, scope=scope, key=key, outcome="done", error=None, settled_at=self._now())
        return entry, True

    def _completed(
        self, table: sa.Table, scope: str, key: str, again_if: sa.ColumnElement[bool] | None
    ) -> sa.Row[Any] | None:
        query = sa.select(table).where(_is(table, scope, key), table.c.outcome == "done")
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

    @property
    def name(self) -> str:
        """Connection id, file or URL of the ledger, for messages."""
        return name_of(self.engine)

    def has_entries_before(self, moment: datetime) -> bool:
        """
        Return whether the ledger has an entry from before a time.

        :param moment: The time, timezone-aware.
        :raises AssistantLedgerError: The database cannot be read.
        """
        tables = (documents, questions, submissions, ratings)
        began = [table.c.intended_at < moment for table in tables] + [loads.c.started_at < moment]
        queries = [sa.exists().where(one) for one in began]
        return bool(transaction(self.engine, lambda connection: connection.scalar(sa.select(sa.or_(*queries)))))

    def close(self) -> None:
        """Write the outcomes that could not be written before, and close the database connections."""
        try:
            self._write_remaining()
        finally:
            self.engine.dispose()

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def outcome_of(error: AssistantError) -> Outcome:
    """
    Return the outcome of an effect whose request failed.

    :param error: The error of the request.
    :return: ``ambiguous`` if the effect may have happened, otherwise ``refused``.
    """
    return "ambiguous" if isinstance(error, AssistantAmbiguousError | AssistantResponseError) else "refused"


def document_scope(target: str, endpoint: str, namespace: str | None = None) -> str:
    """
    Return the scope within which document keys are unique.

    :param target: URL of the site, see :meth:`AssistantHook.target`.
    :param endpoint: Name of the endpoint, which is the kind of document.
    :param namespace: Separates loads whose keys overlap. Default: none.
    :return: The scope.
    """
    return f"{target}/{endpoint}" if namespace is None else f"{target}/{endpoint}#{namespace}"


def key_of(*parts: str | None) -> str:
    """
    Return the key of an effect.

    :param parts: Values that identify the effect across retries.
    :return: RowFingerprint of the values, 32 hexadecimal digits.
    """
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _engine_of(conn_id: str) -> sa.Engine:
    """
    Return the SQLAlchemy engine of an Airflow connection.

    :raises AssistantLedgerPermanentError: The connection does not exist or is not a SQL connection.
    """
    try:
        engine: sa.Engine = BaseHook.get_hook(conn_id).get_sqlalchemy_engine()
    except (AirflowException, AttributeError, ImportError, ValueError, sa.exc.ArgumentError) as error:
        raise AssistantLedgerPermanentError(
            f"the ledger cannot be opened: connection {conn_id!r} ([assistant] ledger_conn_id) cannot be used for SQL "
            f"({type(error).__name__}). Nothing was sent. Correct the connection or install its provider, then clear "
            "the task."
        ) from error
    engine.update_execution_options(**{NAME: f"connection {conn_id!r}"})
    return engine


def sqlite_engine(path: Path) -> sa.Engine:
    """
    Return an engine for a SQLite file that several processes may write to concurrently.

    :param path: Path of the file; it is created if it does not exist.
    """
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _is(table: sa.Table, scope: str, key: str) -> sa.ColumnElement[bool]:
    return (table.c.scope == scope) & (table.c.key == key)


def airflow_home() -> Path:
    """Return the path of AIRFLOW_HOME."""
    from airflow.configuration import AIRFLOW_HOME

    return Path(AIRFLOW_HOME)
