"""The ledger's entries of a day: each async request once, with its recorded end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_assistant.exceptions import AssistantBadRequestError, AssistantServerError
from airflow_provider_assistant.ledger import ChatScope, Claim, ClaimOutcome, RequestEnd, record_ends
from airflow_provider_assistant.ledger.export_queries import requests_between
from tests.sites import site_at
from tests.unit.ledger.conftest import START
from tests.unit.ledger.single import RUN, accepted, claim_chat
from tests.unit.ledger.single import SITE_URL as SITE
from tests.unit.ledger.single import submit as submit_once

SECOND = timedelta(seconds=1)


def submit(ledger, request_id, *, site_url=SITE, send=None):
    send = send or (lambda: accepted(request_id))
    submit_once(ledger, send, key=request_id, session_id=f"s-{request_id}", site_url=site_url)


def batch(ledger, *, site=SITE, mode="async"):
    return ledger.chat_requests(scope=ChatScope(site_at(site), mode, "b"), run=RUN)


def ask(ledger, request_id, outcome="created", *, site=SITE, mode="async", end=None, **facts):
    with batch(ledger, site=site, mode=mode) as memory:
        claim = Claim(request_id, request_id, memory.entries([request_id]).get(request_id))
        memory.commit_and_claim((), [claim])
        if outcome != "claimed":
            known_as = request_id if outcome == "created" else None
            memory.commit_and_claim([ClaimOutcome(claim, outcome, "h", known_as, **facts)], ())
        if end:
            memory.record_ends({request_id: end})


def raises(error):
    def send():
        raise error

    return send


def found(ledger, start=START, end=START + timedelta(hours=1), scope=None):
    return ledger.read(requests_between, start, end, scope)


def states(rows):
    return {row["request_id"]: row["state"] for row in rows}


def test_requests_alone_and_in_batches_have_the_same_columns(ledger, clock):
    submit(ledger, "alone")
    clock.now += SECOND
    ask(ledger, "batched", end=RequestEnd("complete", clock.now + 3 * SECOND, "s-batched"), attempts=2, ambiguous=1)
    clock.now += SECOND
    record_ends(ledger.engine, site_at(SITE), {"alone": RequestEnd("complete", clock.now)})
    alone, batched = found(ledger)
    assert alone == {
        "submitted_at": START, "completed_at": START + 2 * SECOND, "seconds": 2.0, "state": "complete",
        "service": "h", "tenant_id": None,
        "site_id": "docs", "session_id": "s-alone", "request_id": "alone", "attempts": 1, "ambiguous": 0,
        "is_batch": False, "dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1,
    }  # fmt: skip
    assert batched == {
        "submitted_at": START + SECOND, "completed_at": START + 4 * SECOND, "seconds": 3.0, "state": "complete",
        "service": "h", "tenant_id": None,
        "site_id": "docs", "session_id": "s-batched", "request_id": "batched", "attempts": 2, "ambiguous": 1,
        "is_batch": True, "dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1,
    }  # fmt: skip


def test_every_end_is_told_apart(ledger, clock):
    submit(ledger, "alone-failed")
    record_ends(ledger.engine, site_at(SITE), {"alone-failed": RequestEnd("failed", clock.now)})
    submit(ledger, "alone-open")
    for state in ("complete", "failed", "lost", "timed_out"):
        ask(ledger, state, end=RequestEnd(state, None if state == "timed_out" else clock.now + SECOND, "s"))
    ask(ledger, "open")
    rows = found(ledger)
    assert states(rows) == {
        "alone-failed": "failed", "alone-open": "open", "open": "open",
        "complete": "complete", "failed": "failed", "lost": "lost", "timed_out": "timed_out",
    }  # fmt: skip
    assert {row["request_id"] for row in rows if row["seconds"] is None} == {"alone-open", "open", "timed_out"}


def test_what_may_be_a_request_is_unclear_and_what_is_none_is_left_out(ledger):
    with pytest.raises(AssistantServerError):
        submit(ledger, "alone-refused", send=raises(AssistantServerError("down")))
    with pytest.raises(AssistantBadRequestError):
        submit(ledger, "alone-bad", send=raises(AssistantBadRequestError("bad")))
    claim_chat(ledger, "alone-killed")
    ask(ledger, "killed", "claimed")
    ask(ledger, "ambiguous", "ambiguous", ambiguous=1)
    ask(ledger, "failed", "failed")
    rows = found(ledger)
    assert {row["state"] for row in rows} == {"ambiguous"}
    assert sorted(row["is_batch"] for row in rows) == [False, True, True]
    assert all(row["request_id"] is row["seconds"] is None for row in rows)


def test_a_question_that_is_asked_anew_is_one_row(ledger, clock):
    ask(ledger, "q", end=RequestEnd("failed", START + SECOND, "s"))
    clock.now += 60 * SECOND
    ask(ledger, "q")
    (row,) = found(ledger)
    assert (row["state"], row["submitted_at"], row["completed_at"], row["attempts"]) == ("open", clock.now, None, 2)
    clock.now += SECOND
    ask(ledger, "q", "claimed")
    (row,) = found(ledger)
    assert (row["state"], row["submitted_at"], row["request_id"]) == ("ambiguous", clock.now, None)


def test_questions_with_an_answer_in_the_same_round_trip_are_no_async_requests(ledger):
    ask(ledger, "sync", mode="sync")
    assert found(ledger) == []


def test_the_span_is_that_of_submission(ledger, clock):
    for at in (-1, 0, 59, 60):
        clock.now = START + at * SECOND
        submit(ledger, f"alone{at}")
        ask(ledger, f"batched{at}", end=RequestEnd("complete", START + timedelta(days=2), "s"))
    rows = found(ledger, START, START + 60 * SECOND)
    assert [row["request_id"] for row in rows] == ["alone0", "batched0", "alone59", "batched59"]


def test_of_one_site(ledger):
    # Wildcards of LIKE, to be matched literally.
    sites = [
        "https://h/m2m/sites/a_b%",
        "https://h/m2m/sites/aXb%",
        "https://h/m2m/sites/a_b%c",
        "https://x/m2m/sites/a_b%",
    ]
    for number, site in enumerate(sites):
        submit(ledger, f"alone{number}", site_url=site)
        ask(ledger, f"batched{number}", site=site)
    assert len(found(ledger)) == 8
    assert [row["request_id"] for row in found(ledger, scope=site_at(sites[0]))] == ["alone0", "batched0"]
