"""Opening the ledger, and its scopes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantLedgerError,
    AssistantLedgerPermanentError,
)
from airflow_provider_assistant.ledger.chats import ChatLedger
from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.database import attempts_on, ledger_errors, name_of, transaction
from airflow_provider_assistant.ledger.document_groups import GROUP_COLUMNS
from airflow_provider_assistant.ledger.leases import LeaseSettings, configured
from airflow_provider_assistant.ledger.load_log import LoadRecord, recorded
from airflow_provider_assistant.ledger.location import LedgerLocation, engine_at, location_of
from airflow_provider_assistant.ledger.migrate import SCHEMA_VERSION, migrate
from airflow_provider_assistant.ledger.ratings import RATING_COLUMNS, RatingLedger
from airflow_provider_assistant.ledger.schema import TABLES, RunRef, chat_requests, documents, loads, ratings
from airflow_provider_assistant.ledger.scopes import ChatScope, DocumentScope, RatingScope, Scope
from airflow_provider_assistant.names import task_name

S = TypeVar("S", bound=ScopeLedger)
T = TypeVar("T")

log = logging.getLogger(__name__)


class Ledger:
    """
    Keep a ledger in a SQL database.

    Every method retries its transaction for about 20 seconds while the database is unreachable, and then raises
    AssistantLedgerError, or AssistantLedgerPermanentError if a retry of the task cannot help.

    :param engine: Engine of the database. Missing tables are created.
    :param now: Returns the current time, timezone-aware. Default: the system clock.
    :param leases: Settings of leases. Default: those of Airflow's configuration.
    :param warn_if_new: Whether to warn if the ledger did not exist. Default: True.
    :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings | None = None,
        warn_if_new: bool = True,
    ) -> None:
        self.engine = engine
        self._now = now
        # Closed together with this ledger.
        self._scope_ledgers: list[ScopeLedger] = []
        self.leases = leases or configured()
        with ledger_errors(engine, "cannot be opened", NOTHING_SENT):
            call_with_retries = attempts_on(engine.dialect.name)
            version_before, version = call_with_retries(migrate, engine)
        if version > SCHEMA_VERSION:
            raise AssistantLedgerPermanentError(
                f"the ledger ({name_of(engine)}) has schema version {version}, but this package supports up to "
                f"{SCHEMA_VERSION}",
                safe=NOTHING_SENT,
                todo="Upgrade airflow-provider-assistant on this worker.",
            )
        if version_before is None and warn_if_new:
            log.warning(
                "A new, empty ledger was created: %s. If this site was loaded before, the earlier ledger is lost or in "
                "another place, and every document will be created again. Check ledger_conn_id and AIRFLOW_HOME.",
                name_of(engine),
            )

    @classmethod
    def open(cls, location: LedgerLocation | None = None) -> Self:
        """
        Open a ledger.

        :param location: The SQL connection of the ledger. Default: that of the option ``[assistant] ledger_conn_id``;
            if it is empty, a SQLite file in AIRFLOW_HOME.
        :return: The ledger. Call :meth:`close` or use it as a context manager.
        :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
        :raises AssistantLedgerPermanentError: The ledger would be a file that the workers do not share.
        """
        return cls(engine_at(location or location_of()))

    @classmethod
    @contextlib.contextmanager
    def open_optional(
        cls, enabled: bool = True, location: LedgerLocation | None = None, *, required: bool = True
    ) -> Iterator[Self | None]:
        """
        Open a ledger for a ``with`` block.

        :param enabled: Whether the task uses the ledger. If False, the block gets None. Default: True.
        :param location: The SQL connection of the ledger, as for :meth:`open`.
        :param required: Whether to raise if the ledger cannot be opened. If False, a warning is logged and the block
            gets None. Default: True.
        :return: Context manager that yields the ledger or None.
        :raises AssistantLedgerError: The ledger is required and cannot be opened.
        """
        ledger = None
        if enabled:
            try:
                ledger = cls.open(location)
            except AssistantLedgerError as error:
                if required:
                    raise
                log.warning(
                    "Going on without the ledger; this task does not depend on it: %s",
                    error,
                )
        if ledger is None:
            yield None
            return
        with ledger:
            yield ledger

    def documents(
        self,
        *,
        scope: DocumentScope,
        source: str,
        run: RunRef,
        has_groups: bool = False,
    ) -> ScopeLedger:
        """
        Return the ledger of documents for one try of one task.

        :param scope: Site and endpoint of the documents.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :param has_groups: Whether the rows that are loaded have groups. Default: False.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        details = GROUP_COLUMNS if has_groups else ()
        return self._open_scope(
            ScopeLedger,
            documents,
            details,
            scope=scope,
            source=source,
            run=run,
        )

    def chat_requests(self, *, scope: ChatScope, run: RunRef) -> ChatLedger:
        """
        Return the ledger of chat requests for one try of one task.

        The claim of a single request has the session id as its detail.

        :param scope: Site, and chat batch if it is one.
        :param run: The task instance.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        details = ("session_id",) if scope.batch is None else ()
        return self._open_scope(
            ChatLedger,
            chat_requests,
            details,
            scope=scope,
            source=_task_of(run),
            run=run,
        )

    def ratings(self, *, scope: RatingScope, run: RunRef) -> RatingLedger:
        """
        Return the ledger of ratings for one try of one task.

        :param scope: Site of the ratings.
        :param run: The task instance.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        return self._open_scope(
            RatingLedger,
            ratings,
            RATING_COLUMNS,
            scope=scope,
            source=_task_of(run),
            run=run,
        )

    def _open_scope(
        self,
        ledger_class: type[S],
        table: sa.Table,
        details: Sequence[str],
        *,
        scope: Scope,
        source: str,
        run: RunRef,
    ) -> S:
        """Open the ledger of a scope, which :meth:`close` closes."""
        scope_ledger = ledger_class(
            self.engine,
            table,
            scope=scope,
            source=source,
            run=run,
            now=self._now,
            leases=self.leases,
            details=details,
        )
        self._scope_ledgers.append(scope_ledger)
        return scope_ledger

    def load(self, *, scope: DocumentScope, source: str, run: RunRef) -> contextlib.AbstractContextManager[LoadRecord]:
        """
        Return a context manager that records one try of a load.

        :param scope: Site and endpoint of the documents.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :return: Context manager that yields the :class:`LoadRecord` to fill.
        :raises AssistantLedgerError: The start of the load cannot be recorded.
        """
        # Loads of every namespace are listed together.
        names = {**scope.site.recorded(), "endpoint": scope.endpoint, "source": source}
        return recorded(self.engine, names, run, now=self._now)

    def read(self, query: Callable[..., T], *arguments: Any) -> T:
        """
        Run a query in one transaction.

        :param query: Function of :mod:`.queries`, :mod:`.load_queries` or :mod:`.export_queries`. It takes a
            connection first.
        :param arguments: Further arguments of the query.
        :return: Result of the query.
        :raises AssistantLedgerError: The database cannot be read.
        """
        return transaction(self.engine, lambda connection: query(connection, *arguments))

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
        is_before = [table.c.claimed_at < moment for table in TABLES.values()]
        is_before.append(loads.c.started_at < moment)
        exists_before = [sa.exists().where(condition) for condition in is_before]
        query = sa.select(sa.or_(*exists_before))
        return bool(transaction(self.engine, lambda connection: connection.scalar(query)))

    def close(self) -> None:
        """Write the outcomes that could not be written before, and close the database connections."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.engine.dispose)
            # The stack calls these first, and goes on with the others if one of them raises.
            for scope_ledger in self._scope_ledgers:
                stack.callback(scope_ledger.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _task_of(run: RunRef) -> str:
    return task_name(run.dag_id, run.task_id)
