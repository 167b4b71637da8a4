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
from airflow_provider_assistant.loading.document_limits import document_limits
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.engine import Load

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.limits import LimitReplies, limits_reader, read_limits
from airflow_provider_assistant.loading.options import LoadOptions
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows
from tests.wire import FunctionTransport

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
        return LimitReplies({"limits": {"documents": {"limit": self.limit, "used": len(self.titles)}}})


@pytest.fixture
def run(tmp_path):
    """Load rows of title and content; return the counts, the findings and the error."""

    def loads(tenant, content, *, scope="s", kind=Load, read_limits=..., **options):
        path, error = tmp_path / f"{uuid4()}.parquet", None
        given = LoadOptions(**{"max_concurrency": 3, "on_limit": "fail", **options})
        with (
            Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger,
            ledger.documents(
                scope=DocumentScope(site_at("h", scope), "documents/text"), source="kb", run=RunRef("d", "r", "t", -1)
            ) as memory,
            FindingsFile(path) as findings,
        ):
            load = kind(
                ScriptedClient(tenant.answer, SETTINGS, given),
                text_rows(content),
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


@pytest.mark.promise("loads", "A load that does not fit into the limits sends nothing, or what fits, as asked for.")
@pytest.mark.parametrize("seed", range(6))
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
    assert f"{to_send:,} document" in str(error)
    assert f"may create {room} more" in str(error)
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


def test_changed_rows_that_are_not_sent_need_no_limits(run):
    tenant = Tenant()
    run(tenant, rows(3))
    tenant.limit, tenant.reads = 3, 0
    counts, _, error = run(tenant, rows(3, "changed"), on_change="skip")
    assert (counts.skipped, error, tenant.reads) == (3, None, 0)


def test_documents_that_are_superseded_keep_their_room(run):
    """The API cannot delete them."""
    tenant = Tenant(limit=4)
    run(tenant, rows(3))
    _, _, error = run(tenant, rows(3, "changed"))
    assert "3 documents would be created. The tenant may create 1 more document (3 of 4 used)" in str(error)
    assert len(tenant.titles) == 3


def test_by_default_a_load_goes_on_and_says_what_does_not_fit(run, caplog):
    tenant = Tenant(limit=2)
    with caplog.at_level(logging.INFO):
        counts, _, error = run(tenant, rows(9), on_limit="show")
    assert (counts.created, counts.rejected, error) == (2, 7, None)
    assert "9 documents would be created. The tenant may create 2 more documents (0 of 2 used)" in caplog.text


@pytest.mark.parametrize("on_limit", ["fail", "fit", "show"])
def test_a_named_field_that_does_not_exist_stops_a_load_that_respects_the_limits(on_limit, run, caplog):
    tenant = Tenant(limit=2)
    counts, _, error = run(tenant, rows(2), on_limit=on_limit, limits_field="limits.pages")
    if on_limit == "show":
        assert (counts.created, error) == (2, None)
        assert "goes on without the tenant's limits" in caplog.text
    else:
        assert (counts.created, counts.requests, error.field) == (0, 0, "limits_field")
        assert "They have limits.documents.limit, limits.documents.used" in str(error)


def test_a_limit_that_is_not_understood_is_a_warning_if_it_is_to_be_respected(run, caplog):
    for limits, text in (
        ({"documents_per_site": 1}, "limits_field names the field"),
        ({"limits": {"documents": 1}}, "may have 1 documents"),
    ):

        async def odd(limits=limits):
            return LimitReplies(limits)

        counts, _, error = run(Tenant(), rows(2), scope=text, read_limits=odd)
        assert (counts.created, error) == (2, None)
        (line,) = [record for record in caplog.records if text in record.getMessage()]
        assert line.levelno == logging.WARNING


@contextlib.contextmanager
def answered(*answers):
    """Answer the requests of a new client in order; the last answer repeats."""
    calls = []

    async def exchange(call):
        calls.append(call)
        return answers[min(len(calls), len(answers)) - 1]

    old = get_client_defaults()
    set_client_defaults(replace(old, async_transport=lambda _: FunctionTransport(exchange)))
    try:
        yield calls
    finally:
        set_client_defaults(old)


def test_the_limits_are_read_with_one_request():
    with answered(Response(200, {}, b'{"limits": {"documents": {"limit": "9", "used": 2}}}')) as calls:
        replies = asyncio.run(read_limits(SETTINGS, "acme"))
    assert replies.limits == {"limits": {"documents": {"limit": "9", "used": 2}}}
    assert [(call.method, call.path) for call in calls] == [("GET", "/m2m/tenants/acme/limits")]


@pytest.mark.parametrize(
    "answer",
    [
        *[Response(status, {}, b"no") for status in (302, 401, 404, 500)],
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
        assert asyncio.run(read_limits(patient, "acme")) is None
    assert len(calls) == 1
    (line,) = [record for record in caplog.records if "limits" in record.name]
    assert line.levelno == logging.WARNING
    assert "goes on without the limits of tenant 'acme'" in line.getMessage()


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"7", b'{"limits": {"\\u001b[2J": "\\ud800", "x": [1e999]}}'])
def test_limits_of_any_shape_are_one_line_in_the_log(body, caplog):
    with answered(Response(200, {}, body)), caplog.at_level(logging.INFO):
        document_limits(asyncio.run(read_limits(SETTINGS, "acme")).limits)
    (line,) = [record for record in caplog.records if "limits" in record.name]
    assert line.getMessage().startswith("The limits of tenant 'acme': ")
    assert line.getMessage().isprintable()


NO_USED_AMOUNT = Response(200, {}, b'{"limits": {"reference_documents": 50}}')


def test_the_usage_is_read_once_if_the_limits_lack_the_used_amount(caplog):
    usage = Response(200, {}, b'{"usage": {"reference_documents": "41"}}')
    with answered(NO_USED_AMOUNT, usage) as calls, caplog.at_level(logging.INFO):
        replies = asyncio.run(read_limits(SETTINGS, "acme"))
    assert replies.usage == {"usage": {"reference_documents": "41"}}
    assert document_limits(replies.limits, usage=replies.usage).left == 9
    assert [call.path for call in calls] == ["/m2m/tenants/acme/limits", "/m2m/tenants/acme/usage"]
    assert "The usage of tenant 'acme': usage.reference_documents 41." in caplog.text


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (Response(404, {}, b"no"), logging.INFO, "does not show the usage of the tenant (404 "),
        (Response(401, {}, b"no"), logging.WARNING, "usage of the tenant cannot be read"),
        (Response(500, {}, b"no"), logging.WARNING, "usage of the tenant cannot be read"),
        (Response(200, {}, b"<html>"), logging.WARNING, "usage of the tenant cannot be read"),
        (TransportFailure("timeout", "no", True), logging.WARNING, "usage of the tenant cannot be read"),
    ],
)
def test_a_usage_that_cannot_be_read_is_one_line(answer, level, text, caplog):
    patient = replace(SETTINGS, retry=flow.RetryPolicy(attempts=5))
    with answered(NO_USED_AMOUNT, answer) as calls, caplog.at_level(logging.INFO):
        replies = asyncio.run(read_limits(patient, "acme"))
    assert (replies.usage, len(calls)) == (None, 2)
    (line,) = [record for record in caplog.records if "usage" in record.getMessage()]
    assert line.levelno == level
    assert text in line.getMessage()


@pytest.mark.parametrize("on_limit", ["fail", "fit"])
def test_a_load_stops_by_a_used_amount_from_the_usage(on_limit, run):
    """Both kinds of limits hold for every document, and the smaller room counts."""

    async def replies():
        limits = {"limits": {"reference_documents": 10, "active_documents": 6}}
        return LimitReplies(limits, {"reference_documents": 3, "active_documents": 4})

    counts, _, error = run(Tenant(), rows(5), read_limits=replies, on_limit=on_limit)
    if on_limit == "fail":
        assert "may create 2 more documents (4 of 6 active documents used)" in str(error)
        assert counts.requests == 0
    else:
        assert (counts.created, counts.skipped) == (2, 3)


@pytest.mark.parametrize(
    ("others", "known", "new", "is_said"),
    [
        (0, 0, 40, False),  # the first load of an empty tenant
        (1000, 0, 40, True),  # a new ledger, or the first load beside another program
        (60, 40, 60, True),  # an old backup: what was loaded since is not in it
        (1000, 40, 30, True),
        (1000, 100, 30, False),  # a usual night beside another program
        (1000, 0, 19, False),
        (39, 0, 40, False),  # fewer than this load sends
    ],
)
def test_documents_that_the_ledger_does_not_know_are_said_once(others, known, new, is_said, run, caplog):
    """A ledger that is new, or was restored, knows fewer documents than the tenant has."""
    tenant = Tenant(10_000)
    run(tenant, rows(known))
    tenant.titles += ["of another program"] * others
    caplog.clear()
    sent = {**rows(known), **{f"N{number}": "text" for number in range(new)}}
    counts, _, error = run(tenant, sent, max_concurrency=8)
    assert (counts.created, error) == (new, None)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    said = [text for text in warnings if "the ledger knows" in text]
    assert len(said) == is_said
    if is_said:
        assert f"has {others + known:,} documents, and the ledger knows {known} of them" in said[0]
        assert f"({new} rows to send)" in said[0]
    # The next load has nothing to send.
    caplog.clear()
    run(tenant, sent)
    assert "the ledger knows" not in caplog.text


def test_limits_are_read_if_the_tenant_is_known_and_they_matter():
    assert limits_reader(SETTINGS, "acme", "show")
    assert limits_reader(SETTINGS, "acme", "fail")
    assert limits_reader(SETTINGS, "acme", "fit")
    assert limits_reader(SETTINGS, "acme", "ignore") is None
    assert limits_reader(SETTINGS, None, "fail") is None


@pytest.mark.parametrize("field", ["limits.pages", "limits.documents"])
def test_a_field_that_is_missing_or_complete_needs_no_usage(field):
    with answered(Response(200, {}, b'{"limits": {"documents": {"limit": 5, "used": 1}}}')) as calls:
        assert asyncio.run(read_limits(SETTINGS, "acme", field)).usage is None
    assert len(calls) == 1
