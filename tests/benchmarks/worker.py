"""
Parts of a benchmark that need a separate process.

``python -m tests.benchmarks.worker share URL KEY SECONDS CONCURRENCY`` loads until the time is over.
``python -m tests.benchmarks.worker memory PATH FOLDER`` loads a file, and prints its peak memory in MB.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_assistant.api.call import Call, Response
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.options import MAX_BACKOFF
from tests.benchmarks import loads
from tests.benchmarks.measure import reset_peak, status
from tests.benchmarks.service import Service
from tests.wire import client_with

NOWHERE: Any = SimpleNamespace(api="http://127.0.0.1:1/api/v1")


class Accepting(AsyncTransport):
    """A transport without a network that accepts every request."""

    async def exchange(self, call: Call[Any]) -> Response:
        await asyncio.sleep(0)
        return Response(201, {}, b'{"id": "1"}')


def offline(settings: ClientSettings) -> AssistantClient:
    """Return a client without a network."""
    settings = settings.retrying(max_backoff=MAX_BACKOFF, retry_ambiguous=True)
    return client_with(settings, async_transport=Accepting())


def _import_all(ledger: Ledger | None) -> None:
    """Import all modules that a load imports on first use."""
    import aiohttp  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    loads.load(loads.rows(10), NOWHERE, ledger, client=offline)


def share(url: str, key: str, seconds: str, concurrency: str) -> dict[str, Any]:
    """Load an endless source. Start when a line arrives on standard input."""
    source = loads.rows(int(float(seconds) * 400))
    service = Service(url)
    _import_all(None)
    print("ready", flush=True)
    sys.stdin.readline()
    counts, took = loads.load(source, service, None, concurrency=int(concurrency), seconds=float(seconds), api_key=key)
    return {"created": counts.created, "throttled": counts.throttled, "seconds": took}


def memory(path: str, folder: str) -> dict[str, Any]:
    """Load a Parquet file, and measure the memory beyond that of the imports."""
    with loads.sqlite_ledger(Path(folder)) as ledger:
        _import_all(ledger)
        before = reset_peak()
        counts, seconds = loads.load(path, NOWHERE, ledger, client=offline)
    return {"peak_mb": round(status("VmHWM") - before, 1), "created": counts.created, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    print(json.dumps({"share": share, "memory": memory}[sys.argv[1]](*sys.argv[2:])))
