"""Benchmark of the lake: reading a year."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa

from airflow_provider_assistant.lake.datasets import STATISTICS
from airflow_provider_assistant.lake.files import write
from airflow_provider_assistant.lake.rows import reply_table, values_of, with_digits
from tests.benchmarks.measure import Figure, Size, alternated, ratio
from tests.benchmarks.service import METRICS, Service, statistics

DAY = date(2026, 1, 1)
QUERY = """
SELECT site_id, metric, avg(value) AS average, max(value) AS most
FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
WHERE type = 'number'
GROUP BY ALL
"""


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
        tables = []
        for site in range(sites):
            origin = {"captured_at": now, "service": "h.example", "site_id": f"site-{site:04}"}
            tables.append(reply_table(STATISTICS, reply, origin))
        write(pa.concat_tables(tables), folder, "statistics", now.date(), ("bench",), {})


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
    numbers = sum(value.type == "number" for value in values_of(with_digits(json.dumps(statistics()))))
    if rows != sites * numbers:
        raise RuntimeError(f"{rows} averages, not {numbers} of each of {sites} sites")


def lake_(service: Service, size: Size) -> list[Figure]:
    """Read 365 days x 100 sites in one statement."""
    return year(service, size)


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {"lake": lake_}
