"""A row that waits out a pause keeps its lease, regardless of the length of the pause."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.ledger.entries import LEASE
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import Findings
from airflow_provider_assistant.loading.load_client import TrackingLimiter
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from tests.unit.loading.scripted_client import ScriptedClient
from tests.virtual_time import VirtualTimeLoop

START = datetime(2026, 11, 22, tzinfo=UTC)
FIELDS = ("title", "content", "category")
ROWS = [{"title": title, "content": "c", "category": "faq"} for title in "ab"]


class Loop(VirtualTimeLoop):
    """A virtual clock without threads: functions for a thread run immediately."""

    def run_in_executor(self, _executor, function, *args):
        future = self.create_future()
        future.set_result(function(*args))
        return future


class Service:
    """A service that asks for one pause."""

    def __init__(self, pause: timedelta) -> None:
        self.pause, self.posts = pause, 0

    async def answer(self, _call):
        self.posts += 1
        if self.posts == 1:
            return Response(429, {"retry-after": str(int(self.pause.total_seconds()))}, b"")
        return Response(201, {}, b'{"id": "doc_%d"}' % self.posts)


def rows():
    return DataframeRows(
        open_source(ROWS, ColumnSelection(FIELDS)), payload=TextDocument, columns={field: field for field in FIELDS},
        constants={}, key_columns=["title"], call=lambda document: endpoints.create_text_document("s", document),
    )  # fmt: skip


@pytest.mark.parametrize("hours", [0.9, 1.5, 5, 30])
def test_a_second_run_leaves_rows_alone_that_wait(tmp_path, hours):
    pause, service = timedelta(hours=hours), Service(timedelta(hours=hours))
    seen: list[set[str]] = []

    async def main():
        loop = asyncio.get_running_loop()

        def now():
            return START + timedelta(seconds=loop.time())

        def opened(run_id):
            scope, run = DocumentScope("s", "documents/qa"), RunRef("dag", run_id, "load", -1)
            return Ledger(sqlite_engine(tmp_path / "ledger.db"), now=now).documents(
                scope=scope, site_id="s", source="kb", run=run
            )

        async def look():
            keys = [row.fingerprint.key for row in rows().prepared(lambda _: True)]
            while loop.time() < pause.total_seconds():
                await asyncio.sleep((LEASE / 3).total_seconds())
                with opened("second") as second:
                    seen.append({one.state for one in second.entries(keys).values()})

        with opened("first") as memory, Findings(tmp_path / "findings.parquet") as findings:
            options = LoadOptions(max_concurrency=1, max_backoff=1e9)
            settings = ClientSettings("http://unused/api/v1", "key", retry=RetryPolicy(attempts=5))
            limiter = TrackingLimiter(1, now=loop.time)
            client = ScriptedClient(service.answer, settings, options, limiter=limiter)
            load = Load(client, rows(), options, ledger=memory, findings=findings)
            looking = asyncio.create_task(look())
            counts = await load.run()
            looking.cancel()
        return counts

    with asyncio.Runner(loop_factory=Loop) as runner:
        counts = runner.run(main())
    assert counts.created == 2
    assert seen
    assert all(states == {"leased"} for states in seen[:-1])
