"""Queries of the ledger, and the manual resolution of entries."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import (
    Claim,
    Ledger,
    QuestionScope,
    RunRef,
    key_of,
    ratings,
    sqlite_engine,
    submissions,
)
from airflow_provider_assistant.ledger.queries import ambiguous_entries, count_outcomes, find_ambiguous
from airflow_provider_assistant.ledger.resolution import resolve

SCOPE, RUN = "https://a/m2m/sites/s", RunRef("d", "r", "t", -1)
KEY = key_of("one")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as opened:
        yield opened


def claim(ledger, table):
    facts = {"site_id": "s", "session_id": "c"}
    if table is ratings:
        facts |= {"request_id": "q", "rating": "good"}
    ledger.claim(table, SCOPE, KEY, RUN, **facts)


def test_an_intent_is_unsettled_until_it_is_settled(ledger):
    claim(ledger, submissions)
    (entry,) = ambiguous_entries(ledger)
    assert (entry.kind, entry.label, entry.site_id, entry.run) == ("submission", "c", "s", RUN)
    ledger.record_outcome(submissions, SCOPE, KEY, "created", request_id="q")
    assert list(ambiguous_entries(ledger)) == []
    assert [(one["outcome"], one["entries"]) for one in count_outcomes(ledger)] == [("created", 1)]


def test_a_submission_that_is_done_is_taken_up(ledger):
    claim(ledger, submissions)
    entry = find_ambiguous(ledger, KEY)
    with pytest.raises(AssistantInputError, match="--id"):
        resolve(ledger, entry, "created")
    resolve(ledger, entry, "created", identifier="q-1")
    row, sent = ledger.run_once(submissions, SCOPE, KEY, RUN, pytest.fail)
    assert (row.request_id, sent) == ("q-1", False)


@pytest.mark.parametrize(("outcome", "is_sent"), [("created", False), ("failed", True)])
def test_a_rating(ledger, outcome, is_sent):
    claim(ledger, ratings)
    resolve(ledger, find_ambiguous(ledger, KEY), outcome)
    assert list(ambiguous_entries(ledger)) == []
    _, sent = ledger.run_once(
        ratings, SCOPE, KEY, RUN, dict, site_id="s", session_id="c", request_id="q", rating="good"
    )
    assert sent is is_sent


def test_a_question_can_only_be_asked_anew(ledger):
    with ledger.questions(scope=QuestionScope(SCOPE, "async", "b"), site_id="s", source="d.t", run=RUN) as memory:
        memory.commit_and_claim((), [Claim(KEY, "1", None)])
        entry = find_ambiguous(ledger, KEY)
        with pytest.raises(AssistantInputError, match="not-created"):
            resolve(ledger, entry, "created", identifier="q")
        resolve(ledger, entry, "failed")
        assert memory.entries([KEY])[KEY].state == "none"


def test_what_has_changed_since_is_not_settled(ledger):
    claim(ledger, submissions)
    entry = find_ambiguous(ledger, KEY)
    ledger.record_outcome(submissions, SCOPE, KEY, "created", request_id="q")
    with pytest.raises(AssistantInputError, match="has changed since it was read"):
        resolve(ledger, entry, "failed")
    assert ledger.find(submissions, SCOPE, KEY).request_id == "q"


def test_an_outcome_that_comes_late_stands(ledger):
    """If the task is still alive, its own outcome takes precedence over the manual one."""
    with ledger.questions(scope=QuestionScope(SCOPE, "async", "b"), site_id="s", source="d.t", run=RUN) as memory:
        from airflow_provider_assistant.ledger import ClaimOutcome

        claim = Claim(KEY, "1", None)
        memory.commit_and_claim((), [claim])
        resolve(ledger, find_ambiguous(ledger, KEY), "failed")
        memory.commit_and_claim([ClaimOutcome(claim, "created", "content", "q-1")], ())
        assert memory.entries([KEY])[KEY].state == "created"
