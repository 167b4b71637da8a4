"""Benchmarks of metrics."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_assistant.ledger import Ledger
from tests.benchmarks import loads
from tests.benchmarks.measure import Figure, Size, alternated, ratio, rounded
from tests.benchmarks.service import Service


def metrics(service: Service, size: Size) -> list[Figure]:
    """Compare a load that sends metrics to StatsD with the same load without metrics."""
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    service.reset()
    source = loads.rows(size.rows(10_000))
    processor: dict[str, list[float]] = {"off": [], "on": []}

    def contestant(name: str, backend: Callable[[], Any], ledger: Ledger) -> Callable[[], float]:
        def load() -> float:
            with _sending_to(backend):
                before = time.process_time()
                rate = loads.rate(source, service, ledger)
                processor[name].append(len(source) / (time.process_time() - before))
            return rate

        return load

    with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger, _statsd() as statsd:
        contestants = {"off": contestant("off", NoStatsLogger, ledger), "on": contestant("on", statsd, ledger)}
        rates = alternated(contestants, size.rounds)
    return [
        Figure("StatsD: throughput that it costs", _cost(rates), 3.0, at_most=True, unit="%", samples=rounded(rates)),
        Figure("StatsD: rows per processor second that it costs", _cost(processor), 3.0, at_most=True, unit="%"),
    ]


def _cost(rates: dict[str, list[float]]) -> float:
    return 100 * (1 - ratio(rates, "on", "off"))


@contextlib.contextmanager
def _sending_to(backend: Callable[[], Any]) -> Iterator[None]:
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk.observability import stats

    stats.initialize(factory=backend, export_legacy_names=True)
    try:
        yield
    finally:
        stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


@contextlib.contextmanager
def _statsd() -> Iterator[Callable[[], Any]]:
    """Open a UDP port that discards packets, and configure Airflow's StatsD client for it."""
    from airflow.sdk._shared.observability.metrics.statsd_logger import get_statsd_logger
    from statsd import StatsClient

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        host, port = sink.getsockname()
        made = partial(get_statsd_logger, stats_class=StatsClient, host=host, port=port, prefix="airflow")
        yield partial(made, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {"metrics": metrics}
