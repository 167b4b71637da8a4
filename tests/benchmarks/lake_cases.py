"""Benchmarks of the lake: writing a night and reading a year."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_assistant import lake
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.benchmarks.batches import CONCURRENCY, CONNECTION, connection
from tests.benchmarks.measure import Figure, Size, alternated, ratio, rounded
from tests.benchmarks.posts import HEADERS
from tests.benchmarks.service import METRICS, Service, statistics
from tests.task_runs.context import task_context

DAY = date(2026, 1, 1)
QUERY = """
SELECT site_id, metric, avg(value) AS average, max(value) AS most
FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
WHERE type = 'number'
GROUP BY ALL
"""


def night(service: Service, size: Size) -> list[Figure]:
    """Export 1,000 sites with 200 metrics each: the operator, which also writes the raw replies, and a script."""
    service.reset()
    sites = [f"site-{number:04}" for number in range(size.rows(1_000))]
    os.environ[CONNECTION] = connection(service)
    with tempfile.TemporaryDirectory() as folder:
        root, file = str(Path(folder, "lake")), Path(folder, "script.parquet")
        # Import first, so that no contestant pays for it.
        _operator(sites[:50], root)
        rates = alternated(
            {"operator": partial(_operator, sites, root), "script": partial(_script, service, sites, file)}, size.rounds
        )
    return [
        Figure("operator: sites per second", median(rates["operator"]), unit="/s"),
        Figure("to a bare script", ratio(rates, "operator", "script"), 0.85, samples=rounded(rates)),
    ]


def _operator(sites: list[str], root: str) -> float:
    operator = AssistantStatisticsToParquetOperator(
        task_id="statistics", output_path=root, site_ids=sites, date=DAY.isoformat()
    )
    context = task_context("statistics", moment=datetime(2026, 1, 1, tzinfo=UTC))
    started = time.perf_counter()
    result = operator.execute(context)
    seconds = time.perf_counter() - started
    _check(result["rows"], len(sites))
    return len(sites) / seconds


def _script(service: Service, sites: Sequence[str], path: Path) -> float:
    """Read with one worker per request in flight, and write the same table once."""
    import aiohttp
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = lake.STATISTICS.schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    about = {"service": urlsplit(service.root).netloc}

    async def read() -> None:
        waiting = iter(sites)
        async with aiohttp.ClientSession(headers=HEADERS, connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:

            async def work() -> None:
                for site in waiting:
                    async with session.get(service.statistics(site)) as answer:
                        answer.raise_for_status()
                        reply = await answer.json()
                    leaves = list(_leaves("", reply))
                    found = {**about, "captured_at": datetime.now(UTC), "site_id": site, "period": reply["period"]}
                    of_metrics = dict(zip(("metric", "value", "text", "type"), zip(*leaves, strict=True), strict=True))
                    for name, values in columns.items():
                        values.extend(of_metrics.get(name) or [found.get(name)] * len(leaves))

            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))

    started = time.perf_counter()
    asyncio.run(read())
    table = pa.table(columns, schema=schema).sort_by([("site_id", "ascending"), ("metric", "ascending")])
    pq.write_table(table, path, compression="zstd")
    seconds = time.perf_counter() - started
    _check(table.num_rows, len(sites))
    return len(sites) / seconds


def _leaves(path: str, value: Any) -> Iterator[tuple[str, float | None, str, str]]:
    """Yield the values of a reply of known structure."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, str):
        yield path, None, value, "string"
    else:
        yield path, value, str(value), "number"


def _check(rows: int, sites: int) -> None:
    if rows != sites * METRICS:
        raise RuntimeError(f"{rows} rows, not {METRICS} of each of {sites} sites")


def year(_: Service, size: Size) -> list[Figure]:
    """Read 365 days of 100 sites with 200 metrics each in one statement."""
    days, sites = max(2, int(365 * size.share)), max(2, int(100 * size.share))
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, days, sites)
        seconds = alternated(
            {"duckdb": partial(_duckdb, folder, sites), "pyarrow": partial(_pyarrow, folder, sites)}, size.rounds
        )
    return [
        Figure(
            f"{days * sites * METRICS:,} rows in {days} files, DuckDB: seconds",
            median(seconds["duckdb"]),
            unit="s",
            samples={name: [round(one, 3) for one in some] for name, some in seconds.items()},
        ),
        Figure("DuckDB's seconds to pyarrow's for the same", ratio(seconds, "duckdb", "pyarrow")),
    ]


def _write(folder: str, days: int, sites: int) -> None:
    reply = json.dumps(statistics())
    for number in range(days):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        captures = [lake.Capture(now, reply, site_id=f"site-{site:04}", service="h.example") for site in range(sites)]
        lake.publish(
            lake.metrics_table(lake.STATISTICS, captures), folder, "statistics", now.date(), "bench.statistics"
        )


def _duckdb(folder: str, sites: int) -> float:
    import duckdb

    with duckdb.connect() as database:
        started = time.perf_counter()
        rows = database.execute(QUERY.format(folder=Path(folder, "statistics"))).fetchall()
        seconds = time.perf_counter() - started
    _check_averages(len(rows), sites)
    return seconds


def _pyarrow(folder: str, sites: int) -> float:
    import pyarrow.dataset as ds

    started = time.perf_counter()
    dataset = ds.dataset(Path(folder, "statistics"), partitioning="hive")
    table = dataset.to_table(columns=["site_id", "metric", "value"], filter=ds.field("type") == "number")
    found = table.group_by(["site_id", "metric"]).aggregate([("value", "mean"), ("value", "max")])
    seconds = time.perf_counter() - started
    _check_averages(found.num_rows, sites)
    return seconds


def _check_averages(rows: int, sites: int) -> None:
    numbers = sum(kind == "number" for *_, kind in lake.flatten(statistics()))
    if rows != sites * numbers:
        raise RuntimeError(f"{rows} averages, not {numbers} of each of {sites} sites")


def lake_(service: Service, size: Size) -> list[Figure]:
    """Write 1,000 sites x 200 metrics in one task, and read 365 days x 100 sites in one statement."""
    return [*night(service, size), *year(service, size)]


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {"lake": lake_}
