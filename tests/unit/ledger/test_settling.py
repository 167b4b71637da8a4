"""Settling of all entries that a filter matches: as each by itself, and only the list that a person has seen."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import page_of_ambiguous
from airflow_provider_assistant.ledger.resolution import allowed_outcomes, resolve
from airflow_provider_assistant.ledger.schema import TABLES, documents
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.ledger.settling import NEEDS_MORE, NOT_ALLOWED, settle_all
from airflow_provider_assistant.ledger.upkeep import DeletedDocuments, forget
from tests.sites import site_at
from tests.unit.ledger.single import claim_chat, claim_rating

NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)
SITES = (
    site_at("https://a.example.com/m2m/sites/help", "help"),
    site_at("https://b.example.com/m2m/sites/help", "help", "acme"),
)


def fill(ledger, count, seed=1):
    """Insert documents of all outcomes, two sites of one id, three sources and DAGs; some are outdated."""
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        site = dice.choice(SITES)
        has_older = dice.random() < 0.4
        claimed_at = NOW - timedelta(minutes=dice.randint(0, 500))
        source = dice.choice(("kb.load", "kb.guides", "faq_100%"))
        row = {
            **site.recorded(),
            "scope": json.dumps([*site.columns().values(), "documents/qa", None]),
            "key": f"{number:064x}",
            "source": source,
            "label": f"{dice.choice(('sku', 'SKU', 'خصم_5%'))}={number}",
            "outcome": dice.choice(("claimed", "ambiguous", "created", "failed")),
            "attempts": 1,
            "ambiguous": dice.randint(0, 1),
            "content_hash": f"{number:064x}" if has_older else None,
            "document_id": f"doc-{number}" if has_older and dice.random() < 0.8 else None,
            "superseded": json.dumps([f"old-{number}"]) if dice.random() < 0.2 else None,
            "sent_hash": f"{number + 1:064x}" if dice.random() < 0.7 else None,
            "claim": "token",
            "claimed_at": claimed_at,
            "stale_at": NOW if dice.random() < 0.5 else None,
            "dag_id": source.partition(".")[0],
            "endpoint": "documents/qa",
        }
        rows.append(row)
    with ledger.engine.begin() as connection:
        connection.execute(sa.insert(documents), rows)


def contents(ledger):
    """All entries, without the times and tokens that differ between two ledgers."""
    differing = {"claim", "claimed_at", "recorded_at"}
    found = []
    with ledger.engine.connect() as connection:
        for kind, table in TABLES.items():
            columns = [column for column in table.c if column.key not in differing]
            rows = connection.execute(sa.select(*columns).order_by(table.c.scope, table.c.key)).mappings()
            found += [(kind, dict(row)) for row in rows]
    return found


def confirmed(ledger, which, selection, outcome, **options):
    shown = settle_all(ledger, which, selection, outcome, **options)
    done = settle_all(ledger, which, selection, outcome, confirmation=shown.confirmation, **options)
    assert done == shown
    return done


SELECTIONS = (
    Selection(),
    Selection(site=SITES[1], label_part="sku"),
    Selection("help", dag_ids=frozenset({"faq_100%"}), source="faq_100%", label_part="خصم_5%"),
)


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_all_at_once_are_settled_as_each_by_itself(ledger, database, clock, selection):
    with Ledger(database("one_by_one"), now=clock) as other:
        for one in (ledger, other):
            fill(one, 60)
            claim_chat(one, "chat", "sku=1")
            claim_rating(one)
        for outcome in ("created", "failed"):
            entries = other.read(page_of_ambiguous, other.leases, selection, ALL).rows
            settled = [entry for entry in entries if outcome in allowed_outcomes(entry)]
            for entry in settled:
                resolve(other, entry, outcome)
            report = confirmed(ledger, "ambiguous", selection, outcome)
            assert (report.settled, report.kept.total()) == (len(settled), len(entries) - len(settled))
            assert set(report.kept) <= {NEEDS_MORE}
            assert report.sites == {entry.site for entry in settled}
            assert contents(ledger) == contents(other)
        for which in ("superseded", "stale"):
            before = contents(ledger)
            report = confirmed(ledger, which, selection, "deleted")
            assert len(report.labels) == min(report.settled, 100)
            changed = [entry for entry in before if entry not in contents(ledger)]
            assert len(changed) == report.settled
            gone = [one["superseded"] if which == "superseded" else one["document_id"] for _, one in changed]
            listed = [name for text in gone if text for name in (json.loads(text) if text[0] == "[" else [text])]
            labels = [one["label"] for _, one in changed if not (which == "superseded" or one["document_id"])]
            forget(other, DeletedDocuments(listed, labels))
            assert [one for one in contents(ledger) if one not in contents(other)] == []
            assert settle_all(ledger, which, selection, "deleted").settled == 0


@pytest.mark.promise("ledger", "Only the list of entries that a person has seen is settled at once.")
def test_thousands_are_settled_and_another_list_is_refused(ledger):
    fill(ledger, 3000)
    selection = Selection(source="kb.load")
    shown = settle_all(ledger, "ambiguous", selection, "failed")
    assert shown.settled > 450
    before = contents(ledger)
    one_of_them = documents.c.label == shown.labels[3]
    for changed in ({"claimed_at": NOW + timedelta(days=1)}, {"outcome": "created"}):
        with ledger.engine.begin() as connection:
            old = connection.execute(sa.select(documents).where(one_of_them)).mappings().one()
            connection.execute(sa.update(documents).where(one_of_them).values(changed))
        for confirmation in (shown.confirmation, "7-abc", ""):
            with pytest.raises(AssistantInputError, match="the list has changed") as refused:
                settle_all(ledger, "ambiguous", selection, "failed", confirmation=confirmation)
            assert refused.value.field == "confirm"
        with ledger.engine.begin() as connection:
            connection.execute(sa.update(documents).where(one_of_them).values({name: old[name] for name in changed}))
    assert contents(ledger) == before
    settle_all(ledger, "ambiguous", selection, "failed", confirmation=shown.confirmation)
    assert settle_all(ledger, "ambiguous", selection, "failed").settled == 0
    assert settle_all(ledger, "document", Selection(), "failed").settled > 450


def test_entries_of_other_dags_stay(ledger):
    fill(ledger, 50)
    report = confirmed(ledger, "document", Selection(), "failed", may_change=lambda dag_id: dag_id == "kb")
    assert report.dag_ids == {"kb"}
    assert set(report.kept) == {NOT_ALLOWED}
    assert settle_all(ledger, "document", Selection(), "failed").dag_ids == {"faq_100%"}


@pytest.mark.parametrize(
    ("which", "outcome"), [("stale", "created"), ("superseded", "failed"), ("ambiguous", "deleted")]
)
def test_a_list_has_its_outcomes(ledger, which, outcome):
    with pytest.raises(AssistantInputError, match="cannot be settled as"):
        settle_all(ledger, which, Selection(), outcome)
