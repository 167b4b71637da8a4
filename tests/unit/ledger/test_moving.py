"""``ledger move`` gives a service another name; everything that was known is known there."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Claim, DocumentScope, Site, find_request
from airflow_provider_assistant.ledger.document_changes import KnownDocument
from airflow_provider_assistant.ledger.moving import Move, move
from airflow_provider_assistant.ledger.schema import TABLES, document_changes, loads
from airflow_provider_assistant.ledger.site_queries import known_ids, removed_ids
from tests.unit.ledger.single import RUN
from tests.unit.ledger.test_scopes import record

URL = "https://old.example/api/v1/m2m/sites/docs"
OLD = [Site("old", tenant, site_id, URL) for tenant in (None, "t", "u") for site_id in ("docs", "help")]
KINDS = ("document", "chat_request", "rating", "document_change", "load")


def sites(ledger):
    """Return the sites that each table has."""
    found = {}
    with ledger.engine.connect() as connection:
        for table in (*TABLES.values(), document_changes, loads):
            c = table.c
            rows = connection.execute(sa.select(c.service, c.tenant_id, c.site_id)).all()
            found[table.name] = sorted((Site(*row) for row in rows), key=str)
    return found


def fill(ledger):
    for number, site in enumerate(OLD):
        record(ledger, number, site)
        with ledger.documents(scope=DocumentScope(site, "documents/qa"), source="kb", run=RUN) as opened:
            change = [KnownDocument("key", "key", f"gone-{number}", "stale")]
            opened.changes().claim(change, "delete")
            opened.changes().record(change, "delete")


@pytest.mark.promise("ledger", "A service gets another name in the ledger, and everything is known under it.")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Move("old", "new"), lambda site: ("new", site.tenant_id)),
        (Move("old", "new", site_id="help"), lambda site: ("new" if site.site_id == "help" else "old", site.tenant_id)),
        (Move("old", "new", tenant_id="t"), lambda site: ("new" if site.tenant_id == "t" else "old", site.tenant_id)),
        (Move("old", "old", to_tenant="v"), lambda site: ("old", site.tenant_id or "v")),
        (
            Move("old", "new", tenant_id="u", to_tenant="v"),
            lambda site: ("new", "v") if site.tenant_id == "u" else ("old", site.tenant_id),
        ),
    ],
)
def test_everything_of_a_service_moves(wanted, expected, ledger):
    fill(ledger)
    before = sites(ledger)
    counts = move(ledger, wanted, dry_run=True)
    assert sites(ledger) == before
    assert move(ledger, wanted) == counts
    after = [Site(*expected(site), site.site_id, URL) for site in OLD]
    moved = sum(site != new for site, new in zip(OLD, after, strict=True))
    assert counts == dict.fromkeys(KINDS, moved)
    for table, found in sites(ledger).items():
        assert found == sorted(after, key=str), table
    for number, site in enumerate(after):
        with ledger.documents(scope=DocumentScope(site, "documents/qa"), source="kb", run=RUN) as opened:
            assert opened.entries(["key"])["key"].created_id == f"doc-{number}"
            # The change is found by its key: it is not recorded a second time.
            opened.changes().record([KnownDocument("key", "key", f"gone-{number}", "stale")], "delete", "again")
        assert ledger.read(removed_ids, site) == set()
        assert ledger.read(known_ids, site, [f"gone-{number}"]) == {f"gone-{number}"}
        assert find_request(ledger.engine, site, f"request-{number}")


def test_a_move_is_refused_as_a_whole(ledger):
    fill(ledger)
    refused = {
        "the old ones": Move("old", "old"),
        "are the old": Move("old", "old", tenant_id="t", to_tenant="t"),
        "no such entries": Move("other", "new"),
        "no such": Move("old", "new", site_id="nothing"),
        "entries in both places, with 1 key: 'key'": Move("old", "old", to_tenant="t"),
    }
    before = sites(ledger)
    for reason, wanted in refused.items():
        for dry_run in (True, False):
            with pytest.raises(AssistantInputError, match=reason):
                move(ledger, wanted, dry_run=dry_run)
    scope = DocumentScope(OLD[3], "documents/text")
    with ledger.documents(scope=scope, source="kb", run=RUN) as living:
        living.commit_and_claim((), [Claim("a", "row a", None)])
        before = sites(ledger)
        with pytest.raises(AssistantInputError, match="kb is sending 'row a'"):
            move(ledger, Move("old", "new"))
        assert sites(ledger) == before
    assert move(ledger, Move("old", "new"))["document"] == len(OLD) + 1
