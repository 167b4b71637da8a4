"""Checks before the first request: another address of the service, a renamed source, another load of the file."""

from __future__ import annotations

import logging
import random
import shlex

import pytest
import sqlalchemy as sa
from airflow_provider_assistant.ledger.moving import Move, move
from airflow_provider_assistant.loading.preflight import RowAction, plan_load

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope, Ledger, RunRef, Site, sqlite_engine
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.loading.guards import check_plan
from airflow_provider_assistant.loading.options import LoadOptions
from tests.unit.loading.scripted_client import text_rows

RUN = RunRef("dag", "run", "task", -1)
OPTIONS = LoadOptions(max_concurrency=4)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), warn_if_new=False) as opened:
        yield opened


def rows_of(titles):
    return text_rows(titles, allow_empty=True)


def entries_of(ledger, site, source="kb", namespace=None):
    return ledger.documents(scope=DocumentScope(site, "documents/text", namespace), source=source, run=RUN)


def create(ledger, site, titles, source="kb", outcome="created", namespace=None):
    """Record documents as a load does."""
    with entries_of(ledger, site, source, namespace) as entries:
        for group in rows_of(titles).fingerprints():
            claims = [
                Claim(row.key, title, None, content_hash=row.content_hash)
                for row, title in zip(group, titles, strict=True)
            ]
            entries.commit_and_claim((), claims)
            ended = [
                ClaimOutcome(claim, outcome, row.content_hash, f"doc {claim.label}" if outcome == "created" else None)
                for claim, row in zip(claims, group, strict=True)
            ]
            entries.commit_and_claim(ended, ())


def check(ledger, site, titles, source="kb", namespace=None, missing_in="source", **options):
    """Return the plan of a load that passed the checks."""
    with entries_of(ledger, site, source, namespace) as entries:
        plan = plan_load(rows_of(titles), entries)
        check_plan(plan, entries, LoadOptions(max_concurrency=4, **options), missing_in)
        return plan


def site(host, service=None, tenant=None, site_id="docs"):
    return Site(service or host, tenant, site_id, f"https://{host}/api/v1/m2m/sites/{site_id}")


TITLES = [f"row {number}" for number in range(7)]
A, B = "a.example", "b.example:8443"
# The site of the first load, that of the second one, and whether the second one stops.
PAIRS = [
    (site(A), site(B), True),
    (site(B), site(A), True),
    (site(A), site("localhost"), True),
    (site(A, "prod"), site(B), True),
    (site(A, tenant="t"), site(B, tenant="t"), True),
    (site(A), site(B, tenant="t"), True),
    (site(A, tenant="t"), site(B), True),
    # A name is given later: it is the same address.
    (site(A), site(A, "prod"), True),
    (site(A, "prod"), site(A, "production"), True),
    (site(A, "prod"), site(A), True),
    # The tenant is given later, or no more.
    (site(A), site(A, tenant="t"), True),
    (site(A, tenant="t"), site(A), True),
    (site(A, "prod"), site(B, "prod", tenant="t"), True),
    # Other services, tenants and sites; and the same one.
    (site(A), site(B, "test"), False),
    (site(A, "prod"), site(B, "test"), False),
    (site(A, tenant="t"), site(A, tenant="u"), False),
    (site(A, tenant="t"), site(B, tenant="u"), False),
    (site(A), site(B, site_id="help"), False),
    (site(A), site(A, site_id="help"), False),
    (site(A, "prod"), site(B, "prod"), None),
    (site(A), site(A), None),
]


@pytest.mark.promise("loads", "A load stops before it creates its documents again at another address of the service.")
def test_the_same_source_at_another_address_stops_until_it_is_said_whether_it_is_the_same(ledger, caplog):
    for first, second, stops in PAIRS:
        with ledger.engine.begin() as connection:
            connection.execute(sa.delete(documents))
        caplog.clear()
        if stops:
            stopped_and_corrected(ledger, first, second)
            continue
        create(ledger, first, TITLES[:4])
        sent = 3 if stops is None else 7
        assert check(ledger, second, TITLES).count(RowAction.SEND) == sent
        assert ("creates them on" in caplog.text) == (first.site_id == second.site_id and second.service == "test")


def stopped_and_corrected(ledger, first, second):
    titles = TITLES
    create(ledger, first, titles[:4])
    create(ledger, first, titles[4:6], outcome="ambiguous")
    # Other sources, namespaces and rows are not those documents.
    check(ledger, second, titles, source="other")
    check(ledger, second, titles, namespace="de")
    check(ledger, second, ["row 7", "row 8"])
    with pytest.raises(AssistantInputError) as stopped:
        check(ledger, second, titles)
    message = str(stopped.value)
    assert "6 documents" in message
    for part in (repr(first.service), repr(second.service), first.url, second.url, "nothing was sent"):
        assert part.casefold() in message.casefold()
    if second.tenant_id is None and first.tenant_id is not None:
        assert f"tenant_id to {first.tenant_id!r}" in message
        moved = Site(second.service, first.tenant_id, "docs", second.url)
        if moved != first:
            move(ledger, Move(first.service, second.service))
    else:
        words = shlex.split(message.partition("`")[2].partition("`")[0])
        assert words[:6] == ["airflow", "assistant", "ledger", "move", first.service, second.service]
        options = dict(zip(words[6::2], words[7::2], strict=True))
        move(ledger, Move(*words[4:6], site_id=options.get("--site"), to_tenant=options.get("--to-tenant")))
        moved = second
    assert ("test" in message) == (first.service != second.service and first.address_name != second.address_name)
    if first.service != second.service:
        assert f"service_name to {first.service!r}" in message or first.tenant_id is None
    plan = check(ledger, moved, titles)
    assert (plan.count(RowAction.UNCHANGED), plan.count(RowAction.SEND)) == (4, 3)


@pytest.mark.promise("loads", "A load that was renamed names the source that has its documents.")
def test_a_renamed_load_is_told_the_name_that_its_documents_have(ledger, caplog):
    here, chance = site(A), random.Random(7)
    for number in range(12):
        namespace = f"n{number}"
        old = [f"row {index}" for index in range(chance.randint(2, 9))]
        kept = chance.sample(old, chance.randint(1, len(old)))
        own = [f"own {index}" for index in range(chance.choice([0, 3]))]
        new = [f"new {index}" for index in range(chance.choice([0, 2]))]
        create(ledger, here, old, source="old.load", namespace=namespace)
        create(ledger, here, own, namespace=namespace)
        caplog.clear()
        check(ledger, here, [*kept, *own, *new], namespace=namespace)
        (record,) = [record for record in caplog.records if "source_name='old.load'" in record.getMessage()]
        text = record.getMessage()
        assert record.levelno == logging.WARNING
        assert f"of {len(kept)} row" in text
        assert "adopt=True" in text
        gone = sorted(set(old) - set(kept))
        assert (f"{len(gone)} more of its documents have no row here" in text) == bool(gone)
        assert not gone or any(name in text for name in gone)
        # With the old name, or after the keys were taken over, nothing is to be said.
        caplog.clear()
        check(ledger, here, kept, source="old.load", namespace=namespace)
        check(ledger, here, own, namespace=namespace)
        check(ledger, here, [*kept, *own], namespace=namespace, adopt=True)
        check(ledger, here, [*kept, *own], namespace=namespace, missing_in=None)
        assert caplog.text == ""


def test_documents_that_another_load_of_the_file_creates_meanwhile_are_not_missing(ledger):
    chance = random.Random(3)
    for number in range(5):
        here = site(A, site_id=f"site {number}")
        titles = [f"row {index}" for index in range(chance.randint(60, 160))]
        before = chance.randint(0, len(titles) // 3)
        gone = [f"gone {index}" for index in range(chance.choice([0, 1, 20]))]
        create(ledger, here, [*titles[:before], *gone])
        with entries_of(ledger, here) as entries:
            plan = plan_load(rows_of(titles), entries)
            # The other load.
            create(ledger, here, titles[before : chance.randint(before + 50, len(titles) + 50)])
            check_plan(plan, entries, OPTIONS, "source")
            assert sum(1 for _ in entries.stale(plan.has)) == len(gone)
            with pytest.raises(AssistantInputError, match=r"would (replace|leave)"):
                check_plan(plan_load(rows_of(["row 0"]), entries), entries, OPTIONS, "source")
