"""The ledger on a real PostgreSQL: its rules, and loads that use it."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import pandas as pd
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantLedgerError,
    AssistantLedgerPermanentError,
)
from airflow_provider_assistant.ledger import (
    SCHEMA_VERSION,
    AcceptedQuestion,
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    LeaseSettings,
    Ledger,
    RequestEnd,
    RunRef,
    document_group,
    find_request,
    record_ends,
)
from airflow_provider_assistant.ledger.database import ATTEMPTS
from airflow_provider_assistant.ledger.document_changes import KnownDocument
from airflow_provider_assistant.ledger.entries import LedgerEntry
from airflow_provider_assistant.ledger.export_queries import requests_between
from airflow_provider_assistant.ledger.leases import DatabaseNow
from airflow_provider_assistant.ledger.load_queries import loads_between
from airflow_provider_assistant.ledger.migrate import version_of
from airflow_provider_assistant.ledger.queries import (
    counts,
    find_ambiguous,
    page_of_ambiguous,
    superseded_documents,
)
from airflow_provider_assistant.ledger.resolution import resolve
from airflow_provider_assistant.ledger.schema import document_changes, leases, metadata
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.ledger.site_queries import removed_ids, site_entries
from airflow_provider_assistant.loading import engine as load_engine
from airflow_provider_assistant.loading.findings import read_findings
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.integration.faults.attempts import CONCURRENCY, listed
from tests.integration.faults.conftest import _process, remote
from tests.integration.faults.loads import LoadAttempts
from tests.live.postgres import PostgresServer
from tests.sites import site_at
from tests.task_runs.context import task_context
from tests.threads import at_once
from tests.unit.cli.conftest import _as_before, cli
from tests.unit.ledger.outage import READ_ONLY, away
from tests.unit.ledger.single import accepted, chats, rate, submit
from tests.unit.ledger.test_leases import statements_of
from tests.unit.operators.test_ledger_truth import rows_of, said_of

__all__ = ["_as_before", "_process", "cli", "remote"]

START = datetime(2026, 11, 21, 23, 59, 58, 123456, tzinfo=UTC)
RUN, OTHER_RUN = RunRef("dag", "run", "task", -1), RunRef("dag", "other", "task", -1)
SITE = "https://h/api/v1/m2m/sites/docs"
ROWS = range(250)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def engine(server: PostgresServer) -> Iterator[sa.Engine]:
    engine = sa.create_engine(server.url, pool_pre_ping=True)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(engine: sa.Engine) -> Ledger:
    return Ledger(engine, now=lambda: START)


def documents(ledger, *, run=RUN, source="dag.task"):
    return ledger.documents(scope=DocumentScope(site_at(SITE), "documents/qa"), source=source, run=run)


def claims(memory, *keys):
    known = memory.entries(keys)
    return [Claim(key, f"row {key}", known.get(key)) for key in keys]


def created(claim, number=1, **facts):
    return ClaimOutcome(claim, "created", f"content {number}", f"doc-{claim.key}-{number}", 201, **facts)


def test_ambiguous_entries_are_listed_and_resolved_by_hand(ledger):
    with documents(ledger) as memory:
        (claim,) = claims(memory, "k")
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([created(claim)], ())
        (again,) = claims(memory, "k")
        memory.commit_and_claim((), [again])
        memory.commit_and_claim([ClaimOutcome(again, "ambiguous", "content 2", ambiguous=1)], ())
        assert [(one["outcome"], one["entries"]) for one in ledger.read(counts, Selection("docs"))] == [
            ("ambiguous", 1)
        ]
        entry = ledger.read(find_ambiguous, ledger.leases, Selection(), "k")
        resolve(ledger, entry, "created", identifier="doc-2", content_hash="content 2")
        assert ledger.read(page_of_ambiguous, ledger.leases, Selection(), ALL).rows == []
        assert ledger.read(superseded_documents, Selection()) == [("docs", "dag.task", "row k", "doc-k-1")]
        assert memory.entries(["k"])["k"].content_hash == "content 2"


def test_what_is_compared_with_the_list_of_a_site(ledger):
    with documents(ledger) as memory:
        (claim, other) = claims(memory, "k", "other")
        # A rebuild records documents without a claim.
        memory.commit_and_claim([created(claim)], ())
        (again,) = claims(memory, "k")
        memory.commit_and_claim((), [again, other])
        memory.commit_and_claim([created(again, 2)], ())
        assert [entry.key for entry in memory.unresolved()] == ["other"]
        removed = KnownDocument("gone", "row gone", "doc-gone", "stale")
        memory.changes().claim([removed], "deactivate")
        assert ledger.read(removed_ids, site_at(SITE)) == set()
        memory.changes().record([removed], "deactivate")
        assert ledger.read(removed_ids, site_at(SITE)) == {"doc-gone"}
        ids = ["doc-k-1", "doc-k-2", "doc-gone", "unknown", "half \ud800"]
        assert memory.known_ids(ids) == {"doc-k-1", "doc-k-2", "doc-gone"}
        (entry,) = site_entries(ledger.engine, site_at(SITE))
        assert (entry.document_id, entry.superseded_ids, entry.label) == ("doc-k-2", ["doc-k-1"], "row k")
        (unresolved,) = memory.unresolved()
        resolve(memory, unresolved, "created", identifier="found", content_hash="content", status="draft")
        assert memory.unresolved() == []
        assert memory.entries(["other"])["other"].status == "draft"


def test_a_single_effect_is_made_once(ledger):
    assert [submit(ledger)[1] for _ in range(2)] == [True, False]
    assert [rate(ledger, rating)[1] for rating in ("good", "good", "bad")] == [True, False, True]

    def fails():
        raise AssistantAmbiguousError("maybe")

    with pytest.raises(AssistantAmbiguousError):
        submit(ledger, fails, key="k2")
    row = chats(ledger).find("k2")
    assert (row.outcome, row.attempts, row.claimed_at) == ("ambiguous", 1, START)


def test_claims_and_outcomes(ledger):
    with documents(ledger) as memory:
        wanted = claims(memory, "a", "b", "c")
        assert memory.commit_and_claim([], wanted) == {"a", "b", "c"}
        a, b, c = wanted
        assert (
            memory.commit_and_claim([created(a), ClaimOutcome(b, "failed", "x"), ClaimOutcome(c, "ambiguous", "x")], [])
            == set()
        )
        known = memory.entries(["a", "b", "c", "d"])
        assert {key: one.state for key, one in known.items()} == {"a": "created", "b": "none", "c": "ambiguous"}
        assert (known["a"].content_hash, known["a"].created_id) == ("content 1", "doc-a-1")


def test_changed_content_keeps_what_it_supersedes(ledger):
    for number in (1, 2, 3):
        with documents(ledger) as memory:
            (claim,) = claims(memory, "a")
            assert memory.commit_and_claim([], [claim]) == {"a"}
            memory.commit_and_claim([created(claim, number)], [])
    with documents(ledger) as memory:
        assert memory.entries(["a"])["a"].superseded == '["doc-a-1", "doc-a-2"]'
        (doubled,) = memory.documents_of_earlier_tries()
        assert (doubled.created_id, doubled.superseded) == ("doc-a-3", ["doc-a-1", "doc-a-2"])
    with documents(ledger, run=OTHER_RUN) as memory:
        assert not list(memory.documents_of_earlier_tries())


def test_only_one_claim_of_a_key_succeeds(ledger):
    with documents(ledger) as one, documents(ledger, run=OTHER_RUN) as other:
        first, second = claims(one, "a", "b"), claims(other, "b", "c")
        assert one.commit_and_claim([], first) == {"a", "b"}
        assert other.commit_and_claim([], second) == {"c"}
        assert other.entries(["b"])["b"].state == "leased"
        one.commit_and_claim([ClaimOutcome(first[1], "failed", "x")], [])
        rivals = claims(one, "b"), claims(other, "b")
        assert other.commit_and_claim([], rivals[1]) == {"b"}
        assert one.commit_and_claim([], rivals[0]) == set()


def test_a_claim_of_a_killed_attempt_is_ambiguous_and_counted(ledger, engine):
    with documents(ledger) as killed:
        killed.commit_and_claim([], claims(killed, "a"))
        with documents(ledger, run=OTHER_RUN) as other:
            assert other.entries(["a"])["a"].state == "leased"
    with documents(ledger, run=OTHER_RUN) as other:
        assert other.entries(["a"])["a"].state == "ambiguous"
    with documents(ledger) as again:
        (claim,) = claims(again, "a")
        assert claim.entry.state == "ambiguous"
        assert again.commit_and_claim([], [claim]) == {"a"}
        again.commit_and_claim([created(claim)], [])
    with documents(ledger) as third:
        assert [doubled.ambiguous for doubled in third.documents_of_earlier_tries()] == [1]


def change_lease(engine, **values):
    with engine.begin() as connection:
        assert connection.execute(sa.update(leases).values(**values)).rowcount == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("hours", [-30, 30])
def test_only_the_clock_of_the_database_decides_about_a_lease(server, ledger, engine, hours, zone):
    """Whatever the clocks of the workers and the time zones of their sessions are."""
    elsewhere = sa.create_engine(server.url, connect_args={"options": f"-c timezone={zone}"}, poolclass=sa.NullPool)
    skewed = Ledger(elsewhere, now=lambda: datetime.now(UTC) + timedelta(hours=hours))
    with documents(ledger) as one, documents(skewed, run=OTHER_RUN) as other:
        one.commit_and_claim([], claims(one, "a"))
        assert other.entries(["a"])["a"].state == "leased"
        change_lease(engine, heartbeat_at=datetime.now(UTC) - timedelta(minutes=2))
        (taken,) = claims(other, "a")
        assert taken.entry.state == "ambiguous"
        assert other.commit_and_claim([], [taken]) == {"a"}
        assert one.entries(["a"])["a"].state == "leased"
        reported = []
        one.commit_and_claim([created(Claim("a", "row a", None))], [], on_taken_over=reported.append)
        assert [outcome.created_id for outcome in reported] == ["doc-a-1"]
        assert one.entries(["a"])["a"].state == "leased"
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(leases)) == 0


def test_the_clock_of_the_database_goes_on_during_a_transaction(engine):
    with engine.begin() as connection:
        first, second = (connection.scalar(sa.select(DatabaseNow())) for _ in range(2))
        assert second > first
        assert abs(datetime.now(UTC) - second) < timedelta(minutes=1)


def test_a_thread_keeps_a_lease_alive(engine):
    ledger = Ledger(engine, leases=LeaseSettings(seconds=0.4))
    with ledger, documents(ledger) as memory, ledger.engine.connect() as connection:
        memory.commit_and_claim([], claims(memory, "a"))
        beats, deadline = set(), time.monotonic() + 60
        while len(beats) < 4:
            assert time.monotonic() < deadline
            beats.add(connection.scalar(sa.select(leases.c.heartbeat_at)))
            connection.rollback()


def transactions(ledger):
    with ledger.engine.connect() as connection:
        return connection.exec_driver_sql("SELECT pg_current_xact_id()::text::bigint").scalar_one()


def test_a_group_is_a_transaction_of_its_own_and_the_next_ones_can_be_rolled_back(ledger):
    with documents(ledger) as memory:
        wanted = claims(memory, "b", "a")
        assert memory.commit_and_claim([], wanted) == {"a", "b"}
        before = transactions(ledger)
        memory.commit_and_claim(list(map(created, wanted)), claims(memory, "c"))
        assert transactions(ledger) == before + 2
        with away(ledger.engine, "UPDATE", times=ATTEMPTS, code=READ_ONLY), pytest.raises(AssistantLedgerError):
            memory.commit_and_claim([created(Claim("c", "row c", None))], claims(memory, "a"))
        assert {key: one.state for key, one in memory.entries(["a", "c"]).items()} == {"a": "created", "c": "leased"}


def test_a_key_that_a_changed_source_repeats_is_recorded_and_claimed_apart(ledger):
    with documents(ledger) as memory:
        twice = [Claim("a", "row a", None)] * 2
        assert memory.commit_and_claim([], twice) == {"a"}
        assert memory.commit_and_claim([created(twice[0])], twice) == set()
        assert memory.entries(["a"])["a"].state == "created"


def test_a_group_costs_one_statement(ledger):
    with documents(ledger) as memory:
        first = claims(memory, "a", "b")
        memory.commit_and_claim([], first)
        second = claims(memory, "c", "d")
        found = statements_of(ledger.engine, lambda: memory.commit_and_claim(list(map(created, first)), second))
        assert found == ["INSERT INTO assistant_documents"]


def test_stale_documents(ledger):
    with documents(ledger) as memory:
        wanted = claims(memory, *"abc")
        memory.commit_and_claim([], wanted)
        memory.commit_and_claim([created(claim) for claim in wanted], [])
    with documents(ledger, run=OTHER_RUN) as memory:
        assert list(memory.stale(lambda key: key != "b")) == [("row b", "doc-b-1", None, "b")]
    with documents(ledger, source="another") as memory:
        assert not list(memory.stale(lambda _: False))


def test_stale_documents_of_groups(ledger, engine):
    pages = {page: [f"{page}{number}" for number in range(4)] for page in "abc"}
    scope = DocumentScope(site_at(SITE), "documents/text")
    facts = {"scope": scope, "source": "dag.task", "has_groups": True}
    with ledger.documents(run=RUN, **facts) as memory:
        wanted = [Claim(key, f"row {key}", None, document_group(page)) for page, keys in pages.items() for key in keys]
        assert memory.commit_and_claim([], wanted) == {claim.key for claim in wanted}
        memory.commit_and_claim([created(claim) for claim in wanted], [])
        memory.set_groups({"c3": document_group("a"), "unknown": document_group("a")})
    groups = sorted(document_group(page).key for page in "ab")
    with ledger.documents(run=OTHER_RUN, **facts) as memory:
        found = {one.label: one.group for one in memory.stale_in_groups(groups, {"a0", "a1", "b0"}.__contains__)}
        assert found == {
            f"row {key}": page
            for key, page in (("a2", "a"), ("a3", "a"), ("c3", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b"))
        }
        assert memory.contents(["a0"])["a0"][-1] == document_group("a").key
    mapped = [RunRef("dag", "next", "task", index) for index in range(2)]
    with ledger.documents(run=mapped[0], **facts) as memory:
        claim = Claim("a9", "row a9", None, document_group("a"))
        memory.commit_and_claim([], [claim])
        memory.commit_and_claim([created(claim)], [])
    shared = []
    with ledger.documents(run=mapped[1], **facts) as memory:
        left = memory.stale_in_groups(groups, lambda key: key == "b0", on_shared=lambda *one: shared.append(one))
        assert {one.label for one in left} == {"row b1", "row b2", "row b3"}
        assert shared == [(document_group("a"), 0)]


def test_the_search_for_stale_documents_of_groups_uses_the_index(ledger, engine):
    scope = DocumentScope(site_at(SITE), "documents/text")
    facts = {"scope": scope, "source": "dag.task", "has_groups": True}
    groups = [document_group(f"page {number}") for number in range(1000)]
    with ledger.documents(run=RUN, **facts) as memory:
        for start in range(0, 4000, 400):
            wanted = [Claim(f"{key:04}", "row", None, groups[key % 1000]) for key in range(start, start + 400)]
            memory.commit_and_claim([], wanted)
            memory.commit_and_claim([created(claim) for claim in wanted], [])
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE assistant_documents"))
        texts = []
        sa.event.listen(engine, "before_cursor_execute", lambda _, __, text, values, *___: texts.append((text, values)))
        some = sorted(group.key for group in groups[:20])
        assert sum(1 for _ in memory.stale_in_groups(some, lambda _: False)) == 80
    ((text, values),) = [one for one in texts if "group_key IN" in one[0]]
    with engine.connect() as connection:
        plan = "".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "assistant_documents_by_group" in plan
    assert "Seq Scan" not in plan


def test_concurrent_claims_of_the_same_keys_in_any_order(server, ledger):
    keys, winners, failures = [f"{number:04}" for number in range(400)], [], []
    barrier = threading.Barrier(4)

    def wants(number):
        engine = sa.create_engine(server.url)
        try:
            with documents(Ledger(engine, now=lambda: START), run=RunRef("dag", str(number), "task", -1)) as memory:
                order = keys[number * 100 :] + keys[: number * 100]
                barrier.wait()
                settled = []
                for start in range(0, len(order), 20):
                    wanted = claims(memory, *order[start : start + 20])
                    won = memory.commit_and_claim(settled, wanted)
                    settled = [created(claim) for claim in wanted if claim.key in won]
                    winners.extend(won)
                memory.commit_and_claim(settled, [])
        except Exception as error:  # noqa: BLE001 (asserted below)
            failures.append(error)
        finally:
            engine.dispose()

    threads = [threading.Thread(target=wants, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    # If another thread has finished a key before this loop reads it, claiming it again is correct.
    assert set(winners) == set(keys)


def test_changes_of_documents_are_recorded(engine):
    ledger = Ledger(engine, now=lambda: START)
    long_id = "d" * 40_000
    with ledger.documents(scope=DocumentScope(site_at(SITE), "documents/qa"), source="s", run=RUN) as memory:
        claims = [Claim(key, key, None) for key in "abc"]
        assert memory.commit_and_claim((), claims) == {"a", "b", "c"}
        ids = dict(zip("abc", ("1", long_id, "3"), strict=True))
        memory.commit_and_claim([ClaimOutcome(claim, "created", "old", ids[claim.key]) for claim in claims], ())
        entry = memory.entries(["a"])["a"]
        again = Claim("a", "a", entry)
        assert memory.commit_and_claim((), [again]) == {"a"}
        memory.commit_and_claim([ClaimOutcome(again, "created", "new", "4")], ())
        changes = memory.changes()
        (superseded,) = changes.superseded()
        assert (superseded.document_id, superseded.successor) == ("1", "4")
        stale = [KnownDocument.stale(found) for found in memory.stale(lambda key: key == "a")]
        assert sorted(document.document_id for document in stale) == ["3", long_id]
        assert changes.uses_of({"1", "3", "4"}) == {"3": 1, "4": 1}
        for _ in range(2):
            # A claim replaces that of a killed try.
            changes.claim([superseded, *stale], "delete")
        changes.record(stale[:1], "delete", "refused")
        changes.record_removed([superseded, *stale[1:]], "delete")
        assert not changes.superseded()
        left = list(memory.stale(lambda key: key == "a"))
        assert [found.created_id for found in left] == [stale[0].document_id]
    with engine.connect() as connection:
        rows = connection.execute(sa.select(document_changes)).mappings().all()
    assert sorted(row["outcome"] for row in rows) == ["done", "done", "failed"]


TEXTS = {"long": "x" * 40_000, "NUL": "a\0b", "half a surrogate": "a\ud83d", "all": f"\0\udcff{'ü' * 9_000}"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_ids_and_labels_are_of_any_length_and_have_any_character(text, engine):
    ledger = Ledger(engine, now=lambda: START)
    stored = text.replace("\0", "\\x00").replace("\ud83d", "\\ud83d").replace("\udcff", "\\udcff")
    with ledger.documents(scope=DocumentScope(site_at(SITE, text), "documents/qa"), source=text, run=RUN) as memory:
        claim = Claim("k", text, None)
        assert memory.commit_and_claim((), [claim]) == {"k"}
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", text, error=text)], ())
        assert list(memory.stale(lambda _: False)) == [(stored, stored, None, "k")]
    row, _ = submit(ledger, lambda: accepted(text), site_url=SITE, site_id=text, session_id=text)
    assert row.request_id == text
    record_ends(engine, site_at(SITE, text), {text: RequestEnd("complete", START)})
    assert find_request(engine, site_at(SITE, text), text).state == "complete"
    assert [rate(ledger, text, session_id=text, request_id=text)[1] for _ in range(2)] == [True, False]


def test_sites_with_ids_of_any_length_are_told_apart(ledger):
    for number in range(3):
        site = f"https://h/{'x' * 1000}/{number}"
        facts = {"scope": DocumentScope(site_at(site, "s"), "documents/qa"), "source": "kb", "run": RUN}
        for expected in ({"k"}, set()):
            with ledger.documents(**facts) as memory:
                known = memory.entries(["k"])
                assert memory.commit_and_claim((), [Claim("k", "k", None)]) == expected
                assert set(known) == {"k"} - expected
        row, sent = submit(ledger, site_url=site)
        assert (row.request_id, sent) == ("req-1", True)
        assert find_request(ledger.engine, site_at(site), "req-1")


BATCH = ChatScope(site_at("https://h/m2m/sites/docs"), "async", "b")
DAY = (datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))


def batch(ledger):
    return ledger.chat_requests(scope=BATCH, run=RUN)


def test_ends_of_questions_and_requests_of_a_day(ledger, engine):
    scope = "https://h/m2m/sites/docs"
    submit(ledger, lambda: accepted("alone"), site_url=scope)
    with batch(ledger) as memory:
        wanted = claims(memory, *(f"{number:03}" for number in range(250)))
        memory.commit_and_claim([], wanted)
        memory.commit_and_claim([created(claim) for claim in wanted], [])
        ends = {
            f"doc-{claim.key}-1": RequestEnd("complete", START + timedelta(seconds=2), "s") for claim in wanted[:200]
        }
        # If all values of a statement are None, PostgreSQL cannot infer a type.
        ends |= {f"doc-{claim.key}-1": RequestEnd("timed_out", None, None) for claim in wanted[200:]}
        memory.record_ends(ends)
        memory.record_ends({"doc-000-1": RequestEnd("lost", START, "s")})
        memory.commit_and_claim([], claims(memory, "001"))
    rows = ledger.read(requests_between, *DAY, site_at(scope))
    assert Counter(row["state"] for row in rows) == {
        "open": 1, "complete": 198, "timed_out": 50, "lost": 1, "ambiguous": 1,
    }  # fmt: skip
    assert {row["seconds"] for row in rows if row["state"] == "complete"} == {2.0}
    assert len(ledger.read(requests_between, *DAY)) == len(rows)
    assert ledger.read(requests_between, *DAY, site_at("https://h/m2m/sites/doc")) == []


def test_an_effect_that_a_killed_attempt_saved_elsewhere_is_recorded_late(ledger):
    with batch(ledger) as killed:
        killed.commit_and_claim([], claims(killed, "a", "b", "c"))
    made = [AcceptedQuestion("a", "content", "a\0\ud800", START, 1), AcceptedQuestion("b", "content", None, START, 1)]
    with batch(ledger) as later:
        later.record_late(made)
        assert sorted(later.accepted()) == made
        assert later.entries(["c"])["c"].state == "ambiguous"


def test_loads_of_a_day(ledger, engine):
    facts = {"scope": DocumentScope(site_at("s"), "documents/qa"), "source": "dag.load", "run": RUN}
    with ledger.load(**facts) as record:
        record.counts = {"rows": 3, "created": 3, "seconds": 0.123456789}
        (row,) = ledger.read(loads_between, *DAY)
        assert row["outcome"] == "unfinished"
    (row,) = ledger.read(loads_between, *DAY, site_at("s"))
    assert (row["outcome"], row["ended_at"], row["rows"], row["seconds"]) == ("succeeded", START, 3, 0.123456789)
    assert ledger.read(loads_between, *DAY, site_at("other")) == []


def test_many_open_a_ledger_at_once(server, engine):
    def opens():
        mine = sa.create_engine(server.url)
        Ledger(mine).close()

    at_once(6, opens)
    with engine.connect() as connection:
        assert version_of(connection) == SCHEMA_VERSION


def test_an_unreachable_server(server, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    away = sa.create_engine(server.url.replace(f":{server.port}/", ":1/"))
    with pytest.raises(AssistantLedgerError, match="Nothing was sent"):
        Ledger(away)


class PostgresCase(LoadAttempts):
    """A load with a ledger on PostgreSQL, opened through an Airflow connection."""

    engine: sa.Engine
    env: dict[str, str]

    def attempt(self, numbers, **changes):
        return super().attempt(numbers, env=self.env, **changes)

    def outcomes(self, ledger=None):
        table = metadata.tables["assistant_documents"]
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(table.c.label, table.c.outcome, table.c.document_id)).all()
        return {int(label): (outcome, document_id) for label, outcome, document_id in rows}


@pytest.fixture
def case(server, engine, remote, tmp_path, monkeypatch):
    case = PostgresCase(remote, tmp_path / "home", monkeypatch)
    case.engine = engine
    case.env = {"AIRFLOW__ASSISTANT__LEDGER_CONN_ID": "ledger", "AIRFLOW_CONN_LEDGER": server.airflow_url}
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    return case


def test_a_load_and_its_second_run(case):
    assert case.run(case.attempt(ROWS))["created"] == len(ROWS)
    posts = len(case.service.journal(method="POST"))
    again = case.attempt(range(5, len(ROWS)), run_id="again")
    result = case.run(again)
    assert (result["created"], result["unchanged"], result["stale"]) == (0, len(ROWS) - 5, 5)
    assert listed(again.findings_path, "stale") == set(range(5))
    assert len(case.service.journal(method="POST")) == posts
    assert not case.ledger.exists()


@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_a_killed_load(on_ambiguous, case):
    attempt = case.attempt(ROWS, options={"on_ambiguous": on_ambiguous})
    case.kill_in_flight(attempt, 80)
    case.agree()
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete() if on_ambiguous == "retry" else audit.exact()


def test_another_run_takes_over_when_the_lease_of_a_killed_load_expires(case, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", "5")
    case.kill_in_flight(case.attempt(ROWS), 80)
    case.agree()
    in_flight = {row for row, (outcome, _) in case.outcomes().items() if outcome == "claimed"}
    assert in_flight
    change_lease(case.engine, seconds=3600)
    other = case.attempt(ROWS, run_id="other")
    assert case.run(other)["skipped"] == len(in_flight)
    assert listed(other.findings_path, "skipped") == in_flight
    change_lease(case.engine, seconds=5)
    deadline = time.monotonic() + 120
    while case.run(other)["skipped"]:
        assert time.monotonic() < deadline, "the lease expires"
        time.sleep(0.2)
    audit = case.audit(ROWS, other)
    audit.honest()
    assert not audit.missing
    assert set(audit.duplicated) <= in_flight


def test_two_processes(case):
    attempts = [case.attempt(ROWS, task_id="one"), case.attempt(range(100, 350), task_id="other")]
    results = [ended.result for ended in [loader.wait() for loader in map(case.start, attempts)]]
    audit = case.audit(range(350), attempts[0])
    assert not audit.missing
    assert not audit.duplicates
    assert sum(result["created"] for result in results) == 350


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGQUIT])
def test_the_server_restarts_midway(number, case, server):
    attempt = case.attempt(ROWS)
    loader = case.start(attempt)
    case.wait_for(60)
    server.stop(number)
    server.start()
    ended = loader.wait()
    assert ended.result, ended.trace
    assert ended.result["created"] == len(ROWS)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert not audit.duplicates


def test_the_server_is_down_for_long(case, server):
    attempt = case.attempt(ROWS)
    loader = case.start_and_hold(case.attempt(ROWS, setup="gives_the_ledger_up_soon"), 80)
    server.stop(signal.SIGQUIT)
    try:
        case.service.faults(rules=[])
        ended = loader.wait()
    finally:
        server.start()
    assert ended.error.startswith("AssistantLedgerError: the ledger cannot be written"), ended.trace
    assert ATTEMPTS > 2
    case.agree()
    unrecorded = set(case.documents()) - {row for row, (outcome, _) in case.outcomes().items() if outcome == "created"}
    assert unrecorded <= listed(attempt.findings_path, "ambiguous")
    assert len(unrecorded) <= CONCURRENCY
    case.run(attempt)
    case.audit(ROWS, attempt).complete()


def test_entries_equal_the_columns(ledger):
    with documents(ledger) as memory:
        (claim,) = claims(memory, "a")
        memory.commit_and_claim([], [claim])
        known = memory.entries(["a"])["a"]
        assert known == LedgerEntry("leased", "claimed", known.claim, memory.source, None, None)


GRANT = "GRANT ALL ON SCHEMA public TO worker; GRANT ALL ON ALL TABLES IN SCHEMA public TO worker"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'"
# What happens to the ledger in the middle of a load, and what undoes it.
FAULTS = {
    "no update": ("REVOKE UPDATE ON assistant_documents FROM worker", GRANT),
    "no right": ("REVOKE ALL ON assistant_documents FROM worker", GRANT),
    "no schema": ("REVOKE ALL ON SCHEMA public FROM worker", GRANT),
    "other column": (
        "ALTER TABLE assistant_documents RENAME outcome TO result",
        "ALTER TABLE assistant_documents RENAME result TO outcome",
    ),
    "dropped": ("DROP TABLE assistant_documents", None),
    "role is read-only": (
        f"ALTER ROLE worker SET default_transaction_read_only = on; {CUT}",
        "ALTER ROLE worker RESET default_transaction_read_only",
    ),
    "database is read-only": (
        f"ALTER DATABASE postgres SET default_transaction_read_only = on; {CUT}",
        "ALTER DATABASE postgres RESET default_transaction_read_only",
    ),
    "no login": (f"ALTER ROLE worker NOLOGIN; {CUT}", "ALTER ROLE worker LOGIN"),
    "no connection": (f"ALTER ROLE worker CONNECTION LIMIT 0; {CUT}", "ALTER ROLE worker CONNECTION LIMIT -1"),
    "refused": (None, None),
}


class FailingLoad:
    """A load of random size, by the operator or the command, whose ledger fails at a random moment."""

    def __init__(self, kind, random, server, cli, folder):
        self.kind, self.server, self.cli, self.random = kind, server, cli, random
        self.rows, self.concurrency = random.randint(12, 40), random.choice([1, 3, 8])
        self.first = random.randint(1, self.rows // 2)
        self.on_ambiguous, self.is_command = random.choice(["retry", "skip"]), random.random() < 0.5
        self.driver = random.choice(["postgresql+psycopg", "postgresql+psycopg2"])
        self.findings, self.file = folder / f"{kind}.parquet", folder / f"{kind}.csv"
        pd.DataFrame(rows_of(self.rows)).to_csv(self.file, index=False)
        self.is_broken = False
        self.admin = sa.create_engine(server.url, isolation_level="AUTOCOMMIT")

    def sql(self, text):
        with self.admin.connect() as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            return connection.exec_driver_sql(text)

    def connection(self):
        facts = {"host": "127.0.0.1", "port": self.server.port, "login": "worker", "schema": "postgres"}
        return json.dumps({"conn_type": "postgres", "extra": {"sqlalchemy_scheme": self.driver}, **facts})

    def break_after(self, service):
        def break_ledger(connection, *_):
            if self.is_broken or connection.engine is self.admin or service.posts() < self.first:
                return
            self.is_broken = True
            if self.kind == "refused":
                self.server.stop(signal.SIGQUIT)
            else:
                self.sql(FAULTS[self.kind][0])

        return break_ledger

    def undo(self):
        self.admin.dispose()
        if self.kind == "refused":
            self.server.start()
        elif FAULTS[self.kind][1]:
            self.sql(FAULTS[self.kind][1])

    def command(self):
        options = ("--on-ambiguous", self.on_ambiguous, "--findings", self.findings, "-o", "json")
        return self.cli("load", self.file, "--key", "id", *options)

    def operator(self, **options):
        return AssistantLoadQAOperator(
            task_id="load", source=rows_of(self.rows), key_columns="id", max_concurrency=self.concurrency,
            findings_path=str(self.findings), on_ambiguous=self.on_ambiguous, **options,
        )  # fmt: skip

    def fails(self):
        """Return what the failed load says about what is safe."""
        if self.is_command:
            ran = self.command()
            assert ran.code == 5, self.kind
            assert "Traceback" not in ran.err
            assert "LINE 1" not in ran.err
            return " ".join(ran.err.split())
        operator, context = self.operator(), task_context("load")
        with pytest.raises(AssistantLedgerError) as caught:
            operator.execute(context)
        assert "LINE 1" not in str(caught.value)
        is_permanent = isinstance(caught.value, AssistantLedgerPermanentError)
        assert is_permanent == (self.kind not in {"no connection", "refused"})
        return operator.failure_context(context).safe

    def runs_again(self):
        if self.is_command:
            return self.command().json
        return self.operator(max_rejected=0).execute(task_context("load"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_the_numbers_of_a_load_are_those_of_the_ledger(
    seed, server, service, connection, ledger_home, cli, tmp_path, monkeypatch
):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    monkeypatch.setattr(load_engine, "GRACE", 60.0)
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "team")
    server.run_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP ROLE IF EXISTS worker")
    server.run_sql("CREATE ROLE worker LOGIN")
    random = Random(seed)
    for kind in FAULTS:
        load = FailingLoad(kind, random, server, cli, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", load.connection())
        load.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        Ledger(sa.create_engine(server.url)).close()
        load.sql(GRANT)
        service.reset()
        event = random.choice(["before_cursor_execute", "after_cursor_execute"])
        break_ledger = load.break_after(service)
        sa.event.listen(sa.Engine, event, break_ledger)
        try:
            told = load.fails()
        finally:
            sa.event.remove(sa.Engine, event, break_ledger)
            load.undo()
        created = {document["title"].replace("T", "k") for document in service.documents("acme-docs")}
        # The numbers are true as well if the ledger cannot be read any more.
        said = said_of(told.replace("had recorded", "has recorded"))
        assert said[0] == len(created), kind
        if kind == "dropped":
            assert "cannot be read now" in told
            continue
        recorded = {key for (key,) in load.sql("SELECT label FROM assistant_documents WHERE outcome = 'created'")}
        assert said == (len(created), len(recorded), len(created - recorded)), kind
        listed = {found["key"] for found in read_findings(load.findings) if found["kind"] == "ambiguous"}
        assert listed == created - recorded
        # The next run does what the message says.
        others = re.search(r"the outcome of (\d+) other row", told)
        claimed = said[2] + (int(others[1]) if others else 0)
        has_lease = bool(load.sql("SELECT * FROM assistant_leases").all())
        assert ("in the next 60 s skips these rows" in told) == (has_lease and claimed > 0), kind
        load.sql("DELETE FROM assistant_leases")
        result = load.runs_again()
        copies = Counter(document["title"] for document in service.documents("acme-docs"))
        doubled = sum(copies.values()) - len(copies)
        is_sent = load.on_ambiguous == "retry"
        assert result["failed"] == 0
        assert doubled == (said[2] if is_sent else 0), kind
        counts = (result["possibly_duplicated"], result["ambiguous"])
        assert counts == ((claimed, 0) if is_sent else (0, claimed)), kind
