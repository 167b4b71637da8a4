"""Loads within the limits of a tenant: whatever they say, nothing is sent in vain, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import replace
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.limits import DocumentLimits
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.decisions import SEND
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.loading.limits import Room, limits_reader, read_limits
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows, PreparedRow
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.storage.uploads import as_upload
from tests.unit.loading.scripted_client import ScriptedClient
from tests.wire import FunctionTransport

FIELDS = ("title", "content")
SETTINGS = ClientSettings("http://unused/api/v1", "key", retry=flow.RetryPolicy(attempts=1))


class Tenant:
    """A service that stores documents up to a limit."""

    def __init__(self, limit=None) -> None:
        self.limit = limit
        self.titles: list[str] = []
        self.refused = self.reads = 0

    async def answer(self, call):
        if self.limit is not None and len(self.titles) >= self.limit:
            self.refused += 1
            return Response(400, {}, b"")
        self.titles.append(call.json["title"])
        return Response(201, {}, b'{"id": "%d"}' % len(self.titles))

    async def limits(self):
        self.reads += 1
        left = None if self.limit is None else max(0, self.limit - len(self.titles))
        return DocumentLimits(left, self.limit, len(self.titles))


@pytest.fixture
def run(tmp_path):
    """Load rows of title and content; return the counts, the findings and the error."""

    def loads(tenant, content, *, scope="s", kind=Load, read_limits=..., **options):
        rows = DataframeRows(
            open_source([dict(zip(FIELDS, row, strict=True)) for row in content.items()], ColumnSelection(FIELDS)),
            payload=TextDocument,
            columns={field: field for field in FIELDS},
            constants={},
            key_columns=["title"],
            call=lambda document: endpoints.create_text_document("s", document),
        )
        path, error = tmp_path / f"{uuid4()}.parquet", None
        given = LoadOptions(**{"max_concurrency": 3, **options})
        with (
            Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger,
            ledger.documents(
                scope=DocumentScope(scope, "documents/text"), site_id="s", source="kb", run=RunRef("d", "r", "t", -1)
            ) as memory,
            FindingsFile(path) as findings,
        ):
            load = kind(
                ScriptedClient(tenant.answer, SETTINGS, given),
                rows,
                given,
                ledger=memory,
                findings=findings,
                read_limits=tenant.limits if read_limits is ... else read_limits,
            )
            try:
                asyncio.run(load.run())
            except AssistantInputError as raised:
                error = raised
        assert load.counts.done == load.counts.rows == len(content)
        return load.counts, pq.read_table(path).column("kind").to_pylist(), error

    return loads


def rows(count, text="text"):
    return {f"T{number}": text for number in range(count)}


@pytest.mark.parametrize("seed", range(12))
def test_a_load_that_does_not_fit_sends_nothing_or_what_fits(seed, run):
    """Rows are unchanged, changed, new and bad; only those that are really sent take room."""
    rng = random.Random(seed)
    scope, tenant = str(seed), Tenant()
    known = rows(rng.randint(0, 6))
    run(tenant, known, scope=scope)
    now = {title: rng.choice([text, "changed"]) for title, text in known.items()} | {
        f"N{number}": rng.choice(["text", "text", ""]) for number in range(rng.randint(1, 8))
    }
    bad = sum(not text for text in now.values())
    changed = sum(text == "changed" for text in now.values())
    to_send = changed + sum(title.startswith("N") and bool(text) for title, text in now.items())
    room = rng.randint(0, to_send + 1)
    tenant.limit, tenant.reads, before = len(tenant.titles) + room, 0, len(tenant.titles)

    dry, _, refused = run(tenant, now, scope=scope, kind=DryRun)
    counts, _, error = run(tenant, now, scope=scope)
    assert type(refused) is type(error)
    assert tenant.reads == 2 * bool(to_send)
    if to_send <= room:
        assert error is None
        assert counts.created == dry.created == to_send
        return
    assert error.field == "on_limit"
    assert f"{to_send} documents would be created" in str(error)
    assert f"allow {room} more" in str(error)
    assert (len(tenant.titles), counts.requests, counts.created) == (before, 0, 0)

    counts, kinds, error = run(tenant, now, scope=scope, on_limit="fit")
    assert error is None
    assert (counts.created, counts.skipped, counts.rejected) == (room, to_send - room, bad)
    assert kinds.count("skipped") == to_send - room
    # Nothing is stale, and the next run loads the rest.
    assert counts.stale == kinds.count("stale") == 0
    tenant.limit += to_send
    counts, _, error = run(tenant, now, scope=scope)
    assert (counts.created, counts.skipped, error) == (to_send - room, 0, None)
    assert tenant.refused == 0
    reads = tenant.reads
    assert run(tenant, now, scope=scope)[0].requests == 0
    assert tenant.reads == reads


def test_without_the_check_the_service_refuses_the_rest(run):
    tenant = Tenant(limit=2)
    counts, _, _ = run(tenant, rows(9), read_limits=None)
    assert (counts.created, counts.rejected, tenant.refused) == (2, 7, 7)


def test_changed_rows_that_are_not_sent_need_no_limits(run):
    tenant = Tenant()
    run(tenant, rows(3))
    tenant.limit, tenant.reads = 3, 0
    counts, _, error = run(tenant, rows(3, "changed"), on_change="skip")
    assert (counts.skipped, error, tenant.reads) == (3, None, 0)


def test_a_full_tenant_may_be_loaded_with_unchanged_rows(run):
    tenant = Tenant(limit=3)
    run(tenant, rows(3))
    counts, _, error = run(tenant, rows(3))
    assert (counts.unchanged, error, tenant.reads) == (3, None, 1)


def test_documents_that_are_superseded_keep_their_room(run):
    """The API cannot delete them."""
    tenant = Tenant(limit=4)
    run(tenant, rows(3))
    _, _, error = run(tenant, rows(3, "changed"))
    assert "3 documents would be created, but the tenant's limits allow 1 more (3 of 4 are used)" in str(error)
    assert len(tenant.titles) == 3


def test_files_have_a_size(tmp_path):
    small, large = tmp_path / "small.md", tmp_path / "large.md"
    small.write_bytes(b"x" * 100)
    large.write_bytes(b"x" * 101)
    sent = []

    async def answer(call):
        sent.append(call.upload.filename)
        return Response(201, {}, b"{}")

    async def limits():
        return DocumentLimits(left=1, file_bytes=100)

    files = FileRows(
        [(path.name, path) for path in (large, small)],
        upload=as_upload,
        call=lambda upload: endpoints.upload_document("s", upload),
    )
    options = LoadOptions(2)
    with FindingsFile(tmp_path / "findings.parquet") as findings:
        client = ScriptedClient(answer, SETTINGS, options)
        load = Load(client, files, options, ledger=None, findings=findings, read_limits=limits)
        asyncio.run(load.run())
    assert (load.counts.created, load.counts.rejected, sent) == (1, 1, ["small.md"])


def row(size):
    return PreparedRow(1, RowFingerprint("k", "c"), "a.pdf", size=size)


def test_a_file_that_is_too_large_is_rejected_and_takes_no_room():
    room = Room(DocumentLimits(left=1, file_bytes=100))
    refused = room.take(row(101))
    assert (refused.outcome, refused.reason) == ("rejected", "the file has 101 bytes; the tenant's limits allow 100")
    assert room.take(row(100)) == SEND
    assert room.take(row(1)).outcome == "skipped"
    unlimited = Room(DocumentLimits())
    assert all(unlimited.take(row(size)) == SEND for size in (None, 1, 10**12))
    assert Room(DocumentLimits(file_bytes=1)).take(row(None)) == SEND


@contextlib.contextmanager
def answered(answer):
    """Answer every request of a new client."""
    calls = []

    async def exchange(call):
        calls.append(call)
        return answer

    old = get_client_defaults()
    set_client_defaults(replace(old, async_transport=lambda _: FunctionTransport(exchange)))
    try:
        yield calls
    finally:
        set_client_defaults(old)


def test_the_limits_are_read_with_one_request():
    with answered(Response(200, {}, b'{"limits": {"documents": {"limit": "9", "used": 2}}}')) as calls:
        assert asyncio.run(read_limits(SETTINGS, "acme")) == DocumentLimits(7, 9, 2)
    assert [(call.method, call.path) for call in calls] == [("GET", "/m2m/tenants/acme/limits")]


@pytest.mark.parametrize(
    "answer",
    [
        *[Response(status, {}, b"no") for status in (302, 400, 401, 403, 404, 429, 500, 503)],
        Response(429, {"retry-after": "86400"}, b""),
        Response(200, {}, b"<html>"),
        Response(200, {}, b"[" * 5000),
        TransportFailure("timeout", "no response", True),
        TransportFailure("connection", "nobody", False),
    ],
)
def test_limits_that_cannot_be_read_are_one_line_in_the_log(answer, caplog):
    patient = replace(SETTINGS, retry=flow.RetryPolicy(attempts=5))
    with answered(answer) as calls, caplog.at_level(logging.INFO):
        assert asyncio.run(read_limits(patient, "acme")) == DocumentLimits()
    assert len(calls) == 1
    (line,) = [record for record in caplog.records if "limits" in record.name]
    assert line.levelno == logging.WARNING
    assert "goes on without the limits of tenant 'acme'" in line.getMessage()


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"7", b'{"limits": {"documents": {"limit": -1, "used": 5}}}'])
def test_limits_that_say_nothing_are_one_line_in_the_log(body, caplog):
    with answered(Response(200, {}, body)), caplog.at_level(logging.INFO):
        assert asyncio.run(read_limits(SETTINGS, "acme")).left is None
    (line,) = [record for record in caplog.records if "limits" in record.name]
    assert "do not say how many documents" in line.getMessage()


def test_limits_are_read_if_the_tenant_is_known_and_they_matter():
    assert limits_reader(SETTINGS, "acme", "fail")
    assert limits_reader(SETTINGS, "acme", "fit")
    assert limits_reader(SETTINGS, "acme", "ignore") is None
    assert limits_reader(SETTINGS, None, "fail") is None
