"""Opening the ledger, and its parts."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantLedgerError
from airflow_provider_assistant.ledger import clock, tries
from airflow_provider_assistant.ledger.attempts import ScopeLedger
from airflow_provider_assistant.ledger.database import attempts_on, connected, ledger_errors, name_of, transaction
from airflow_provider_assistant.ledger.engine import todo_of
from airflow_provider_assistant.ledger.location import LedgerLocation, engine_at, location_of
from airflow_provider_assistant.ledger.schema import RunRef, ledger_info, metadata
from airflow_provider_assistant.ledger.scopes import Scope

T = TypeVar("T")

VERSION = 1

log = logging.getLogger(__name__)


class Ledger:
    """
    Keep a ledger in a SQL database. Use it as a context manager.

    Every method retries its transaction for about 20 seconds while the database is unreachable, and then raises
    AssistantLedgerError.

    :param engine: Engine of the database. Missing tables are created.
    :param ledger_clock: Clock of the leases. Default: the database's, with the lease of Airflow's configuration.
    :param warn_if_new: Whether to warn if the ledger did not exist. Default: True.
    :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
    """

    def __init__(self, engine: sa.Engine, *, ledger_clock: clock.Clock | None = None, warn_if_new: bool = True) -> None:
        self.engine = engine
        self.clock = ledger_clock or clock.configured()
        with ledger_errors(engine, "cannot be opened", NOTHING_SENT):
            version = attempts_on(engine.dialect.name)(_create, engine)
        if version is not None and version > VERSION:
            raise AssistantLedgerError(
                f"the ledger ({self.name}) has schema version {version}, but this package supports up to {VERSION}",
                retryable=False,
                safe=NOTHING_SENT,
                todo="Upgrade airflow-provider-assistant on this worker.",
            )
        if version is None and warn_if_new:
            log.info(
                "A new, empty ledger was created: %s. If this site was loaded before, the earlier ledger is lost or in "
                "another place: check ledger_conn_id and AIRFLOW_HOME before a load creates every document again.",
                self.name,
            )

    @classmethod
    def open(cls, location: LedgerLocation | None = None) -> Self:
        """
        Open a ledger.

        :param location: The SQL connection of the ledger. Default: that of the option ``[assistant] ledger_conn_id``;
            if it is empty, a SQLite file in AIRFLOW_HOME.
        :raises AssistantLedgerError: The database cannot be used, or contains a ledger of a newer version.
        :raises AssistantLedgerError: The ledger would be a file that the workers do not share.
        """
        return cls(engine_at(location or location_of()))

    @classmethod
    def in_memory(cls) -> Self:
        """Return a ledger that is gone when it is closed, for a task that is to remember nothing."""
        pool = sa.pool.StaticPool
        engine = sa.create_engine("sqlite://", poolclass=pool, connect_args={"check_same_thread": False})
        return cls(engine, warn_if_new=False)

    @classmethod
    @contextlib.contextmanager
    def open_optional(cls, location: LedgerLocation | None = None) -> Iterator[Self | None]:
        """Open a ledger for a ``with`` block of a task that can do without: if it cannot be opened, log a warning."""
        try:
            ledger = cls.open(location)
        except AssistantLedgerError as error:
            log.warning("Going on without the ledger; this task does not depend on it: %s", error)
            yield None
            return
        with ledger:
            yield ledger

    @property
    def name(self) -> str:
        """Connection id, file or URL of the ledger, for messages."""
        return name_of(self.engine)

    def of(self, scope: Scope, source: str, run: RunRef, token: str | None = None) -> ScopeLedger:
        """
        Return the ledger of a scope for one try of one task. Close it with a ``with`` block.

        :param source: Name of the load, or of the task for chat requests and ratings.
        :param token: Identifies the try. Default: a new one.
        """
        return ScopeLedger(self.engine, scope, source, run, clock=self.clock, token=token)

    def record_try(self, ledger: ScopeLedger, task_kind: str) -> contextlib.AbstractContextManager[tries.Try]:
        """
        Return a context manager that records the start and the end of a try.

        :param ledger: The ledger of the try's attempts.
        :param task_kind: What the task does, such as ``load``.
        """
        scope = ledger.scope
        return tries.recorded(
            self.engine, ledger.token, task_kind, scope.site, ledger.source, ledger.run, kind=scope.kind
        )

    def read(self, query: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """
        Run a query in one transaction.

        :param query: Function of :mod:`.queries`. It takes a connection first.
        :param arguments: Further arguments of the query.
        :param options: Its keyword arguments.
        :raises AssistantLedgerError: The database cannot be read.
        """
        return transaction(self.engine, lambda connection: query(connection, *arguments, **options))

    @contextlib.contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """Return a connection for a ``with`` block, for queries that read in constant memory."""
        with connected(self.engine) as connection:
            yield connection

    def close(self) -> None:
        """Close the database connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@tenacity.retry(
    # Two workers that open a new ledger at the same time both create its tables; one of them gets an error.
    retry=tenacity.retry_if_exception(lambda error: isinstance(error, sa.exc.DBAPIError) and not todo_of(error)),
    stop=tenacity.stop_after_attempt(6),
    wait=tenacity.wait_random(0.05, 0.5),
    reraise=True,
)
def _create(engine: sa.Engine) -> int | None:
    """Create the tables of a ledger that has none. Return its version before; None if it is new."""
    with engine.begin() as connection:
        if sa.inspect(connection).has_table(ledger_info.name):
            version: int | None = connection.scalar(sa.select(sa.func.max(ledger_info.c.version)))
            if version is not None:
                return version
        # A process that was killed may have left some of the tables.
        metadata.create_all(connection)
        connection.execute(sa.insert(ledger_info).values(version=VERSION, id=uuid.uuid4().hex))
    return None
