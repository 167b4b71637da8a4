"""Ids and labels may have any length and contain any character."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_assistant.ledger import (
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    RequestEnd,
    find_request,
    record_ends,
)
from airflow_provider_assistant.ledger.export_queries import requests_between
from airflow_provider_assistant.ledger.queries import page_of_ambiguous
from airflow_provider_assistant.ledger.selection import ALL, Selection
from tests.sites import site_at
from tests.unit.ledger.conftest import START
from tests.unit.ledger.single import RUN, SITE_URL, accepted, rate, submit

DAY = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
LONG = "x" * 40_000
TEXTS = {"long": LONG, "NUL": "a\0b", "half a surrogate": "a\ud83d", "everything": f"\0\udcff{LONG}"}


@pytest.fixture(params=TEXTS, ids=lambda name: name)
def text(request):
    return TEXTS[request.param]


def stored(text):
    return text.replace("\0", "\\x00").replace("\ud83d", "\\ud83d").replace("\udcff", "\\udcff")


def test_a_document_with_any_id_and_label_is_recorded(ledger, text):
    facts = {"scope": DocumentScope(site_at("s", text), "documents/qa"), "source": text, "run": RUN}
    with ledger.documents(**facts) as memory:
        claim = Claim("key", text, None)
        assert memory.commit_and_claim((), [claim]) == {"key"}
        (entry,) = ledger.read(page_of_ambiguous, ledger.leases, Selection(), ALL).rows
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", text, error=text)], ())
        known = memory.entries(["key"])["key"]
        assert (known.state, known.created_id, entry.label) == ("created", stored(text), stored(text))
        assert list(memory.stale(lambda _: False)) == [(stored(text), stored(text), None, "key")]


def test_a_chat_and_a_rating_with_any_id_are_found_again(ledger, text):
    row, _ = submit(ledger, lambda: accepted(text), site_id=text, session_id=text)
    assert row.request_id == text
    record_ends(ledger.engine, site_at(SITE_URL, text), {text: RequestEnd("complete", START)})
    assert find_request(ledger.engine, site_at(SITE_URL, text), text).state == "complete"
    row, sent = rate(ledger, text, session_id=text, request_id=text)
    assert (row.outcome, row.request_id, sent) == ("created", text, True)
    assert not rate(ledger, text, session_id=text, request_id=text)[1]


def test_a_question_with_any_request_id_and_session_is_found_again(ledger, text):
    with ledger.chat_requests(scope=ChatScope(site_at("s"), "async", "b"), run=RUN) as memory:
        claim = Claim("key", "label", None)
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", text)], ())
        assert [one.request_id for one in memory.accepted()] == [text]
        memory.record_ends({text: RequestEnd("lost", None, text)})
        (row,) = ledger.read(requests_between, *DAY)
        assert (row["request_id"], row["state"]) == (text, "lost")
        memory.withdraw(["key"], text)
        assert memory.entries(["key"])["key"].state == "ambiguous"


def test_a_request_id_that_looks_encoded_is_found_again(ledger):
    row, _ = submit(ledger, lambda: accepted('json:"x"'))
    assert row.request_id == 'json:"x"'
    assert find_request(ledger.engine, site_at(SITE_URL), 'json:"x"') is not None
