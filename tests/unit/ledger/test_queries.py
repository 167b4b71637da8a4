"""Queries of the ledger, and the manual resolution of entries."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Claim, Ledger, RunRef, key_of, ratings, sqlite_engine, submissions
from airflow_provider_assistant.ledger.queries import entry_of, outcomes, resolve, unsettled

SCOPE, RUN = "https://a/m2m/sites/s", RunRef("d", "r", "t", -1)
KEY = key_of("one")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as opened:
        yield opened


def intend(ledger, table):
    facts = {"site_id": "s", "session_id": "c"}
    if table is ratings:
        facts |= {"request_id": "q", "rating": "good"}
    ledger.intend(table, SCOPE, KEY, RUN, **facts)


def test_an_intent_is_unsettled_until_it_is_settled(ledger):
    intend(ledger, submissions)
    (entry,) = unsettled(ledger)
    assert (entry.kind, entry.label, entry.site_id, entry.run) == ("submission", "c", "s", RUN)
    ledger.settle(submissions, SCOPE, KEY, "done", request_id="q")
    assert list(unsettled(ledger)) == []
    assert [(one["outcome"], one["entries"]) for one in outcomes(ledger)] == [("done", 1)]


def test_a_submission_that_is_done_is_taken_up(ledger):
    intend(ledger, submissions)
    entry = entry_of(ledger, KEY)
    with pytest.raises(AssistantInputError, match="--id"):
        resolve(ledger, entry, "done")
    resolve(ledger, entry, "done", identifier="q-1")
    row, sent = ledger.once(submissions, SCOPE, KEY, RUN, pytest.fail)
    assert (row.request_id, sent) == ("q-1", False)


@pytest.mark.parametrize(("outcome", "is_sent"), [("done", False), ("refused", True)])
def test_a_rating(ledger, outcome, is_sent):
    intend(ledger, ratings)
    resolve(ledger, entry_of(ledger, KEY), outcome)
    assert list(unsettled(ledger)) == []
    _, sent = ledger.once(ratings, SCOPE, KEY, RUN, dict, site_id="s", session_id="c", request_id="q", rating="good")
    assert sent is is_sent


def test_a_question_can_only_be_asked_anew(ledger):
    with ledger.questions(scope=SCOPE, site_id="s", source="d.t", run=RUN) as memory:
        memory.commit_and_claim((), [Claim(KEY, "1", None)])
        entry = entry_of(ledger, KEY)
        with pytest.raises(AssistantInputError, match="refused"):
            resolve(ledger, entry, "done", identifier="q")
        resolve(ledger, entry, "refused")
        assert memory.known([KEY])[KEY].state == "absent"


def test_what_has_changed_since_is_not_settled(ledger):
    intend(ledger, submissions)
    entry = entry_of(ledger, KEY)
    ledger.settle(submissions, SCOPE, KEY, "done", request_id="q")
    with pytest.raises(AssistantInputError, match="has changed since it was read"):
        resolve(ledger, entry, "refused")
    assert ledger.find(submissions, SCOPE, KEY).request_id == "q"


def test_an_outcome_that_comes_late_stands(ledger):
    """If the task is still alive, its own outcome takes precedence over the manual one."""
    with ledger.questions(scope=SCOPE, site_id="s", source="d.t", run=RUN) as memory:
        from airflow_provider_assistant.ledger import Settlement

        claim = Claim(KEY, "1", None)
        memory.commit_and_claim((), [claim])
        resolve(ledger, entry_of(ledger, KEY), "refused")
        memory.commit_and_claim([Settlement(claim, "done", "content", "q-1")], ())
        assert memory.known([KEY])[KEY].state == "done"
