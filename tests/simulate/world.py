"""The simulated world of a night: its service, clock, disk and ledger, and the processes of its task."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import errno
import functools
import io
import json
import logging
import math
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeVar
from unittest import mock

import airflow.configuration
import pyarrow.parquet as pq
import sqlalchemy as sa
import tenacity.nap
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.sdk.execution_time.context import OutletEventAccessors
from hypothesis import strategies as st

from airflow_provider_assistant.client.defaults import ClientDefaults, set_client_defaults
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, location, tries
from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.loading import findings, progress
from airflow_provider_assistant.sandbox import Service, Settings
from airflow_provider_assistant.sandbox.messages import Key
from airflow_provider_assistant.sandbox.store import Chat, Document, Session
from tests.simulate.replies import HOST, OFTEN_WELL, SECRET, THEN, WELL, Answer, Gateway, Outage
from tests.simulate.transport import BlockingTransport, Sent, SimulatedTransport
from tests.virtual_time import VirtualTimeLoop, in_executor

SITE, TENANT = "docs", "acme"
EPOCH = 1.8e9
DAY = 86_400.0
# Errors of Airflow itself; all others must be AssistantErrors.
AIRFLOWS = (AirflowSkipException, AirflowFailException, AirflowSensorTimeout, AirflowTaskTimeout)
Record = TypeVar("Record", Document, Chat, Session)


class Killed(BaseException):
    """The process was killed."""


@dataclass(frozen=True)
class End:
    """
    The end of a process from outside.

    :param at: number of the request, from 0, at which it ends.
    :param how: SIGKILL before or after the service has carried the request out; SIGTERM, after which Airflow calls
        ``on_kill``; ``execution_timeout``, which a signal handler raises at any moment; Ctrl-C; or not an end: the
        process is stopped for some ``seconds``, as by SIGSTOP.
    """

    at: int
    how: Literal["killed before", "killed", "terminated", "timed out", "interrupted", "stopped"] = "killed"
    seconds: float = 0.0


@dataclass(frozen=True)
class LedgerAway:
    """Statements and commits of the ledger that fail; with ``is_done``, commits fail after they have taken effect."""

    first: int
    times: float = math.inf
    is_done: bool = False


@dataclass(frozen=True)
class DiskFull:
    """Files that cannot be written: the number of the first, how many, and the bytes for which there is room."""

    first: int
    times: float = math.inf
    room: int = 0


@dataclass(frozen=True)
class Try:
    """
    What happens in one try of a task.

    :param answers: how the service treats the first requests.
    :param then: how it treats all later ones.
    :param end: how the process ends from outside. A triggerer that is killed is started again.
    :param jump: request at which the clock of the machine jumps, and by how many seconds.
    :param later: seconds by which the clock jumps before the try; negative to set it back.
    :param is_cleared: whether the task was cleared before, instead of retried.
    :param is_beside: whether another run of the task runs at the same time.
    :param source: what differs in the source of the task: the form of rows, or changes of files.
    """

    answers: tuple[Answer, ...] = ()
    then: Answer = WELL
    end: End | None = None
    ledger_away: LedgerAway | None = None
    disk_full: DiskFull | None = None
    jump: tuple[int, float] | None = None
    later: float = 0.0
    outage: Outage | None = None
    gateway: Gateway | None = None
    is_cleared: bool = False
    is_beside: bool = False
    source: Any = None

    def answer(self, number: int) -> Answer:
        """Return how the service treats a request."""
        return self.answers[number] if number < len(self.answers) else self.then

    @property
    def odd(self) -> list[Answer]:
        """Return the answers that the client cannot use."""
        return [answer for answer in (*self.answers, self.then) if not answer.is_well]

    @property
    def is_undisturbed(self) -> bool:
        """Return whether all that fails is the service."""
        return not (self.end or self.ledger_away or self.disk_full or self.jump or self.is_beside)


CALM = Try()


@dataclass
class Ended:
    """The end of a process: its result or error, its seconds, its requests, what it pushed to XCom, and its task."""

    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    sent: list[Sent] = field(default_factory=list)
    xcom: dict[str, Any] = field(default_factory=dict)
    task: Any = None
    is_terminated: bool = False

    @property
    def is_killed(self) -> bool:
        """Return whether the process was killed."""
        return isinstance(self.error, Killed)

    def to(self, *endpoints: str) -> list[Sent]:
        """Return the requests to some routes."""
        return [one for one in self.sent if one.endpoint in endpoints]


class World:
    """
    The world of one night. Each try of the task runs in it like a new process.

    :param settings: of the double of the service.
    :param timeout: response timeout of the client, in seconds.
    :param retries: repetitions of a request; None for the default of the connection.
    :param max_concurrency: requests in flight.
    :param extra: more fields of the connection's extra.
    """

    site_id = SITE

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        timeout: float = 30.0,
        retries: int | None = 2,
        max_concurrency: int = 4,
        **extra: Any,
    ) -> None:
        self.timeout = timeout
        self.elapsed = self.began = self.jumped = 0.0
        # The service has a separate clock.
        self.service = Service(settings or Settings(processing_seconds=0.0), clock=lambda: EPOCH + self.elapsed)
        self.allow()
        self.wire = SimulatedTransport(self)
        self.folder = Path(tempfile.mkdtemp(prefix="night-", dir=scratch()))
        self.most = 10_000.0
        self.attempt = CALM
        self.blocked = 0
        # Statements for each new connection to the ledger's database.
        self.pragmas: list[str] = []
        self.on_request: Callable[[int], None] = lambda _: None
        self.on_half: Callable[[int], None] = lambda _: None
        self._turns = _Turns()
        self._logged: list[str] = []
        # The log of the last try.
        self.logged: list[str] = []
        self._tasks: dict[int, Any] = {}
        self._dead: set[int] = set()
        self._terminated: set[int] = set()
        self._requests = self._statements = self._files = 0
        common = {"timeout": timeout, "chat_timeout": timeout, "max_concurrency": max_concurrency, **extra}
        if retries is not None:
            common["retries"] = retries
        self.connection = {
            "conn_type": "assistant",
            "host": f"http://{HOST}/api/v1",
            "password": SECRET,
            "extra": {"tenant_id": TENANT, "site_id": SITE, **common},
        }

    # -- what the service has ----------------------------------------------------------------------

    def stored(self, kind: type[Record]) -> list[Record]:
        """Return what the site has of a type, oldest first."""
        return self.service.store.all(kind, SITE)

    def allow(self, *sites: str) -> None:
        """Let the API key use more sites than the usual one."""
        self.service.keys[SECRET] = Key(SECRET, "night", TENANT, (SITE, *sites))

    def teach(self, *messages: str) -> None:
        """Give the site a document for each message, which is answered with it."""
        for number, message in enumerate(messages):
            now = self.service.clock()
            fields = {"question": message, "category": None, "bytes": 1, "created_at": now, "updated_at": now}
            document = Document(f"taught{number}", SITE, "qa", message, answer_to(message), activated_at=now, **fields)
            self.service.store.save(document)

    # -- time and processes ------------------------------------------------------------------------

    @property
    def process(self) -> int:
        """Return the number of the running process; 1 for another run at the same time."""
        return self._turns.number()

    def now(self) -> float:
        """Return the time of the machine's clock, in seconds since the epoch."""
        return EPOCH + self.elapsed + self.jumped

    def moment(self) -> datetime:
        """Return the time of the machine's clock."""
        return datetime.fromtimestamp(self.now(), UTC)

    def sleep(self, seconds: float) -> None:
        """Let time pass. The other process may use it."""
        self.elapsed = self._turns.sleep_until(self.elapsed + max(0.0, seconds), self.elapsed)

    def check_alive(self) -> None:
        """End what runs if its process was killed."""
        if self.process in self._dead:
            raise Killed

    def move(self, host: str, **extra: Any) -> None:
        """Change the base URL of the connection, and fields of its extra, from the next try on."""
        moved = {**self.connection, "host": host, "extra": {**self.connection["extra"], **extra}}
        os.environ["AIRFLOW_CONN_ASSISTANT_DEFAULT"] = json.dumps(moved)

    def tried(self, attempt: Try, execute: Callable[[dict[str, Any]], Any], **context: Any) -> Ended:
        """Run one try of a task in one process; see :meth:`all_tried`."""
        return self.all_tried(attempt, execute, **context)[0]

    def all_tried(
        self,
        attempt: Try,
        execute: Callable[[dict[str, Any]], Any],
        *,
        number: int = 1,
        runs: Sequence[str] = ("run",),
    ) -> list[Ended]:
        """
        Run one try of a task like a new process, and check what holds for every task.

        :param execute: executes the task with Airflow's context.
        :param number: number of the try, from 1.
        :param runs: id of the DAG run; a second one runs at the same time in another process.
        """
        self.attempt = attempt
        self._requests = self._statements = self._files = 0
        self._dead, self._terminated, self._tasks = set(), set(), {}
        self.jumped += attempt.later
        began = self.began = self.elapsed
        first = len(self.wire.journal)
        ends = [Ended() for _ in runs]

        def run(process: int) -> None:
            self._execute(ends[process], execute, self._context(ends[process], runs[process], number))
            if process in self._dead:
                ends[process].result, ends[process].error = None, Killed()
            ends[process].seconds = self.elapsed - began
            ends[process].task = self._tasks.get(process)
            ends[process].is_terminated = process in self._terminated

        self._turns.run([functools.partial(run, process) for process in range(len(runs))])
        self.attempt, self._dead = CALM, set()
        for process, ended in enumerate(ends):
            ended.sent = [sent for sent in self.wire.journal[first:] if sent.process == process]
            self._check(ended)
        return ends

    def _context(self, ended: Ended, run_id: str, number: int) -> dict[str, Any]:
        ti = SimpleNamespace(
            dag_id="dag",
            run_id=run_id,
            task_id="task",
            map_index=-1,
            try_number=number,
            max_tries=number if self.attempt.is_cleared else 0,
            xcom_push=lambda key, value: ended.xcom.update({key: value}),
        )
        run = SimpleNamespace(logical_date=datetime(2027, 1, 15, tzinfo=UTC), run_after=None, run_id=run_id)
        return {"ti": ti, "outlet_events": OutletEventAccessors(), "dag_run": run, "dag": None}

    @staticmethod
    def _execute(ended: Ended, execute: Callable[[dict[str, Any]], Any], context: dict[str, Any]) -> None:
        try:
            ended.result = execute(context)
        except BaseException as error:  # noqa: BLE001 (judged by the promises)
            ended.error = error

    def run(self, make: Callable[[], Any], context: dict[str, Any]) -> Any:
        """Execute a task, with a simulated triggerer each time that it defers, and return its result."""
        task, method, extra = make(), "execute", {}
        while True:
            self._tasks[self.process] = task
            try:
                return getattr(task, method)(context, **extra)
            except TaskDeferred as deferred:
                event = self._triggered(deferred)
                # Another process continues.
                task, method, extra = make(), deferred.method_name, {**(deferred.kwargs or {}), "event": event}

    def _triggered(self, deferred: Any) -> Any:
        kind, arguments = deferred.trigger.serialize()
        if "DateTimeTrigger" in kind:
            # Airflow's own trigger has the clock of the real machine.
            self.sleep(math.ceil((arguments["moment"] - datetime.now(UTC)).total_seconds()))
            return None
        began = self.elapsed
        for _ in range(2):
            again = type(deferred.trigger)(**json.loads(json.dumps(arguments)))
            try:
                with self.runner() as runner:
                    # Airflow ends a triggerer by SIGKILL only.
                    self._tasks.pop(self.process, None)
                    event = runner.run(anext(again.run()))
                timeout = deferred.timeout
                is_late = timeout is not None and self.elapsed - began > timeout.total_seconds()
                assert not is_late or self.attempt.jump, "the trigger reports in time"
                return json.loads(json.dumps(event.payload))
            except BaseException:
                if self.process not in self._dead:
                    raise
            # Another triggerer takes over.
            self._dead.discard(self.process)
            self.attempt = replace(self.attempt, end=None)
        raise AssertionError("a triggerer is killed once")

    def runner(self, **_: Any) -> asyncio.Runner:
        """Return a runner of coroutines on the clock of this world."""
        world = self

        class Loop(VirtualTimeLoop):
            def time(self) -> float:
                return world.elapsed

            def advance(self, seconds: float) -> None:
                world.sleep(seconds)

        return _Runner(loop_factory=Loop)

    # -- faults ------------------------------------------------------------------------------------

    def count_request(self) -> int:
        """Return the number of a request of this try, from 0."""
        number, self._requests = self._requests, self._requests + 1
        assert number < self.most, "the number of requests is bounded"
        return number

    def on_half_upload(self) -> None:
        """Let files change while one of them is sent."""
        self.on_half(self._requests)

    def interrupt(self, number: int, *, is_before: bool) -> None:
        """Do what the night says at a request, before or after the service has carried it out."""
        end, jump = self.attempt.end, self.attempt.jump
        if is_before:
            self.on_request(number)
            if jump and jump[0] == number:
                self.jumped += jump[1]
        if end is None or end.at != number or is_before != (end.how in {"killed before", "interrupted"}):
            return
        if end.how in {"killed", "killed before"}:
            self._dead.add(self.process)
            raise Killed
        if end.how == "interrupted":
            signal.raise_signal(signal.SIGINT)
        if end.how == "stopped":
            self.sleep(end.seconds)
        if end.how == "terminated" and self._tasks.get(self.process):
            self._terminated.add(self.process)
            self._tasks[self.process].on_kill()
        if end.how == "timed out" and self._tasks.get(self.process):
            self._expire()

    @staticmethod
    def _expire() -> None:
        """Raise Airflow's timeout, as its signal handler does: with a loop, in a callback, where it would be lost."""

        def expire() -> None:
            raise AirflowTaskTimeout("the task has timed out")

        try:
            asyncio.get_running_loop().call_soon(expire)
        except RuntimeError:
            expire()

    def _on_statement(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if connection.engine.url.database == str(self.folder / LEDGER) and self._count_statement():
            raise sa.exc.OperationalError(statement, {}, _locked())

    def _count_statement(self) -> LedgerAway | None:
        """Count a statement or commit of the ledger, and return the outage that makes it fail, or None."""
        self.check_alive()
        with contextlib.suppress(RuntimeError):
            is_single = len(self._turns) < 2
            self.blocked += bool(is_single and self.wire.in_flight and not in_executor())
        number, self._statements = self._statements, self._statements + 1
        away = self.attempt.ledger_away
        return away if away and _is_in(number, away) else None

    def commit(self, commit: Callable[[Any], None], connection: Any) -> None:
        """Commit a transaction of the ledger, unless the night says otherwise."""
        away = self._count_statement()
        if away is None or away.is_done:
            commit(connection)
        if away:
            raise _locked()

    def _open(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wxa+") or not str(file).startswith(str(self.folder)):
            return _open(file, mode, *arguments, **options)
        self.check_alive()
        full = self.attempt.disk_full
        number, self._files = self._files, self._files + 1
        if full and _is_in(number, full):
            return _FullDisk(file, mode, full.room)
        return _open(file, mode, *arguments, **options)

    # -- what is left ------------------------------------------------------------------------------

    def findings(self, pattern: str = "assistant_loads/**/*.parquet") -> list[dict[str, Any]]:
        """Return the findings in files; those of a killed try cannot be read."""
        rows: list[dict[str, Any]] = []
        for path in self.folder.glob(pattern):
            with contextlib.suppress(ValueError):
                rows += pq.ParquetFile(path).read().to_pylist()
        return rows

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return rows of the ledger's database."""
        with contextlib.closing(sqlite3.connect(self.folder / LEDGER)) as ledger:
            return ledger.execute(statement).fetchall()

    def _check(self, ended: Ended) -> None:
        """Check what holds for every try of every task."""
        error = ended.error
        if error is not None and not ended.is_killed:
            shown = "".join(traceback.format_exception(error))
            assert isinstance(error, (AssistantError, *AIRFLOWS)), shown
            assert str(error).strip(), "an error says something"
            assert SECRET not in shown, "no secret in an error"
            items = [one.item for one in ended.sent[-50:]] + [one.call.subject.split("'")[1] for one in ended.sent]
            names = [
                f"'{SITE}",
                HOST,
                TENANT,
                str(self.folder),
                "timed out",
                "row ",
                "rows ",
                "file ",
                *filter(None, items),
            ]
            is_named = any(name in str(error) or ascii(name)[1:-1] in ascii(str(error)) for name in names)
            is_refused = isinstance(error, AssistantInputError) and not ended.sent
            assert is_named or is_refused or ended.is_terminated, f"an error names the host or the item: {error}"
        # The report of a failure does not need megabytes.
        has_secret = SECRET in json.dumps([ended.result, ended.xcom], default=str)
        assert not has_secret, "no secret in XCom"
        has_secret = any(SECRET in line for line in self._logged)
        assert not has_secret, "no secret in the log"
        self.logged, self._logged[:] = [*self._logged], []
        for path in self.folder.rglob("*"):
            has_secret = path.is_file() and SECRET.encode() in path.read_bytes()
            assert not has_secret, f"no secret in {path.name}"

    @contextlib.contextmanager
    def entered(self) -> Iterator[World]:
        """Let the package use this world instead of the real one."""

        async def looked_up(hook: AssistantHook) -> Any:
            hook.settings = hook._read_settings()
            return hook.settings

        rng = random.Random(1)
        defaults = ClientDefaults(
            transport=lambda _: BlockingTransport(self.wire),
            async_transport=lambda _: self.wire,
            now=self.now,
            sleep=self.sleep,
            rng=lambda: rng,
        )
        # Functions with defaults: the clocks of the ledger.
        opened, recorded = Ledger.__init__, tries.recorded.__wrapped__  # type: ignore[attr-defined]
        shutil.copy(_empty_ledger(), self.folder / LEDGER)
        patches = [
            mock.patch.object(AssistantHook, "load_settings_async", looked_up),
            mock.patch.dict(opened.__kwdefaults__, {"ledger_clock": Clock(now=self.moment)}),
            mock.patch.dict(recorded.__kwdefaults__, {"now": self.moment}),
            mock.patch.dict("os.environ", {"AIRFLOW_CONN_ASSISTANT_DEFAULT": json.dumps(self.connection)}),
            mock.patch.object(airflow.configuration, "AIRFLOW_HOME", str(self.folder)),
            mock.patch.object(tenacity.nap, "time", SimpleNamespace(sleep=self.sleep)),
            mock.patch.object(location, "sqlite_engine", functools.partial(_engine, self)),
            mock.patch.object(asyncio, "Runner", self.runner),
            mock.patch.object(builtins, "open", self._open),
            mock.patch.object(io, "open", self._open),
            # So low that a few rows suffice for several writes of findings.
            mock.patch.object(findings, "FLUSH", 3),
            mock.patch.object(progress, "INTERVAL", 3600.0),
        ]
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            stack.callback(set_client_defaults, set_client_defaults(defaults))
            stack.enter_context(_collected(self._logged))
            sa.event.listen(sa.Engine, "before_cursor_execute", self._on_statement)
            stack.callback(sa.event.remove, sa.Engine, "before_cursor_execute", self._on_statement)
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            yield self


class _Turns:
    """Let several threads run one at a time: the one whose sleep ends first."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}
        self._turn = 0
        self._changed = threading.Condition()
        self._here = threading.local()

    def __len__(self) -> int:
        return len(self._ends)

    def number(self) -> int:
        return getattr(self._here, "number", 0)

    def sleep_until(self, end: float, now: float) -> float:
        """Return the time at the end of a sleep, while which the other thread may run."""
        me = self.number()
        if len(self._ends) < 2:
            return max(now, end)
        with self._changed:
            self._ends[me] = end
            self._pass_on()
            assert self._changed.wait_for(lambda: self._turn == me, timeout=300), "the other thread hangs"
        return end

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run works at the same time; the first of them in this thread."""
        if len(works) == 1:
            works[0]()
            return
        self._turn = 0
        self._ends = dict.fromkeys(range(len(works)), -1.0)
        threads = [threading.Thread(target=self._in_turn, args=(one, works[one])) for one in range(1, len(works))]
        for thread in threads:
            thread.start()
        self._in_turn(0, works[0])
        for thread in threads:
            thread.join()

    def _in_turn(self, me: int, work: Callable[[], None]) -> None:
        self._here.number = me
        with self._changed:
            self._changed.wait_for(lambda: self._turn == me)
        try:
            work()
        finally:
            with self._changed:
                del self._ends[me]
                self._pass_on()

    def _pass_on(self) -> None:
        self._turn = min(self._ends, key=lambda one: (self._ends[one], one), default=0)
        self._changed.notify_all()


class _FullDisk(io.FileIO):
    """A file on a disk that has room for some bytes."""

    def __init__(self, file: Any, mode: str, room: int) -> None:
        super().__init__(file, mode.replace("b", "").replace("t", ""))
        self._room = room

    def write(self, content: Any, /) -> int:
        content = bytes(content, "utf-8") if isinstance(content, str) else bytes(content)
        self._room -= len(content)
        if self._room >= 0:
            return super().write(content)
        super().write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


@contextlib.contextmanager
def _collected(lines: list[str]) -> Iterator[None]:
    """Collect what is logged, with its tracebacks, instead of showing it."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Handler()
    loggers = [logging.getLogger(name) for name in ("airflow_provider_assistant", "airflow.task")]
    states = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, (propagates, level) in zip(loggers, states, strict=True):
            logger.propagate = propagates
            logger.removeHandler(handler)
            logger.setLevel(level)


def answer_to(message: str) -> str:
    """Return the answer of a site that was taught a message."""
    return f"About {message}"


def _is_in(number: int, span: LedgerAway | DiskFull) -> bool:
    return span.first <= number < span.first + span.times


def _locked() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


LEDGER = "assistant_ledger.db"
_open = builtins.open
_Runner = asyncio.Runner
_sqlite_engine = location.sqlite_engine
# SQL takes longer to compile than to execute, and the key of a compiled statement contains the dialect.
_compiled: dict[Any, Any] = {}
_dialects: dict[str, Any] = {}


def _engine(world: World, path: Path) -> sa.Engine:
    new = _sqlite_engine(path)
    new.update_execution_options(compiled_cache=_compiled)
    if "sqlite" not in _dialects:
        _dialects["sqlite"], _dialects["commit"] = new.dialect, new.dialect.do_commit
    new.dialect = _dialects["sqlite"]
    for pragma in world.pragmas:
        sa.event.listen(new, "connect", lambda connection, _, pragma=pragma: connection.execute(pragma))
    new.dialect.do_commit = functools.partial(world.commit, _dialects["commit"])  # type: ignore[method-assign]
    return new


@functools.cache
def _empty_ledger() -> Path:
    """Return the file of an empty ledger, to be copied: creating its tables takes longer than a short night."""
    path = scratch() / "template.db"
    new = _sqlite_engine(path)
    Ledger(new).close()
    with contextlib.closing(sqlite3.connect(path)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@functools.cache
def scratch() -> Path:
    """Return a folder of this process, in memory if there is a file system in memory."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="nights-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# -- generation ----------------------------------------------------------------------------------


def rarely(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy that mostly gives None."""
    return st.one_of(st.none(), st.none(), st.none(), strategy)


JUMPS = st.sampled_from([1.0, -1.0, -30.0, 3_500.0, 4_000.0, -4_000.0, DAY, -DAY, 2_600_000.0, -2_600_000.0])
TIMES = st.one_of(st.integers(1, 12), st.integers(8, 30), st.just(math.inf))
FAULTS: dict[str, st.SearchStrategy[Any]] = {
    # A single call often ends with its first answer: without a list, all answers are the same.
    "answers": st.one_of(st.just(()), st.lists(OFTEN_WELL, min_size=1, max_size=12).map(tuple)),
    "then": THEN,
    "end": rarely(
        st.builds(End, st.integers(0, 20), st.sampled_from(["killed before", "killed", "terminated", "timed out"]))
    ),
    "ledger_away": rarely(
        st.builds(LedgerAway, st.one_of(st.integers(0, 60), st.integers(0, 12)), TIMES, st.booleans())
    ),
    "disk_full": rarely(
        st.builds(
            DiskFull, st.integers(0, 6), st.sampled_from([1, 3, 9, math.inf]), st.sampled_from([0, 3, 200, 1_000])
        )
    ),
    "jump": rarely(st.tuples(st.integers(0, 20), JUMPS)),
    "later": st.one_of(st.just(0.0), st.just(0.0), st.just(0.0), JUMPS),
}
TRIES = st.builds(Try, **FAULTS)
CLEARED = st.builds(Try, **FAULTS, is_cleared=st.sampled_from([False, False, True]))
BESIDE = st.sampled_from([False] * 5 + [True])
