"""The queries behind the pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import (
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    Ledger,
    RequestEnd,
    RunRef,
    load_queries,
    queries,
    selection,
)
from airflow_provider_assistant.ledger.load_queries import DocumentsOfDay
from airflow_provider_assistant.ledger.schema import documents, loads
from airflow_provider_assistant.ledger.selection import Page, Selection
from tests.sites import site_at
from tests.unit.ledger.single import accepted, claim_chat, claim_rating, submit

NOW = datetime(2026, 11, 22, 6, tzinfo=UTC)
URL = "https://a/m2m/sites/help"
RUN = RunRef("mine", "run", "load", -1)
ALL, MINE = Selection(), Selection(dag_ids=frozenset({"mine"}))


@pytest.fixture
def ledger(database):
    with Ledger(database(), now=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def connection(ledger):
    with ledger.engine.connect() as opened:
        yield opened


def record(ledger, number, *, hours, **facts):
    started = NOW - timedelta(hours=hours)
    values = {
        "load_id": f"{number:03}",
        "site_url": URL,
        "service": "h.example",
        "endpoint": "documents/qa",
        "site_id": "help",
        "source": "kb",
        **RUN.columns(),
        "run_id": f"run {number}",
        "started_at": started,
        "outcome": "succeeded",
        "created": 10,
        "changed": 2,
        "requests": 20,
        "throttled": 1,
        **facts,
    }
    with ledger.engine.begin() as opened:
        opened.execute(sa.insert(loads).values(values))


def claim(ledger, *keys, run=RUN, outcome=None, **facts):
    with ledger.documents(scope=DocumentScope(site_at(URL, "help"), "documents/qa"), source="kb", run=run) as memory:
        found = memory.entries(keys)
        claims = [Claim(key, f"row {key}", found.get(key)) for key in keys]
        memory.commit_and_claim((), claims)
        if outcome:
            ended = [ClaimOutcome(one, outcome, f"{facts.get('content', '')}{one.key}", one.key) for one in claims]
            memory.commit_and_claim(ended, ())


def test_sites_and_sources_have_the_latest_load_first(ledger, connection):
    record(ledger, 1, hours=5)
    record(ledger, 2, hours=9, source="guides")
    record(ledger, 3, hours=1, site_id="shop", service="b.example", dag_id="other")
    record(ledger, 4, hours=24 * 400, source="old")
    found = load_queries.sites(connection, NOW, ALL)
    assert [(one["site_id"], one["service"], one["source"]) for one in found] == [
        ("shop", "b.example", "kb"),
        ("help", "h.example", "kb"),
        ("help", "h.example", "guides"),
    ]
    assert [one["source"] for one in load_queries.sites(connection, NOW, MINE)] == ["kb", "guides"]


def test_pages_of_loads(ledger, connection):
    for number in range(7):
        record(ledger, number, hours=number, outcome=(None, "failed", "succeeded")[number % 3], source=f"s{number % 2}")
    record(ledger, 9, hours=9, dag_id="other", site_id="shop")
    found = load_queries.page_of_loads(connection, ALL, Page(3, 2))
    assert (found.total, found.is_capped, [row.load_id for row in found.rows]) == (8, False, ["002", "003", "004"])
    ids = {
        outcome: [row.load_id for row in load_queries.page_of_loads(connection, ALL, Page(), outcome=outcome).rows]
        for outcome in ("unfinished", "failed")
    }
    assert ids == {"unfinished": ["000", "003", "006"], "failed": ["001", "004"]}
    assert load_queries.page_of_loads(connection, replace(MINE, source="s1"), Page()).total == 3
    assert load_queries.page_of_loads(connection, Selection("shop"), Page()).total == 1
    assert load_queries.page_of_loads(connection, Selection(dag_ids=frozenset()), Page()).rows == []


def test_a_count_stops_at_a_limit(ledger, connection, monkeypatch):
    for module in (selection, queries):
        monkeypatch.setattr(module, "MOST", 3)
    for number in range(5):
        record(ledger, number, hours=number)
    claim(ledger, *"abcde", outcome="ambiguous")
    found = load_queries.page_of_loads(connection, ALL, Page(2, 2))
    assert (found.total, found.is_capped, len(found.rows)) == (3, True, 2)
    assert queries.count_ambiguous(connection, ALL)[0] == 3
    entries = queries.page_of_ambiguous(connection, ledger.leases, ALL, Page(10, 3))
    assert (entries.total, entries.is_capped, len(entries.rows)) == (3, True, 2)


def test_the_latest_tries_of_each_source_and_mapped_task(ledger, connection):
    for number in range(8):
        record(ledger, number, hours=number, outcome="deferred" if number == 0 else "succeeded")
    record(ledger, 20, hours=3, map_index=1)
    record(ledger, 21, hours=24 * 90, source="old")
    found = load_queries.latest_tries(connection, NOW, ALL)
    assert [row.load_id for row in found] == ["001", "002", "003", "020", "004", "005"]


def test_sums_of_a_day(ledger, connection):
    empty = {"loads": 0, "failed": 0, "created": 0, "requests": 0, "throttled": 0}
    assert load_queries.sums_of_day(connection, NOW, ALL) == empty
    connection.rollback()
    record(ledger, 1, hours=1)
    record(ledger, 2, hours=2, outcome="failed", created=None, requests=None, throttled=None)
    record(ledger, 3, hours=25)
    assert load_queries.sums_of_day(connection, NOW, ALL) == {
        **empty, "loads": 2, "failed": 1, "created": 10, "requests": 20, "throttled": 1,
    }  # fmt: skip


def test_documents_by_day(ledger, connection):
    for number, hours in enumerate((1, 7, 8, 31, 100)):
        record(ledger, number, hours=hours)
    record(ledger, 9, hours=1, created=None, changed=None)
    before, days = load_queries.documents_by_day(connection, date(2026, 11, 20), ALL)
    assert (before, days) == (
        8,
        [
            DocumentsOfDay(date(2026, 11, 20), 10, 2),
            DocumentsOfDay(date(2026, 11, 21), 20, 4),
            DocumentsOfDay(date(2026, 11, 22), 10, 2),
        ],
    )


def test_entries_of_all_kinds_are_one_list(ledger, connection):
    other = RunRef("other", "run", "load", -1)
    claim(ledger, "a", "b", outcome="ambiguous")
    claim(ledger, "c")
    claim(ledger, "d", outcome="created")
    claim(ledger, "e", run=other)
    with ledger.chat_requests(scope=ChatScope(site_at(URL, "help"), "async", "x"), run=RUN) as memory:
        memory.commit_and_claim((), [Claim("f", "row f", None)])
    names = {"site_url": f"{URL}/z", "site_id": "shop", "run": RUN}
    claim_chat(ledger, "g", **names)
    h = claim_rating(ledger, **names)

    def keys(selection=ALL, page=Page()):  # noqa: B008 (immutable)
        rows = queries.page_of_ambiguous(connection, ledger.leases, selection, page).rows
        return ["h" if entry.key == h else entry.key for entry in rows]

    assert keys() == list("abcefgh")
    assert [keys(page=Page(2, offset)) for offset in (0, 2, 4, 6, 8)] == [["a", "b"], ["c", "e"], ["f", "g"], ["h"], []]
    assert keys(MINE) == list("abcfgh")
    assert keys(Selection("shop")) == ["g", "h"]
    total, oldest = queries.count_ambiguous(connection, ALL)
    assert (total, oldest) == (7, NOW)
    scope = str(DocumentScope(site_at(URL, "help"), "documents/qa"))
    found = queries.find_unresolved(connection, ledger.leases, "document", scope, "a")
    assert (found.key, found.sent_hash) == ("a", "a")
    assert queries.find_unresolved(connection, ledger.leases, "document", scope, "d") is None


def test_superseded_documents(ledger, connection):
    claim(ledger, "a", "b", outcome="created")
    claim(ledger, "b", outcome="created", content="new")
    found = queries.page_of_superseded(connection, ALL, Page())
    assert (found.total, [(row.key, row.superseded) for row in found.rows]) == (1, [("b", '["b"]')])
    assert queries.count_superseded(connection, ALL) == 1
    assert queries.count_superseded(connection, Selection("shop")) == 0


def test_open_requests(ledger, connection):
    for key, at in (("old", NOW - timedelta(days=8)), ("new", NOW)):
        opened = Ledger(ledger.engine, now=lambda at=at: at)
        submit(opened, lambda key=key: accepted(f"req-{key}"), key=key, site_url=URL, run=RUN)
    for mode in ("async", "sync"):
        with ledger.chat_requests(scope=ChatScope(site_at(URL, "help"), mode, "x"), run=RUN) as memory:
            claims = [Claim(key, f"row {key}", None) for key in (f"{mode}-1", f"{mode}-2")]
            memory.commit_and_claim((), claims)
            memory.commit_and_claim([ClaimOutcome(one, "created", "hash", one.key) for one in claims], ())
            memory.record_ends({f"{mode}-2": RequestEnd("complete", NOW, "s")})
    found = queries.page_of_open_requests(connection, NOW, ALL, Page())
    assert {(row.request_id, row.batch is not None) for row in found.rows} == {("req-new", False), ("async-1", True)}
    assert (found.total, queries.count_open_requests(connection, NOW, ALL)) == (2, 2)


def test_the_tries_of_a_task_instance(ledger, connection):
    for number in range(3):
        record(ledger, number, hours=number, run_id="run")
    record(ledger, 9, hours=1, run_id="run", map_index=1)
    names = {"dag_id": "mine", "run_id": "run", "task_id": "load", "map_index": -1}
    assert [row.load_id for row in load_queries.tries_of(connection, names)] == ["002", "001", "000"]
    assert [row.load_id for row in load_queries.tries_of(connection, names, limit=1)] == ["000"]


def test_indexes_find_what_needs_a_person(ledger, connection):
    """With many entries, neither database reads the whole table."""
    rows = [
        {
            "scope": "s",
            "site_url": "s",
            "service": "h.example",
            "endpoint": "documents/qa",
            "key": str(number),
            "outcome": "ambiguous" if number == 7 else "created",
            "attempts": 1,
            "claimed_at": NOW,
            "site_id": "help",
            "label": "x",
            "source": "kb",
            "ambiguous": 0,
            "claim": "c",
            "superseded": '["old"]' if number == 8 else None,
        }
        for number in range(5000)
    ]
    with ledger.engine.begin() as opened:
        opened.execute(sa.insert(documents), rows)
        opened.exec_driver_sql("ANALYZE")
    dialect, plans = ledger.engine.dialect, []
    explain = "EXPLAIN QUERY PLAN " if dialect.name == "sqlite" else "EXPLAIN "

    @sa.event.listens_for(connection, "before_cursor_execute", retval=True)
    def explained(_, cursor, statement, parameters, __, ___):
        if "assistant_documents" in statement:
            cursor.execute(explain + statement, parameters)
            plans.append(str(cursor.fetchall()))
        return statement, parameters

    assert queries.count_ambiguous(connection, ALL)[0] == 1
    assert queries.page_of_ambiguous(connection, ledger.leases, ALL, Page()).total == 1
    assert queries.page_of_superseded(connection, ALL, Page()).total == 1
    assert plans
    assert all("assistant_documents_unresolved" in plan or "assistant_documents_superseded" in plan for plan in plans)
