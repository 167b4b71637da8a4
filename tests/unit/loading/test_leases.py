"""A load keeps its rows as long as it lives, frees them when it ends, and reports rows that were taken over."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
from airflow_provider_assistant.ledger.leases import DEFAULT_SECONDS
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.load_client import TrackingLimiter

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError, AssistantIncompleteError
from airflow_provider_assistant.ledger import (
    Claim,
    ClaimOutcome,
    DocumentScope,
    LeaseSettings,
    Ledger,
    RunRef,
    sqlite_engine,
)
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows
from tests.virtual_time import every, now, simulated

START = datetime(2026, 11, 22, tzinfo=UTC)
CREATED = Response(201, {}, b'{"id": "doc_1"}')


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def opened(path):
    """Open the documents of a run."""

    @contextlib.contextmanager
    def opened(run_id, leases=None):
        scope, run = DocumentScope(site_at("s"), "documents/qa"), RunRef("dag", run_id, "load", -1)
        with (
            Ledger(sqlite_engine(path), leases=leases) as ledger,
            ledger.documents(scope=scope, source="kb", run=run) as memory,
        ):
            yield memory

    return opened


@pytest.fixture
def findings(tmp_path):
    return FindingsFile(tmp_path / "findings.parquet")


@pytest.fixture
def load_of(findings):
    """Return a load with a scripted service."""

    def load_of(memory, answer, source=None, *, kind=Load, retries=0, concurrency=2, **clocks):
        options = LoadOptions(max_concurrency=concurrency, max_backoff=1e9)
        settings = ClientSettings("http://unused/api/v1", "key", retry=RetryPolicy(attempts=retries + 1))
        client = ScriptedClient(answer, settings, options, limiter=TrackingLimiter(concurrency, **clocks))
        return kind(client, source or text_rows("ab"), options, ledger=memory, findings=findings)

    return load_of


def keys_of(titles):
    return [row.fingerprint.key for row in text_rows(titles).prepared(lambda _: True)]


def heartbeats(path):
    with contextlib.closing(sqlite3.connect(path)) as raw:
        return raw.execute("SELECT heartbeat_at FROM assistant_leases").fetchall()


@pytest.mark.parametrize("hours", [0.02, 2])
def test_a_second_run_leaves_rows_alone_that_wait(opened, load_of, hours):
    pause, posts = timedelta(hours=hours).total_seconds(), []
    seen: list[set[str]] = []

    async def answer(_call):
        posts.append(now())
        return CREATED if len(posts) > 1 else Response(429, {"retry-after": str(int(pause))}, b"")

    async def main():
        settings = LeaseSettings(now=lambda: START + timedelta(seconds=now()), every=every)

        async def look():
            while True:
                await asyncio.sleep(pause / 12)
                seen.append({one.state for one in second.entries(keys_of("ab")).values()})

        with opened("first", settings) as memory, opened("second", settings) as second:
            load = load_of(memory, answer, retries=4, concurrency=1, now=now)
            looking = asyncio.create_task(look())
            counts = await load.run()
            looking.cancel()
        return counts

    counts = simulated(main())
    assert counts.created == 2
    assert posts[1] >= pause
    assert len(seen) >= 10
    assert all(states == {"leased"} for states in seen[:-1])


def wait_for_heartbeat(path):
    """Block the thread until a heartbeat has been written."""
    first, deadline = heartbeats(path), time.monotonic() + 60
    assert first, "the load has a lease"
    while heartbeats(path) == first:
        assert time.monotonic() < deadline, "the heartbeat goes on"
        time.sleep(0.005)


def test_the_heartbeat_goes_on_while_the_event_loop_is_blocked(opened, load_of, path):
    async def answer(_call):
        wait_for_heartbeat(path)
        return CREATED

    with opened("run", LeaseSettings(seconds=0.2)) as memory:
        assert asyncio.run(load_of(memory, answer).run()).created == 2


@pytest.mark.parametrize("end", ["success", "rejected", "failure", "cancelled", "ledger"])
def test_a_load_that_ends_frees_its_rows_at_once(opened, load_of, path, end, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    statuses = {"success": 201, "rejected": 400, "failure": 403}
    leased = []

    async def answer(_call):
        leased.extend(heartbeats(path))
        if end == "cancelled":
            load.cancel()
            await asyncio.sleep(3600)
        if end == "ledger":
            with contextlib.closing(sqlite3.connect(path)) as raw:
                raw.execute("DROP TABLE IF EXISTS assistant_documents")
        return Response(statuses.get(end, 201), {}, b'{"id": "doc_1"}')

    with opened("run") as memory:
        load = load_of(memory, answer)
        errors = {"failure": AssistantAPIError, "cancelled": AssistantIncompleteError, "ledger": AssistantError}
        with pytest.raises(errors[end]) if end in errors else contextlib.nullcontext():
            simulated(load.run())
        assert leased, "the load had a lease while it sent"
        assert heartbeats(path) == [], "a chat batch keeps its ledger open after the load"


def test_a_dry_run_has_no_lease(opened, load_of, path):
    with opened("run") as memory:
        assert simulated(load_of(memory, None, kind=DryRun).run()).created == 2
        assert heartbeats(path) == []


@pytest.mark.promise("loads", "A load that was stopped for long reports the rows that another run has taken over.")
@pytest.mark.parametrize("status", [201, 400])
def test_a_load_reports_rows_that_were_taken_over(opened, load_of, findings, caplog, status):
    """As after SIGSTOP: no heartbeat is written, and another run creates a row before this one gets its reply."""
    leases = LeaseSettings(now=lambda: START + timedelta(seconds=now()), every=lambda *_: lambda: None)
    (key,) = keys_of("a")

    async def answer(call):
        if call.json["title"] == "a":
            await asyncio.sleep(DEFAULT_SECONDS)
            with opened("other", leases) as other:
                claim = Claim(key, "a", other.entries([key])[key])
                assert other.commit_and_claim((), [claim]) == {key}
                other.commit_and_claim([ClaimOutcome(claim, "created", "hash", "doc_other")], ())
        return Response(status, {}, b'{"id": "doc_late"}')

    with opened("run", leases) as memory:
        counts = simulated(load_of(memory, answer).run())
        assert memory.entries([key])[key].created_id == "doc_other"
    findings.close()
    found = [one for one in pq.read_table(findings.path).to_pylist() if one["kind"] == "possibly_duplicated"]
    if status == 201:
        assert (counts.created, counts.possibly_duplicated) == (2, 1)
        assert [(one["key"], one["document_ids"]) for one in found] == [("a", ["doc_late"])]
        assert "another run has taken this row over" in found[0]["reason"]
    else:
        assert (counts.rejected, counts.possibly_duplicated, found) == (2, 0, [])
    assert counts.done == 2
    assert "Another run has taken over 1 row;" in caplog.text
