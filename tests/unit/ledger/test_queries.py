"""Queries of the ledger, and the manual resolution of entries."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import ChatScope, Claim, ClaimOutcome
from airflow_provider_assistant.ledger.queries import counts, find_ambiguous, page_of_ambiguous
from airflow_provider_assistant.ledger.resolution import resolve
from airflow_provider_assistant.ledger.selection import ALL, Selection
from tests.sites import site_at
from tests.unit.ledger.single import RUN, claim_chat, claim_rating, rate, submit
from tests.unit.ledger.single import SITE_URL as SITE

KEY = "k"


def ambiguous(ledger):
    return ledger.read(page_of_ambiguous, ledger.leases, Selection(), ALL).rows


def find(ledger, key=KEY):
    return ledger.read(find_ambiguous, ledger.leases, Selection(), key)


def test_an_intent_is_unsettled_until_it_is_settled(ledger):
    claim_chat(ledger)
    (entry,) = ambiguous(ledger)
    assert (entry.kind, entry.label, entry.site_id, entry.run) == ("chat_request", "s", "docs", RUN)
    submit(ledger)
    assert ambiguous(ledger) == []
    assert [(one["outcome"], one["entries"]) for one in ledger.read(counts, Selection())] == [("created", 1)]


def test_a_submission_that_is_done_is_taken_up(ledger):
    claim_chat(ledger)
    with pytest.raises(AssistantInputError, match="--id"):
        resolve(ledger, find(ledger), "created")
    resolve(ledger, find(ledger), "created", identifier="q-1")
    row, sent = submit(ledger, pytest.fail)
    assert (row.request_id, sent) == ("q-1", False)


@pytest.mark.parametrize(("outcome", "is_sent"), [("created", False), ("failed", True)])
def test_a_rating(ledger, outcome, is_sent):
    resolve(ledger, find(ledger, claim_rating(ledger)), outcome)
    assert ambiguous(ledger) == []
    assert rate(ledger)[1] is is_sent


@pytest.mark.parametrize("kind", ["chat", "rating"])
def test_what_a_living_task_sends_is_under_way(ledger, kind):
    def send():
        (entry,) = ambiguous(ledger)
        assert entry.may_be_under_way
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(ledger, send) if kind == "chat" else rate(ledger, send=send)
    (entry,) = ambiguous(ledger)
    assert not entry.may_be_under_way


def test_a_question_can_only_be_asked_anew(ledger):
    with ledger.chat_requests(scope=ChatScope(site_at(SITE, "s"), "async", "b"), run=RUN) as memory:
        memory.commit_and_claim((), [Claim(KEY, "1", None)])
        memory.release()
        entry = find(ledger)
        with pytest.raises(AssistantInputError, match="not-created"):
            resolve(ledger, entry, "created", identifier="q")
        resolve(ledger, entry, "failed")
        assert memory.entries([KEY])[KEY].state == "none"


def test_what_has_changed_since_is_not_settled(ledger):
    claim_chat(ledger)
    entry = find(ledger)
    submit(ledger)
    with pytest.raises(AssistantInputError, match="has changed since it was read"):
        resolve(ledger, entry, "failed")
    assert submit(ledger, pytest.fail)[0].request_id == "req-1"


def test_an_outcome_that_comes_late_stands(ledger):
    """If the task is still alive, its own outcome takes precedence over the manual one."""
    with ledger.chat_requests(scope=ChatScope(site_at(SITE, "s"), "async", "b"), run=RUN) as memory:
        claim = Claim(KEY, "1", None)
        memory.commit_and_claim((), [claim])
        resolve(ledger, find(ledger), "failed")
        memory.commit_and_claim([ClaimOutcome(claim, "created", "content", "q-1")], ())
        assert memory.entries([KEY])[KEY].state == "created"
