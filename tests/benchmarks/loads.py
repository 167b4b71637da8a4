"""Load through the real engine, like an operator."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import QADocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.ledger import Ledger, RunRef, Scope, Site, sqlite_engine
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.fields import columns_to_read, mapping_of
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.load import Load, LoadJob
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import TableRows
from airflow_provider_assistant.tables import read_rows
from tests.benchmarks.service import Service

KEY = "bench-key-0123456789abcdef0123456789"
RUN = RunRef("knowledge_base", "scheduled__2026-11-22T00:00:00+00:00", "load", 0)
_WORDS = (
    "the",
    "knowledge",
    "base",
    "answers",
    "what",
    "customers",
    "ask",
    "about",
    "delivery,",
    "returns",
    "invoices",
)


def row(number: int) -> dict[str, Any]:
    """Return one question with its answer, about 500 bytes of JSON."""
    words = itertools.islice(itertools.cycle(_WORDS[number % len(_WORDS) :] + _WORDS), 58)
    return {
        "id": f"q-{number}",
        "title": f"Question {number}",
        "question": f"How does number {number} work, and what does it cost me per month?",
        "answer": " ".join(words),
        "category": "faq",
    }


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return rows."""
    return [row(number) for number in range(first, first + count)]


def bodies(count: int) -> list[dict[str, Any]]:
    """Return the documents of these rows."""
    return [{name: value for name, value in one.items() if name != "id"} for one in rows(count)]


@contextlib.contextmanager
def sqlite_ledger(folder: Path) -> Iterator[Ledger]:
    """Open a new ledger in a folder."""
    with Ledger(sqlite_engine(folder / f"{uuid.uuid4().hex}.db")) as ledger:
        yield ledger


@contextlib.contextmanager
def ledger_at(url: str) -> Iterator[Ledger]:
    """Open the ledger of a database server."""
    with Ledger(sa.create_engine(url)) as ledger:
        yield ledger


def scope_of(site_id: str) -> Scope:
    """Return a scope of questions and answers."""
    return Scope(Site("bench", site_id), "qa")


def table_rows(source: Any) -> TableRows:
    """Return the rows of a source, with the key ``id``."""
    columns = mapping_of(QADocument, None, None)
    return TableRows(
        read_rows(source, columns_to_read(QADocument, columns, ["id"])),
        payload=QADocument,
        columns=columns,
        constants={},
        key_columns=["id"],
        call=lambda document: endpoints.create_qa_document("bench", document),
    )


def load(
    source: Any,
    service: Service,
    ledger: Ledger | None,
    *,
    concurrency: int = 32,
    seconds: float | None = None,
    api_key: str = KEY,
    scope: str | None = None,
    partial: bool = False,
    client: Callable[[ClientSettings], AssistantClient] | None = None,
) -> tuple[LoadCounts, float]:
    """
    Load a source. Return its counts and the duration in seconds.

    :param source: The ``source`` of an operator.
    :param service: The service.
    :param ledger: The ledger, or None for one in memory.
    :param concurrency: Maximum number of requests in flight.
    :param seconds: Stop after this time in seconds.
    :param api_key: API key, by which the service distinguishes loads.
    :param scope: Scope of the keys in the ledger. Default: a new scope, so that every row is new.
    :param partial: Whether the source has only some of the documents, so that the others are not stale.
    """
    settings = ClientSettings(service.api, api_key, max_concurrency=concurrency)

    async def run() -> LoadCounts:
        with contextlib.ExitStack() as stack:
            kept = ledger or stack.enter_context(Ledger.in_memory())
            attempts = stack.enter_context(kept.of(scope_of(scope or uuid.uuid4().hex), "bench", RUN))
            findings = stack.enter_context(FindingsFile(Path("/dev/null"), always=False))
            options = LoadOptions(on_missing="ignore" if partial else "list")
            job = LoadJob(lambda: table_rows(source), options, settings)
            loading = Load(job, kept, attempts, findings, client and client(settings))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loading.run(), seconds)
            return loading.counts

    started = time.perf_counter()
    counts = asyncio.run(run())
    return counts, time.perf_counter() - started


def rate(source: Sequence[Any], service: Service, ledger: Ledger | None, *, concurrency: int = 32) -> float:
    """Load new rows, check that all arrive, and return the rows per second."""
    before = service.created()
    counts, seconds = load(source, service, ledger, concurrency=concurrency)
    if counts.created != len(source) or service.created() - before != len(source):
        raise RuntimeError(f"of {len(source)} rows {service.created() - before} arrived: {counts}")
    return len(source) / seconds
