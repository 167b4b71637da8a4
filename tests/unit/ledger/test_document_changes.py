"""What loads remove from use is recorded, and known when the ledger is compared with a site."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope
from airflow_provider_assistant.ledger.document_changes import KnownDocument
from airflow_provider_assistant.ledger.resolution import resolve
from airflow_provider_assistant.ledger.schema import document_changes
from airflow_provider_assistant.ledger.site_queries import removed_ids, site_entries
from tests.sites import site_at
from tests.unit.ledger.single import RUN, SITE_URL

SITE = site_at(SITE_URL)


def documents(ledger):
    return ledger.documents(scope=DocumentScope(SITE, "documents/qa"), source="kb", run=RUN)


def create(memory, ids):
    """Create a document of each key with this id."""
    known = memory.entries(list(ids))
    claims = [Claim(key, f"row {key}", known.get(key)) for key in ids]
    assert memory.commit_and_claim((), claims) == set(ids)
    memory.commit_and_claim([ClaimOutcome(claim, "created", "content", ids[claim.key]) for claim in claims], ())


def test_removed_documents_are_recorded_by_their_keys(ledger):
    long_id = "d" * 40_000
    with documents(ledger) as memory:
        create(memory, {"a": "1", "b": long_id, "c": "3"})
        create(memory, {"a": "4"})
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
    with ledger.engine.connect() as connection:
        assert sorted(connection.scalars(sa.select(document_changes.c.outcome))) == ["done", "done", "failed"]


def test_what_is_compared_with_the_list_of_a_site(ledger):
    with documents(ledger) as memory:
        create(memory, {"k": "doc-1"})
        create(memory, {"k": "doc-2"})
        assert memory.commit_and_claim((), [Claim("other", "row other", None)]) == {"other"}
        removed = KnownDocument("gone", "row gone", "doc-gone", "stale")
        memory.changes().claim([removed], "deactivate")
        assert ledger.read(removed_ids, SITE) == set()
        memory.changes().record([removed], "deactivate")
        assert ledger.read(removed_ids, SITE) == {"doc-gone"}
        assert memory.known_ids(["doc-1", "doc-2", "doc-gone", "unknown", "half \ud800"]) == {
            "doc-1",
            "doc-2",
            "doc-gone",
        }
        (entry,) = site_entries(ledger.engine, SITE)
        assert (entry.document_id, entry.superseded_ids, entry.label) == ("doc-2", ["doc-1"], "row k")
        (unresolved,) = memory.unresolved()
        assert unresolved.key == "other"
        resolve(memory, unresolved, "created", identifier="found", content_hash="content", status="draft")
        assert memory.unresolved() == []
        assert memory.entries(["other"])["other"].status == "draft"
