"""Loads through the real engine, as an operator makes them."""

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
from airflow_provider_assistant.api.models import QADocument
from airflow_provider_assistant.client import AssistantClient, ClientSettings
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.store import sqlite_engine
from airflow_provider_assistant.loading.loader import Load, LoadOptions
from airflow_provider_assistant.loading.report import Counts, Findings
from airflow_provider_assistant.loading.rows import DataframeRows, mapping_of, wanted_columns
from airflow_provider_assistant.loading.source import open_source
from tests.benchmarks.service import Service

KEY = "bench-key-0123456789abcdef0123456789"
RUN = RunRef("bench", "manual", "load", -1)
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
    """Return the documents of as many rows."""
    return [{name: value for name, value in one.items() if name != "id"} for one in rows(count)]


@contextlib.contextmanager
def sqlite_ledger(folder: Path) -> Iterator[Ledger]:
    """Open a ledger of its own in a folder."""
    with Ledger(sqlite_engine(folder / f"{uuid.uuid4().hex}.db")) as ledger:
        yield ledger


@contextlib.contextmanager
def ledger_at(url: str) -> Iterator[Ledger]:
    """Open the ledger of a database server."""
    with Ledger(sa.create_engine(url)) as ledger:
        yield ledger


def load(
    source: Any,
    service: Service,
    ledger: Ledger | None,
    *,
    concurrency: int = 32,
    seconds: float | None = None,
    api_key: str = KEY,
    scope: str | None = None,
    client: Callable[[ClientSettings], AssistantClient] = AssistantClient,
) -> tuple[Counts, float]:
    """
    Load a source, and return what became of it and the seconds it took.

    :param source: As an operator takes it.
    :param service: Where to.
    :param ledger: Remembers; None for plain posting.
    :param concurrency: The most requests in flight.
    :param seconds: Stop after so long.
    :param api_key: Tells this load from others at the service.
    :param scope: What the ledger calls the site; a new one by default, so that every row is new to it.
    """
    settings = ClientSettings(service.api, api_key, max_concurrency=concurrency)

    async def run() -> Counts:
        with contextlib.ExitStack() as stack:
            memory = ledger and stack.enter_context(
                ledger.documents(scope=scope or uuid.uuid4().hex, site_id="bench", source="bench", run=RUN)
            )
            columns, keys = mapping_of(QADocument, None, None), ["id"]
            opened = stack.enter_context(open_source(source, wanted_columns(QADocument, columns, keys)))
            documents = DataframeRows(
                opened,
                payload=QADocument,
                columns=columns,
                constants={},
                key_columns=keys,
                call=lambda document: endpoints.create_qa_document("bench", document),
            )
            options = LoadOptions(max_concurrency=concurrency, max_pause=600.0)
            findings = stack.enter_context(Findings(Path("/dev/null"), always=False))
            async with client(settings) as sender:
                loading = Load(sender, documents, options, memory=memory, findings=findings)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(loading.run(), seconds)
                return loading.counts

    started = time.perf_counter()
    counts = asyncio.run(run())
    return counts, time.perf_counter() - started


def rate(source: Sequence[Any], service: Service, ledger: Ledger | None, *, concurrency: int = 32) -> float:
    """Return the rows per second of a load in which every row is new; all of them have to arrive."""
    before = service.created()
    counts, seconds = load(source, service, ledger, concurrency=concurrency)
    if counts.created != len(source) or service.created() - before != len(source):
        raise RuntimeError(f"of {len(source)} rows {service.created() - before} arrived: {counts}")
    return len(source) / seconds
