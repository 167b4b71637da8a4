"""One try of a load, or of two concurrent loads, on a virtual clock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, TypeAlias
from unittest import mock

import pyarrow.parquet as pq

from airflow_provider_assistant.ledger import DocumentScope, LeaseSettings, Ledger, RunRef
from airflow_provider_assistant.loading import engine, findings, report
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.load_client import TrackingLimiter
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import Rows
from tests.adversary.load_faults import Clock, Faults, Interruption, NightLedger
from tests.adversary.service import WELL, Answer, Client, Killed, Service
from tests.sites import site_at
from tests.virtual_time import every, now, simulated

# Opens the source of one load.
Opened: TypeAlias = Callable[[], contextlib.AbstractContextManager[Rows]]
# Number of findings per write: low, so that a few rows suffice for a full disk in the middle of a load.
FLUSH = 3
# Number of rows per lookup: low, so that lookups occur while requests are in flight.
LOOK_AHEAD = 5
LOGGER = logging.getLogger("airflow_provider_assistant")


@dataclass(frozen=True)
class Options:
    """
    Options of a load.

    :param max_concurrency: Maximum number of requests in flight.
    :param retries: Maximum number of retries per request.
    :param max_backoff: Longest pause after a 429, in seconds.
    :param timeout: Response timeout of the client, in seconds.
    :param on_ambiguous: What to do with ambiguous rows.
    :param ledger: Whether the load uses a ledger.
    """

    max_concurrency: int = 4
    retries: int = 2
    max_backoff: float = 60.0
    timeout: float = 30.0
    on_ambiguous: Literal["retry", "skip", "fail"] = "retry"
    ledger: bool = True


@dataclass(frozen=True)
class Weather:
    """
    The faults of one try.

    :param answers: Responses to the first requests.
    :param then: Response to all later requests.
    :param interruptions: Interruptions of the load.
    """

    answers: tuple[Answer, ...] = ()
    then: Answer = WELL
    interruptions: tuple[Interruption, ...] = ()

    @property
    def odd(self) -> list[Answer]:
        """The responses that differ from those of a working service."""
        return [answer for answer in (*self.answers, self.then) if answer != WELL]


@dataclass
class FinishedRequest:
    """The result of a load."""

    counts: LoadCounts = field(default_factory=LoadCounts)
    error: BaseException | None = None
    findings: list[dict[str, object]] = field(default_factory=list)


@dataclass
class Tried:
    """The result of a try: its service, its loads and its log messages."""

    service: Service
    faults: Faults
    ended: list[FinishedRequest]
    seconds: float = 0.0
    messages: list[str] = field(default_factory=list)


def tried(
    weather: Weather,
    loads: Sequence[tuple[RunRef, Opened]],
    options: Options,
    *,
    ledger: NightLedger,
    clock: Clock,
    folder: Path,
    most: float,
    on_half: Callable[[int], None] = lambda _: None,
) -> Tried:
    """
    Run the loads of one try concurrently, and return their results.

    :param weather: Faults during the try.
    :param loads: Task instance and source of each load.
    :param options: Options of the loads.
    :param ledger: Ledger that the loads share.
    :param clock: Simulated system clock.
    :param folder: Folder of the findings.
    :param most: Maximum number of requests of all loads together.
    :param on_half: Called with the number of every upload once half of its content has arrived.
    """
    paths = [folder / f"findings-{number}.parquet" for number in range(len(loads))]
    for path in paths:
        path.unlink(missing_ok=True)
    faults = ledger.faults = Faults(weather.interruptions, clock)
    service = Service(
        weather.answers, weather.then, options.timeout, most, faults.on_request, on_half, faults.check_alive
    )
    if len(loads) == 1:
        faults.in_flight = lambda: service.in_flight
    result = Tried(service, faults, [FinishedRequest() for _ in loads])

    async def main() -> float:
        running = [
            _load(run, opened, options, ended, result, ledger, clock, path)
            for (run, opened), ended, path in zip(loads, result.ended, paths, strict=True)
        ]
        await asyncio.gather(*running)
        return now()

    with _quiet(result.messages):
        result.seconds = simulated(main())
    clock.advance(result.seconds)
    for path, ended in zip(paths, result.ended, strict=True):
        if path.exists() and not faults.is_killed:
            ended.findings = pq.ParquetFile(path).read().to_pylist()
    return result


async def _load(
    run: RunRef,
    opened: Opened,
    options: Options,
    ended: FinishedRequest,
    result: Tried,
    night_ledger: NightLedger,
    clock: Clock,
    path: Path,
) -> None:
    """Run a load like an operator does."""
    try:
        with contextlib.ExitStack() as stack:
            rows = stack.enter_context(opened())
            memory = None
            if options.ledger:
                leases = LeaseSettings(now=clock.datetime, every=every)
                ledger = Ledger(night_ledger.engine, now=clock.datetime, leases=leases)
                names = {"scope": DocumentScope(site_at("s", "site"), "documents/qa"), "source": "source", "run": run}
                record = stack.enter_context(ledger.load(**names))
                memory = stack.enter_context(ledger.documents(**names))
            listed = stack.enter_context(FindingsFile(result.faults.findings_path(path), always=False))
            load_options = LoadOptions(options.max_concurrency, options.max_backoff, options.on_ambiguous)
            client = Client(
                result.service,
                options.retries,
                load_options,
                limiter=TrackingLimiter(options.max_concurrency, now=now),
                now=clock.now,
                rng=random.Random(0),
            )
            load = Load(client, rows, load_options, ledger=memory, findings=listed)
            ended.counts = load.counts
            result.faults.end = load.cancel
            try:
                await load.run()
            finally:
                if options.ledger:
                    record.counts = load.counts.as_dict()
    except (Exception, Killed) as error:  # noqa: BLE001 (judged by the promises)
        ended.error = error
    if result.faults.is_killed:
        ended.error = Killed()


@contextlib.contextmanager
def _quiet(messages: list[str]) -> Iterator[None]:
    """Collect the log messages, and remove the waits between the ledger's retries."""

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            if record.exc_info and record.exc_info[1]:
                messages.append(str(record.exc_info[1]))

    collector, before = Collector(), (LOGGER.propagate, LOGGER.level)
    LOGGER.addHandler(collector)
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)
    no_time = SimpleNamespace(sleep=lambda _: None)
    try:
        with (
            mock.patch("tenacity.nap.time", no_time),
            mock.patch.object(findings, "FLUSH", FLUSH),
            mock.patch.object(report, "PROGRESS", 3600.0),
            mock.patch.object(engine, "LOOK_AHEAD", LOOK_AHEAD),
        ):
            yield
    finally:
        LOGGER.propagate, level = before
        LOGGER.setLevel(level)
        LOGGER.removeHandler(collector)
