"""Groups of documents in the ledger: recorded with claims, set later, and searched for stale documents by group."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope, RunRef, document_group
from airflow_provider_assistant.ledger.entries import GROUPS
from airflow_provider_assistant.ledger.schema import documents
from tests.sites import site_at

SCOPE = DocumentScope(site_at("https://h/m2m/sites/docs"), "documents/text")


def opened(ledger, *, map_index=-1, run_id="run", source="dag.load", scope=SCOPE, has_groups=True):
    run = RunRef("dag", run_id, "load", map_index)
    return ledger.documents(scope=scope, source=source, run=run, has_groups=has_groups)


def create(memory, page, *keys, outcome="created"):
    """Create documents as a load does: claim, then record."""
    known = memory.entries(keys)
    claims = [Claim(key, f"label {key}", known.get(key), page and document_group(page)) for key in keys]
    assert memory.commit_and_claim((), claims) == set(keys)
    memory.commit_and_claim(
        [ClaimOutcome(claim, outcome, f"hash {claim.key}", f"doc {claim.key}") for claim in claims], ()
    )


def stale(memory, *pages, seen=()):
    groups = sorted(document_group(page).key for page in pages)
    return {one.label.removeprefix("label "): one.group for one in memory.stale_in_groups(groups, {*seen}.__contains__)}


def test_a_name_always_has_the_same_group():
    """Other groups would make all documents of a page unknown to it."""
    assert document_group("office.md") == (-8361514445465039284, "office.md")
    assert len(document_group("x" * 1000).label) == 250
    assert document_group("x" * 1000).key != document_group("x" * 1001).key


def test_only_the_missing_documents_of_the_given_groups_are_stale(ledger):
    with opened(ledger) as memory:
        create(memory, "a", "a1", "a2", "a3")
        create(memory, "b", "b1")
        create(memory, None, "old")
        assert stale(memory, "a", seen={"a1", "a3"}) == {"a2": "a"}
        assert stale(memory, "a", "b", seen={"a1"}) == {"a2": "a", "a3": "a", "b1": "b"}
        assert stale(memory, "c") == stale(memory) == {}


def test_groups_belong_to_their_source_and_scope(ledger):
    other = DocumentScope(site_at("https://h/m2m/sites/docs"), "documents/text", "x")
    with opened(ledger) as memory, opened(ledger, source="dag.other") as theirs, opened(ledger, scope=other) as apart:
        create(memory, "a", "a1")
        create(theirs, "a", "a2")
        create(apart, "a", "a1", "a3")
        assert [stale(one, "a") for one in (memory, theirs, apart)] == [
            {"a1": "a"},
            {"a2": "a"},
            {"a1": "a", "a3": "a"},
        ]
        memory.set_groups({"a2": document_group("b")})
        assert stale(theirs, "a") == {"a2": "a"}


@pytest.mark.parametrize("outcome", ["rejected", "failed", "ambiguous"])
def test_what_is_not_known_to_exist_is_not_stale(outcome, ledger):
    with opened(ledger) as memory:
        create(memory, "a", "a1", outcome=outcome)
        assert stale(memory, "a") == {}


def test_a_document_can_move_to_another_group(ledger):
    with opened(ledger) as memory:
        create(memory, "a", "k")
        create(memory, "b", "k")
        assert (stale(memory, "a"), stale(memory, "b")) == ({}, {"k": "b"})
        memory.set_groups({"k": document_group("c"), "unknown": document_group("c")})
        assert (stale(memory, "b"), stale(memory, "c")) == ({}, {"k": "c"})


def test_a_load_without_groups_writes_none(ledger):
    with opened(ledger, has_groups=False) as memory:
        create(memory, "a", "k")
        assert list(memory.stale(lambda _: False)) == [("label k", "doc k", None, "k")]
    with ledger.engine.connect() as connection:
        assert connection.execute(sa.select(documents.c.group_key, documents.c.group_label)).all() == [(None, None)]


def test_many_groups_are_read_in_batches(ledger):
    rng = random.Random(1)
    pages = [f"page {number}" for number in range(GROUPS + 10)]
    with opened(ledger) as memory:
        claims = [Claim(page, f"label {page}", None, document_group(page)) for page in pages]
        memory.commit_and_claim((), claims)
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", claim.key) for claim in claims], ())
        wanted = rng.sample(pages, GROUPS + 5)
        queries = []
        sa.event.listen(ledger.engine, "before_cursor_execute", lambda _, __, text, *___: queries.append(text))
        assert stale(memory, *wanted) == {page: page for page in wanted}
    assert sum("group_key IN" in text for text in queries) == 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_search_uses_the_index(ledger):
    with opened(ledger) as memory:
        create(memory, "a", "a1")
        texts = []
        sa.event.listen(
            ledger.engine, "before_cursor_execute", lambda _, __, text, values, *___: texts.append((text, values))
        )
        stale(memory, "a", "b")
    ((text, values),) = [one for one in texts if "group_key IN" in one[0]]
    with ledger.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).all()
    assert [row[-1] for row in plan] == [
        "SEARCH assistant_documents USING INDEX assistant_documents_by_group (group_key=? AND scope=?)"
    ]


def test_a_group_of_several_mapped_tasks_is_left_out(ledger):
    found = []
    with opened(ledger, map_index=-1, run_id="earlier") as memory:
        create(memory, "a", "a0")
        create(memory, "b", "b0")
    with opened(ledger, map_index=0) as first, opened(ledger, map_index=1) as second:
        create(first, "a", "a1")
        create(second, "a", "a2")
        create(second, "b", "b2")
        keys = sorted(document_group(page).key for page in "ab")
        stale = second.stale_in_groups(keys, {"a2", "b2"}.__contains__, on_shared=lambda *one: found.append(one))
        assert [one.label for one in stale] == ["label b0"]
        assert found == [(document_group("a"), 0)]


@pytest.mark.parametrize("change", ["same task", "other run", "seen"])
def test_a_group_of_one_mapped_task_is_not_left_out(change, ledger):
    """A retry and the next run continue the groups of the task, whose map index may have changed."""
    with opened(ledger, map_index=0) as first:
        create(first, "a", "a1", "a2")
    run = {"same task": {"map_index": 0}, "other run": {"map_index": 1, "run_id": "next"}, "seen": {"map_index": 1}}
    with opened(ledger, **run[change]) as second:
        seen = {"a1", "a2"} if change == "seen" else {"a1"}
        assert stale(second, "a", seen=seen) == ({} if change == "seen" else {"a2": "a"})
