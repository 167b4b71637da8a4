"""Leases after the clock was changed: the claim of a killed task expires, that of a live task does not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_assistant.ledger import RENEWAL, Claim, DocumentScope, RunRef
from airflow_provider_assistant.ledger.entries import LEASE

ONE, OTHER = RunRef("dag", "one", "load", -1), RunRef("dag", "other", "load", -1)


@pytest.fixture
def batch(ledger):
    batches = []

    def open_batch(run):
        batches.append(ledger.documents(scope=DocumentScope("s", "documents/qa"), site_id="s", source="kb", run=run))
        return batches[-1]

    yield open_batch
    for one in batches:
        one.close()


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        (0, "leased"),
        (LEASE.total_seconds() - 1, "leased"),
        (1 - LEASE.total_seconds(), "leased"),
        (LEASE.total_seconds(), "ambiguous"),
        (-LEASE.total_seconds(), "ambiguous"),
        (-timedelta(days=30).total_seconds(), "ambiguous"),
    ],
)
def test_a_claim_of_a_task_that_was_killed_is_free_however_the_clock_was_set(batch, clock, seconds, state):
    batch(ONE).commit_and_claim((), [Claim("k", "k", None)])
    clock.advance(seconds)
    assert batch(OTHER).entries(["k"])["k"].state == state


def test_a_live_load_renews_its_claims_when_the_clock_is_set_back(batch, clock):
    live = batch(ONE)
    live.commit_and_claim((), [Claim("k", "k", None)])
    clock.advance(-timedelta(days=30).total_seconds())
    live.commit_and_claim((), ())
    assert batch(OTHER).entries(["k"])["k"].state == "leased"
    clock.advance(RENEWAL.total_seconds())
    assert batch(OTHER).entries(["k"])["k"].state == "leased"
