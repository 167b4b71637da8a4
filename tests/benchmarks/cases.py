"""The benchmarks. Each returns its figures with their goals."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from airflow_provider_assistant.ledger import Claim, Ledger, Outcome
from airflow_provider_assistant.parsing.pages import Note
from tests.benchmarks import batch_cases, evaluations, lake_cases, loads, posts
from tests.benchmarks.measure import Figure, Size, alternated, ratio, rounded, worked
from tests.benchmarks.service import Service
from tests.imports import import_seconds
from tests.live.postgres import PostgresServer, programs

LIMIT = 300.0


def local(service: Service, size: Size) -> list[Figure]:
    """Load into a service without latency, which measures the cost of the engine."""
    url, source = service.documents, loads.rows(size.rows(10_000))
    few, some, many = (loads.bodies(size.rows(full)) for full in (600, 2_000, 10_000))
    service.reset()
    with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger:
        rates = alternated(
            {
                "bare": partial(posts.bare_aiohttp, url, many, 32),
                "load": partial(loads.rate, source, service, ledger),
                "httpx": partial(posts.httpx_gather, url, few),
                "threads": partial(posts.requests_threads, url, some, 32),
                "loop": partial(posts.requests_loop, url, some),
            },
            size.rounds,
        )
    samples = rounded(rates)
    return [
        Figure("load: rows per second, validation, hash and SQLite ledger on", median(rates["load"]), unit="rows/s"),
        Figure("to a bare aiohttp loop", ratio(rates, "load", "bare"), samples=samples),
        Figure("to httpx.AsyncClient and gather", ratio(rates, "load", "httpx"), 6.0),
        Figure("to 32 threads with requests", ratio(rates, "load", "threads"), 5.0),
        Figure("to a loop over requests.Session", ratio(rates, "load", "loop"), 8.0),
    ]


def latency(service: Service, size: Size) -> list[Figure]:
    """Load into a service that takes 50 ms per reply."""
    service.reset(delay=0.05)
    url, source, less = service.documents, loads.rows(size.rows(6_000)), loads.rows(size.rows(600))
    many, few = loads.bodies(len(source)), loads.bodies(size.rows(1_000))
    with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger:
        rates = alternated(
            {
                "bare 100": partial(posts.bare_aiohttp, url, many, 100),
                "load 100": partial(loads.rate, source, service, ledger, concurrency=100),
                "load 10": partial(loads.rate, less, service, ledger, concurrency=10),
                "httpx 100": partial(posts.httpx_gather, url, few),
            },
            min(3, size.rounds),
        )
    service.reset()
    return [
        Figure("100 at a time, to bare aiohttp", ratio(rates, "load 100", "bare 100"), 0.9, samples=rounded(rates)),
        Figure("100 at a time, to itself with 10", ratio(rates, "load 100", "load 10"), 7.0),
        Figure(
            "100 at a time, to httpx.AsyncClient and gather over its 100 connections",
            ratio(rates, "load 100", "httpx 100"),
            6.0,
        ),
    ]


def hosted(service: Service, size: Size) -> list[Figure]:
    """Load into a service that takes 100 ms per reply, as a hosted assistant does."""
    figures = []
    for concurrency in (8, 32):
        service.reset(delay=0.1)
        source = loads.rows(size.rows(50 * concurrency))
        bodies = loads.bodies(len(source))
        with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger:
            rates = alternated(
                {
                    "bare": partial(posts.bare_aiohttp, service.documents, bodies, concurrency),
                    "load": partial(loads.rate, source, service, ledger, concurrency=concurrency),
                },
                min(3, size.rounds),
            )
        name = f"{concurrency} at a time, to a bare aiohttp loop"
        figures.append(Figure(name, ratio(rates, "load", "bare"), 0.97, samples=rounded(rates)))
    service.reset()
    return figures


def limits(service: Service, size: Size) -> list[Figure]:
    """Load into a service that admits 300 requests per second, with a bucket of one second or of 20 requests."""
    second = _limited(service, size.seconds, bucket=LIMIT, loaders=1)
    small = _limited(service, size.seconds, bucket=20.0, loaders=1)
    # How loaders share the rate depends on which one gets the first 429.
    four = [_limited(service, size.seconds, bucket=LIMIT, loaders=4) for _ in range(min(3, size.rounds))]
    return [
        Figure("bucket of 300: share of the limit", second["share"], 0.95, samples=second),
        Figure("bucket of 300: answers that were 429", 100 * second["refused"], 2.0, at_most=True, unit="%"),
        Figure("bucket of 20: share of the limit", small["share"], 0.85, samples=small),
        Figure(
            "four loaders: share of the limit together",
            median(one["share"] for one in four),
            0.9,
            samples={"runs": four},
        ),
        Figure("four loaders: the slowest to the fastest", median(one["fairness"] for one in four), 0.5),
    ]


def _limited(service: Service, seconds: float, *, bucket: float, loaders: int) -> dict[str, Any]:
    """Load for the given seconds, and return the share of the rate. A full bucket at the start may raise it above 1."""
    command = [sys.executable, "-m", "tests.benchmarks.worker", "share", service.root]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, f"loader-{number}", str(seconds + 2), "32"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
            for number in range(loaders)
        ]
        for process in processes:
            while "ready" not in process.stdout.readline():
                pass
        service.reset(limit={"rate": LIMIT, "bucket": bucket})
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=seconds + 60)
    seen = service.seen()
    service.reset()
    moments = [moment - seen["moments"][0] for moment in seen["moments"]]
    accepted = sum(moment <= seconds for moment in moments)
    created, refused = seen["created"], sum(seen["refused"].values())
    return {
        "share": accepted / (LIMIT * seconds),
        "share_with_bucket": accepted / (bucket + LIMIT * seconds),
        "refused": refused / (refused + len(moments)),
        "fairness": min(created.values()) / max(created.values()) if len(created) == loaders else 0.0,
        "created": sorted(created.values()),
        "longest_gap": round(max((later - one for one, later in pairwise(moments)), default=0.0), 2),
    }


def rerun(service: Service, size: Size) -> list[Figure]:
    """Load rows that the ledger already records as created."""
    count, scope = size.rows(100_000), "rerun"
    with tempfile.TemporaryDirectory() as folder, loads.sqlite_ledger(Path(folder)) as ledger:
        path = parquet(Path(folder), count)
        _fill(ledger, path, scope)
        service.reset()
        rates = []
        for _ in range(size.rounds):
            counts, seconds = loads.load(str(path), service, ledger, scope=scope)
            if counts.unchanged != count:
                raise RuntimeError(f"not all {count} rows are unchanged: {counts}")
            rates.append(count / seconds)
    return [
        Figure(f"{count:,} unchanged rows", median(rates), unit="rows/s", samples={"rates": rates}),
        Figure("requests sent", service.created(), 0, at_most=True, unit=""),
    ]


def _fill(ledger: Ledger, path: Path, scope: str) -> None:
    """Record all rows of a file as created the night before."""
    with ledger.of(loads.scope_of(scope), "bench", replace(loads.RUN, run_id="earlier")) as attempts:
        for batch in loads.table_rows(str(path)).batches():
            if not isinstance(batch, Note):
                pairs = [(row.key, row.content_hash) for row in batch.rows]
                attempts.share([Outcome(Claim(key, "row", 1, content), "created", key) for key, content in pairs])


def memory(_: Service, size: Size) -> list[Figure]:
    """Load files of one row group in a separate process with a fake client that accepts all rows."""
    peaks = {}
    for full in (100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            count = size.rows(full)
            path = parquet(Path(folder), count)
            peaks[count] = worked("tests.benchmarks.worker", "memory", str(path), folder)
            if peaks[count]["created"] != count:
                raise RuntimeError(f"not all of {count} rows were created: {peaks[count]}")
    few, many = (peak["peak_mb"] for peak in peaks.values())
    return [
        Figure("1,000,000 rows: peak above import", many, 200, at_most=True, unit="MB", samples=peaks),
        Figure("1,000,000 rows to 100,000", many / few, 1.3, at_most=True),
    ]


def parquet(folder: Path, count: int) -> Path:
    """Write a Parquet file of one row group, in pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    pieces = (
        pa.RecordBatch.from_pylist(loads.rows(min(50_000, count - first), first)) for first in range(0, count, 50_000)
    )
    table = pa.Table.from_batches(pieces)
    pq.write_table(table, path, row_group_size=count)
    return path


def ledger(service: Service, size: Size) -> list[Figure]:
    """Measure the cost of the ledger."""
    service.reset()
    source = loads.rows(size.rows(10_000))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        contestants: dict[str, Callable[[], float]] = {
            "none": partial(loads.rate, source, service, None),
            "sqlite": partial(loads.rate, source, service, stack.enter_context(loads.sqlite_ledger(Path(folder)))),
        }
        if programs():
            server = stack.enter_context(PostgresServer())
            kept = stack.enter_context(loads.ledger_at(server.url))
            contestants["postgresql"] = partial(loads.rate, source, service, kept)
        rates = alternated(contestants, size.rounds)
    goals = {"sqlite": 15.0, "postgresql": 25.0}
    return [
        Figure(
            f"{name}: throughput that it costs",
            100 * (1 - ratio(rates, name, "none")),
            goal,
            at_most=True,
            unit="%",
            samples=rounded(rates),
        )
        for name, goal in goals.items()
        if name in rates
    ]


def imports(_: Service, size: Size) -> list[Figure]:
    """Measure the import time of all operators, sensors, hooks and triggers, which every parse of a DAG file pays."""
    import_seconds()  # the first import compiles bytecode
    seconds = [import_seconds() for _ in range(size.rounds)]
    return [
        Figure("importing everything on top of Airflow", 1000 * median(seconds), 50, at_most=True, unit="ms of a core")
    ]


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {
    "local": local,
    "latency": latency,
    "hosted": hosted,
    "limits": limits,
    "rerun": rerun,
    "memory": memory,
    "ledger": ledger,
    "imports": imports,
    **batch_cases.CASES,
    **lake_cases.CASES,
    "evaluate": evaluations.evaluate,
}
