"""The simulated environment of a night: service, clock, disk and ledger, with the faults of the night."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import errno
import io
import json
import logging
import os
import random
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import airflow.configuration
import sqlalchemy as sa
import tenacity.nap
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.defaults import ClientDefaults, set_client_defaults
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import LeaseSettings, Ledger, location
from airflow_provider_assistant.operators import chat_batch, submit_chat
from tests.adversary.front import Front
from tests.adversary.load_faults import scratch
from tests.adversary.request_service import HOST, SITE, TENANT, Answer, Entry, Service, Try
from tests.adversary.service import SECRET
from tests.virtual_time import VirtualTimeLoop, every

EPOCH = 1.8e9
# Exceptions of Airflow itself; all others must be AssistantErrors.
AIRFLOWS = (AirflowSkipException, AirflowFailException, AirflowSensorTimeout)


class Killed(BaseException):
    """The process was killed."""


@dataclass
class FinishedRequest:
    """
    The result of a try.

    :param result: Return value of the task.
    :param error: Error of the task, or None.
    :param seconds: Duration in virtual time, without the jumps of the clock.
    :param entries: Requests that the service received.
    :param xcom: Values that were pushed to XCom.
    """

    result: Any
    error: BaseException | None
    seconds: float
    entries: list[Entry]
    xcom: dict[str, Any]

    @property
    def is_killed(self) -> bool:
        """Whether the process was killed."""
        return isinstance(self.error, Killed)

    def sent(self, endpoint: str) -> list[Entry]:
        """Return the requests to one endpoint."""
        return [entry for entry in self.entries if entry.endpoint == endpoint]


class World:
    """
    The simulated environment of one night.

    :param service: The service.
    :param timeout: Response timeout of the client, in seconds.
    :param retries: Maximum number of retries per request; None for the default of the connection.
    :param max_concurrency: Maximum number of requests in flight.
    :param front: What stands between the client and the service, or None.
    """

    def __init__(
        self,
        service: Service,
        *,
        timeout: float = 30.0,
        retries: int | None = 2,
        max_concurrency: int = 4,
        front: Front | None = None,
    ) -> None:
        self.service = service
        self.timeout = timeout
        self.front = front
        self.elapsed = self._began = 0.0
        self.jumped = 0.0
        self.folder = Path(tempfile.mkdtemp(prefix="night-", dir=scratch()))
        self.logged: list[str] = []
        self.most = 10_000.0
        self._try = Try()
        self._requests = self._statements = self._files = 0
        self._is_dead = False
        self._connection = json.dumps(
            {
                "conn_type": "assistant",
                "host": f"http://{HOST}/api/v1",
                "password": SECRET,
                "extra": {
                    "tenant_id": TENANT, "site_id": SITE, "timeout": timeout, "chat_timeout": timeout,
                    "max_concurrency": max_concurrency, **({} if retries is None else {"retries": retries}),
                },
            }
        )  # fmt: skip

    def move(self, host: str, **extra: Any) -> None:
        """Change the base URL of the connection, and fields of its extra, from the next try on."""
        connection = json.loads(self._connection)
        connection["host"] = host
        connection["extra"] |= extra
        os.environ["AIRFLOW_CONN_ASSISTANT_DEFAULT"] = json.dumps(connection)

    def now(self) -> float:
        """Return the seconds since the epoch of the simulated wall clock."""
        return EPOCH + self.elapsed + self.jumped

    def sleep(self, seconds: float) -> None:
        """Advance the virtual time."""
        self.elapsed += seconds

    def tried(
        self, attempt: Try, execute: Callable[[dict[str, Any]], Any], *, number: int, is_clear: bool = False
    ) -> FinishedRequest:
        """
        Run one try of a task, like a new process.

        :param attempt: Faults during the try.
        :param execute: Runs the task with Airflow's context.
        :param number: Number of the try, from 1.
        :param is_clear: Whether the task was cleared before, instead of retried.
        """
        self._try = attempt
        self._requests = self._statements = self._files = 0
        self._is_dead = False
        began = self._began = self.elapsed
        first = len(self.service.journal)
        xcom: dict[str, Any] = {}
        ti = SimpleNamespace(
            dag_id="dag", run_id="run", task_id="task", map_index=-1, try_number=number,
            max_tries=number if is_clear else 0, xcom_push=lambda key, value: xcom.update({key: value}),
        )  # fmt: skip
        run = SimpleNamespace(logical_date=datetime(2027, 1, 15, tzinfo=UTC), run_after=None)
        result = error = None
        try:
            result = execute({"ti": ti, "outlet_events": OutletEventAccessors(), "dag_run": run})
        except BaseException as raised:  # noqa: BLE001 (judged by the promises)
            error = raised
        if self._is_dead:
            result, error = None, Killed()
        self._try = Try()
        self._is_dead = False
        ended = FinishedRequest(result, error, self.elapsed - began, self.service.journal[first:], xcom)
        self._check(ended)
        return ended

    def _check(self, ended: FinishedRequest) -> None:
        """Check the promises of all operations after a try."""
        error = ended.error
        if error is not None and not ended.is_killed:
            told = "".join(traceback.format_exception(error))
            assert isinstance(error, (AssistantError, *AIRFLOWS)), told
            assert str(error).strip(), "an error says something"
            assert SECRET not in told, "no secret in an error"
            names: tuple[str, ...] = (
                f"'{SITE}",
                HOST,
                TENANT,
                str(self.folder),
                *(entry.item for entry in ended.entries[-50:] if entry.item),
            )
            if self.front and self.front.sent:
                names += tuple(one.call.subject.split("'")[1] for one in self.front.sent)
            assert any(ascii(name)[1:-1] in ascii(str(error)) or name in str(error) for name in names), (
                f"an error names the host or the item: {error}"
            )
        # Keep texts of megabytes out of the report of a failure.
        xcom_has_secret = SECRET in json.dumps([ended.result, ended.xcom])
        assert not xcom_has_secret, "no secret in XCom"
        log_has_secret = any(SECRET in line for line in self.logged)
        assert not log_has_secret, "no secret in the log"
        self.logged.clear()
        for path in self.folder.rglob("*"):
            file_has_secret = path.is_file() and SECRET.encode() in path.read_bytes()
            assert not file_has_secret, f"no secret in {path.name}"

    # -- deferral ----------------------------------------------------------------------------------

    def executed(self, make: Callable[[], Any], context: dict[str, Any]) -> Any:
        """Execute a task, with a simulated triggerer if it defers, and return its result."""
        task, method, extra = make(), "execute", {}
        while True:
            try:
                return getattr(task, method)(context, **extra)
            except TaskDeferred as deferred:
                began = self.elapsed
                event = self._triggered(deferred.trigger)
                timeout = deferred.timeout
                assert timeout is None or self._try.jump or self.elapsed - began <= timeout.total_seconds(), (
                    "the trigger reports in time"
                )
                # Another process continues.
                task, method, extra = make(), deferred.method_name, {**(deferred.kwargs or {}), "event": event}

    def _triggered(self, trigger: Any) -> Any:
        _, arguments = trigger.serialize()
        for _ in range(2):
            again = type(trigger)(**json.loads(json.dumps(arguments)))
            try:
                with self.runner() as runner:
                    event = runner.run(anext(again.run()))
                return json.loads(json.dumps(event.payload))
            except BaseException:
                if not self._is_dead:
                    raise
            # Another triggerer takes over.
            self._is_dead = False
            self._try = Try(**{**vars(self._try), "killed_at": None})
        raise AssertionError("a triggerer is killed once")

    # -- what fails --------------------------------------------------------------------------------

    def runner(self) -> asyncio.Runner:
        """Return a runner of coroutines on the virtual clock."""
        world = self

        class Loop(VirtualTimeLoop):
            @property
            def _now(self) -> float:
                return world.elapsed

            @_now.setter
            def _now(self, seconds: float) -> None:
                world.elapsed = max(world.elapsed, seconds)

        return _Runner(loop_factory=Loop)

    def receive(self, call: Call[Any]) -> tuple[float, Callable[[], Response | TransportFailure]]:
        """Handle a request; return the duration until the response, and a function that returns the response."""
        if self._is_dead:
            raise Killed
        number, self._requests = self._requests, self._requests + 1
        assert number < self.most, "the number of requests is bounded"
        if self._try.jump and self._try.jump[0] == number:
            self.jumped += self._try.jump[1]
        answers = self._try.answers
        answer = answers[number] if number < len(answers) else self._try.then

        def passed_on() -> Response | TransportFailure:
            status, body = self.service.receive(call, answer, self.elapsed, self.timeout)
            return self._outcome(answer, status, body)

        if self.front:
            since = self.elapsed - self._began
            seconds, outcome = self.front.receive(call, since, answer.latency, self.timeout, passed_on)
            return seconds, lambda: outcome
        status, body = self.service.receive(call, answer, self.elapsed, self.timeout)
        if number == self._try.killed_at:
            self._is_dead = True
            raise Killed
        return min(answer.latency, self.timeout), lambda: self._outcome(answer, status, body)

    def _outcome(self, answer: Answer, status: int, body: bytes) -> Response | TransportFailure:
        if self._is_dead:
            raise Killed
        if answer.refuses:
            return TransportFailure("connection", "refused", sent=False, host=HOST)
        if answer.status == 0:
            return TransportFailure("connection", "broken off", sent=True, host=HOST)
        if answer.latency >= self.timeout:
            return TransportFailure("timeout", f"no answer within {self.timeout:g} s", sent=True, host=HOST)
        headers = {"x-request-id": f"x-{SECRET}"}
        if answer.retry_after is not None:
            headers["retry-after"] = answer.retry_after
        return Response(status, headers, body)

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self._is_dead:
            raise Killed
        number, self._statements = self._statements, self._statements + 1
        if _is_in(number, self._try.ledger_away):
            locked = sqlite3.OperationalError("database is locked")
            locked.sqlite_errorcode = 5
            raise sa.exc.OperationalError(statement, {}, locked)

    def _open(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wxa+") or not str(file).startswith(str(self.folder)):
            return _open(file, mode, *arguments, **options)
        if self._is_dead:
            raise Killed
        number, self._files = self._files, self._files + 1
        return (
            _FullDisk(file, mode) if _is_in(number, self._try.disk_full) else _open(file, mode, *arguments, **options)
        )

    @contextlib.contextmanager
    def entered(self) -> Iterator[World]:
        """Patch the package to use this environment."""

        async def looked_up(hook: AssistantHook) -> Any:
            hook.settings = hook._read_settings()
            return hook.settings

        rng = random.Random(1)
        defaults = ClientDefaults(
            transport=lambda _: _Wire(self), async_transport=lambda _: _AsyncWire(self), now=self.now,
            sleep=self.sleep, rng=lambda: rng,
        )  # fmt: skip

        def moment() -> datetime:
            return datetime.fromtimestamp(self.now(), UTC)

        clocks = {"now": moment, "leases": LeaseSettings(now=moment, every=every)}
        shutil.copy(_empty_ledger(), self.folder / "assistant_ledger.db")
        handler = _Handler(self.logged)
        loggers = [logging.getLogger(name) for name in ("airflow_provider_assistant", "airflow.task")]
        with contextlib.ExitStack() as stack:
            for patch in (
                mock.patch.object(AssistantHook, "load_settings_async", looked_up),
                mock.patch.dict(Ledger.__init__.__kwdefaults__, clocks),
                mock.patch.dict("os.environ", {"AIRFLOW_CONN_ASSISTANT_DEFAULT": self._connection}),
                mock.patch.object(airflow.configuration, "AIRFLOW_HOME", str(self.folder)),
                mock.patch.object(tenacity.nap, "time", SimpleNamespace(sleep=self.sleep)),
                mock.patch.object(chat_batch, "time", SimpleNamespace(time=self.now)),
                mock.patch.object(submit_chat, "time", SimpleNamespace(time=self.now)),
                mock.patch.object(location, "sqlite_engine", _engine),
                mock.patch.object(asyncio, "Runner", self.runner),
                mock.patch.object(builtins, "open", self._open),
                mock.patch.object(io, "open", self._open),
            ):
                stack.enter_context(patch)
            stack.callback(set_client_defaults, set_client_defaults(defaults))
            for logger in loggers:
                stack.callback(logger.setLevel, logger.level)
                stack.callback(setattr, logger, "propagate", logger.propagate)
                stack.callback(logger.removeHandler, handler)
                logger.propagate = False
                logger.addHandler(handler)
                logger.setLevel(logging.INFO)
            sa.event.listen(sa.Engine, "before_cursor_execute", self._statement)
            stack.callback(sa.event.remove, sa.Engine, "before_cursor_execute", self._statement)
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            yield self


class _Wire(Transport):
    def __init__(self, world: World) -> None:
        self._world = world

    def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        seconds, outcome = self._world.receive(call)
        self._world.sleep(seconds)
        return outcome()


class _AsyncWire(AsyncTransport):
    def __init__(self, world: World) -> None:
        self._world = world

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        seconds, outcome = self._world.receive(call)
        await asyncio.sleep(seconds)
        return outcome()


class _FullDisk(io.FileIO):
    """A file on a full disk: only half of each write succeeds."""

    def write(self, content: Any, /) -> int:
        super().write(bytes(content)[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


class _Handler(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Collect log messages."""
        self._lines.append(self.format(record))


def _is_in(number: int, span: tuple[int, float] | None) -> bool:
    return span is not None and span[0] <= number < span[0] + span[1]


_open = builtins.open
_Runner = asyncio.Runner
_sqlite_engine = location.sqlite_engine
# SQL takes longer to compile than to execute.
_compiled: dict[Any, Any] = {}
_dialects: dict[str, Any] = {}
_templates: list[Path] = []


def _engine(path: Path) -> sa.Engine:
    engine = _sqlite_engine(path)
    engine.update_execution_options(compiled_cache=_compiled)
    # The key of the cache contains the dialect.
    engine.dialect = _dialects.setdefault("sqlite", engine.dialect)
    return engine


def _empty_ledger() -> Path:
    """Return the file of an empty ledger, which is created once."""
    if not _templates:
        path = Path(tempfile.mkdtemp(prefix="night-", dir=scratch())) / "ledger.db"
        Ledger(_sqlite_engine(path)).close()
        _templates.append(path)
    return _templates[0]
