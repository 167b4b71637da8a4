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
from airflow_provider_assistant.ledger.scopes import ChatScope, DocumentScope, RatingScope

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
    :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings | None = None,
    ) -> None:
        self.engine = engine
        self._now = now
        self._opened: list[ScopeLedger] = []
        self.leases = leases or configured()
        with ledger_errors(engine, "cannot be opened", NOTHING_SENT):
            found, version = attempts_on(engine.dialect.name)(migrate, engine)
        if version > SCHEMA_VERSION:
            raise AssistantLedgerPermanentError(
                f"the ledger ({name_of(engine)}) has schema version {version}, but this package supports up to "
                f"{SCHEMA_VERSION}",
                safe=NOTHING_SENT,
                todo="Upgrade airflow-provider-assistant on this worker.",
            )
        if found is None:
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
        try:
            opened = cls.open(location) if enabled else None
        except AssistantLedgerError as error:
            if required:
                raise
            log.warning("Going on without the ledger; this task does not depend on it: %s", error)
            opened = None
        with opened or contextlib.nullcontext():
            yield opened

    def documents(
        self,
        *,
        scope: DocumentScope,
        site_id: str,
        source: str,
        run: RunRef,
        has_groups: bool = False,
    ) -> ScopeLedger:
        """
        Return the ledger of documents for one try of one task.

        :param scope: Site and endpoint of the documents.
        :param site_id: Id of the site.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :param has_groups: Whether the rows that are loaded have groups. Default: False.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        details = GROUP_COLUMNS if has_groups else ()
        names = {"site_id": site_id, "source": source, "run": run}
        return self._open(ScopeLedger, documents, details, scope=scope, **names)

    def chat_requests(self, *, scope: ChatScope, site_id: str, run: RunRef) -> ChatLedger:
        """
        Return the ledger of chat requests for one try of one task.

        The claim of a single request has the session id as its detail.

        :param scope: Site, and chat batch if it is one.
        :param site_id: Id of the site.
        :param run: The task instance.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        details = ("session_id",) if scope.batch is None else ()
        names = {"site_id": site_id, "source": _task_of(run), "run": run}
        return self._open(ChatLedger, chat_requests, details, scope=scope, **names)

    def ratings(self, *, site_url: str, site_id: str, run: RunRef) -> RatingLedger:
        """
        Return the ledger of ratings for one try of one task.

        :param site_url: URL of the site.
        :param site_id: Id of the site.
        :param run: The task instance.
        :return: The ledger. It is closed with this one, if not before.
        :raises AssistantLedgerError: The database cannot be used.
        """
        names = {"site_id": site_id, "source": _task_of(run), "run": run}
        return self._open(RatingLedger, ratings, RATING_COLUMNS, scope=RatingScope(site_url), **names)

    def _open(self, kind: type[S], table: sa.Table, details: Sequence[str], **names: Any) -> S:
        opened = kind(self.engine, table, details=details, now=self._now, leases=self.leases, **names)
        self._opened.append(opened)
        return opened

    def load(
        self, *, site_url: str, endpoint: str, site_id: str, source: str, run: RunRef
    ) -> contextlib.AbstractContextManager[LoadRecord]:
        """
        Return a context manager that records one try of a load.

        :param site_url: URL of the site.
        :param endpoint: Name of the endpoint.
        :param site_id: Id of the site.
        :param source: Name of the source that is loaded.
        :param run: The task instance.
        :return: Context manager that yields the :class:`LoadRecord` to fill.
        :raises AssistantLedgerError: The start of the load cannot be recorded.
        """
        names = {"site_url": site_url, "endpoint": endpoint, "site_id": site_id, "source": source}
        return recorded(self.engine, names, run, now=self._now)

    def read(self, query: Callable[..., T], *arguments: Any) -> T:
        """
        Run a query in one transaction.

        :param query: Function of :mod:`.queries` or :mod:`.load_queries`; it takes a connection first.
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
        began = [table.c.claimed_at < moment for table in TABLES.values()]
        began.append(loads.c.started_at < moment)
        queries = [sa.exists().where(one) for one in began]
        return bool(transaction(self.engine, lambda connection: connection.scalar(sa.select(sa.or_(*queries)))))

    def close(self) -> None:
        """Write the outcomes that could not be written before, and close the database connections."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.engine.dispose)
            for opened in self._opened:
                stack.callback(opened.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _task_of(run: RunRef) -> str:
    return f"{run.dag_id}.{run.task_id}"
