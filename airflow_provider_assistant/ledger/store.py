"""The ledger itself: effects that are made once, and what they came to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import BaseHook, conf

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantLedgerError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.batches import BatchLedger
from airflow_provider_assistant.ledger.bulk import PARAMETERS
from airflow_provider_assistant.ledger.loads import LoadRecord, recorded
from airflow_provider_assistant.ledger.schema import (
    SCHEMA_VERSION,
    Outcome,
    RunRef,
    documents,
    prepared,
    questions,
    submissions,
)

log = logging.getLogger(__name__)


class Ledger:
    """
    One ledger in one SQL database.

    :param engine: Where it is kept; its tables are created when they are missing.
    :param now: The current time, aware.
    :raises AssistantLedgerError: The database cannot be used, or holds a ledger of a newer version.
    """

    def __init__(self, engine: sa.Engine, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine = engine
        self._now = now
        try:
            version = prepared(engine)
        except sa.exc.SQLAlchemyError as error:
            where = engine.url.render_as_string(hide_password=True)
            raise AssistantLedgerError(
                f"the ledger at {where} cannot be opened: {getattr(error, 'orig', None) or type(error).__name__}. "
                "Nothing was sent. Check [assistant] ledger_conn_id, or the free space and permissions of the file."
            ) from error
        if version > SCHEMA_VERSION:
            raise AssistantLedgerError(
                f"the ledger has schema version {version}, this package knows {SCHEMA_VERSION}: "
                "upgrade airflow-provider-assistant on this worker. Nothing was sent."
            )

    @classmethod
    def open(cls) -> Self:
        """
        Open the ledger that Airflow's configuration names.

        That is the SQL connection ``[assistant] ledger_conn_id``, or else a SQLite file in AIRFLOW_HOME.
        """
        conn_id = conf.get("assistant", "ledger_conn_id", fallback="")
        if conn_id:
            return cls(BaseHook.get_hook(conn_id).get_sqlalchemy_engine())
        return cls(sqlite_engine(airflow_home() / "assistant_ledger.db"))

    @classmethod
    @contextlib.contextmanager
    def opened(cls, wanted: bool = True) -> Iterator[Self | None]:
        """Open the ledger for a ``with`` block, or give None where a task was told not to use it."""
        if not wanted:
            yield None
            return
        with cls.open() as ledger:
            yield ledger

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
        with self.engine.connect() as connection:
            return connection.execute(sa.select(table).where(_is(table, scope, key))).one_or_none()

    def outcomes(
        self, table: sa.Table, scope: str, keys: Sequence[str], *, again_if: sa.ColumnElement[bool] | None = None
    ) -> dict[str, Outcome]:
        """
        Return what came of the effects with these keys; those that were never intended are left out.

        :param again_if: Leaves out those that were made, and where this holds for their row.
        """
        is_current = (table.c.outcome != "done") | sa.not_(sa.false() if again_if is None else again_if)
        found: dict[str, Outcome] = {}
        with self.engine.connect() as connection:
            for start in range(0, len(keys), PARAMETERS - 1):
                some = table.c.key.in_(keys[start : start + PARAMETERS - 1])
                query = sa.select(table.c.key, table.c.outcome).where(table.c.scope == scope, some, is_current)
                found |= {row.key: row.outcome for row in connection.execute(query)}
        return found

    def intend(self, table: sa.Table, scope: str, key: str, run: RunRef, **facts: Any) -> None:
        """Record that an effect is about to be made; an earlier attempt at the same effect is counted."""
        intent = {
            "outcome": "intended",
            "error": None,
            "dag_id": run.dag_id,
            "run_id": run.run_id,
            "task_id": run.task_id,
            "map_index": run.map_index,
            "intended_at": self._now(),
            "settled_at": None,
            **facts,
        }
        again = sa.update(table).where(_is(table, scope, key)).values(attempts=table.c.attempts + 1, **intent)
        first = sa.insert(table).values(scope=scope, key=key, attempts=1, **intent)
        with self.engine.begin() as connection:
            if connection.execute(again).rowcount:
                return
        try:
            with self.engine.begin() as connection:
                connection.execute(first)
        except sa.exc.IntegrityError:
            # Another worker was faster by a moment; its row is now this one's too.
            with self.engine.begin() as connection:
                connection.execute(again)

    def settle(
        self,
        table: sa.Table,
        scope: str,
        key: str,
        outcome: Outcome,
        *,
        error: str | None = None,
        **facts: Any,
    ) -> None:
        """Record what came of an intent."""
        change = sa.update(table).where(_is(table, scope, key))
        with self.engine.begin() as connection:
            connection.execute(change.values(outcome=outcome, error=error, settled_at=self._now(), **facts))

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
    ) -> tuple[sa.Row[Any], bool]:
        """
        Make an effect, unless this ledger shows that it was made.

        An earlier attempt that may have happened is repeated, as the specification asks for after a 5xx, and
        said so.

        :param table: The kind of effect.
        :param scope: What the effect is made on.
        :param key: What makes it the same effect when it is tried again, see :func:`key_of`.
        :param run: The task instance that makes it.
        :param send: Makes it, and returns the facts that are known only then.
        :param again_if: Makes it again although it was made, where this holds for its row.
        :param facts: Columns of the row, known before.
        :return: The effect's row, and whether it was made by this call.
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
        self.settle(table, scope, key, "done", **learned)
        row = self.find(table, scope, key)
        if row is None:
            raise AssistantLedgerError("the ledger lost a row it had just written; is somebody clearing it?")
        return row, True

    def _made(
        self, table: sa.Table, scope: str, key: str, again_if: sa.ColumnElement[bool] | None
    ) -> sa.Row[Any] | None:
        query = sa.select(table).where(_is(table, scope, key), table.c.outcome == "done")
        if again_if is not None:
            query = query.where(sa.func.coalesce(again_if, sa.false()) == sa.false())
        with self.engine.connect() as connection:
            return connection.execute(query).one_or_none()

    def submission_of(self, scope: str, request_id: str) -> sa.Row[Any] | None:
        """Return the submission that an async chat request came from, if this ledger saw it."""
        where = (submissions.c.scope == scope) & (submissions.c.request_id == request_id)
        with self.engine.connect() as connection:
            return connection.execute(sa.select(submissions).where(where).limit(1)).one_or_none()

    def chat_ended(self, scope: str, request_id: str, state: str) -> None:
        """Record how an async chat request ended; the first record stands, later ones change nothing."""
        table = submissions
        where = (table.c.scope == scope) & (table.c.request_id == request_id) & table.c.completed_at.is_(None)
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).where(where).values(state=state, completed_at=self._now()))

    def close(self) -> None:
        """Close the database connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def outcome_of(error: AssistantError) -> Outcome:
    """Return what an effect whose request ended in this error came to."""
    return "ambiguous" if isinstance(error, AssistantAmbiguousError | AssistantResponseError) else "refused"


def key_of(*parts: str | None) -> str:
    """Return the key of an effect: a digest of what makes it the same effect when it is tried again."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


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
