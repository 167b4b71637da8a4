"""Ids and labels may have any length and contain any character."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_assistant.ledger import (
    Claim,
    ClaimOutcome,
    DocumentScope,
    QuestionScope,
    RequestEnd,
    RunRef,
    ratings,
    requests_between,
    submissions,
)
from airflow_provider_assistant.ledger.queries import ambiguous_entries

RUN = RunRef("dag", "run", "task", -1)
DAY = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
LONG = "x" * 40_000
TEXTS = {"long": LONG, "NUL": "a\0b", "half a surrogate": "a\ud83d", "everything": f"\0\udcff{LONG}"}


@pytest.fixture(params=TEXTS, ids=lambda name: name)
def text(request):
    return TEXTS[request.param]


def test_a_document_with_any_id_and_label_is_recorded(ledger, text):
    facts = {"scope": DocumentScope("s", "documents/qa"), "site_id": text, "source": text, "run": RUN}
    with ledger.documents(**facts) as memory:
        claim = Claim("key", text, None)
        assert memory.commit_and_claim((), [claim]) == {"key"}
        (entry,) = ambiguous_entries(ledger)
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", text, error=text)], ())
        known = memory.entries(["key"])["key"]
        assert (known.state, known.created_id, entry.label) == ("created", stored(text), stored(text))
        assert list(memory.stale(lambda _: False)) == [(stored(text), stored(text), None)]


def stored(text):
    return text.replace("\0", "\\x00").replace("\ud83d", "\\ud83d").replace("\udcff", "\\udcff")


def test_a_chat_with_any_id_is_found_again(ledger, text):
    row, _ = ledger.run_once(
        submissions, "s", "key", RUN, lambda: {"request_id": text}, site_id=text, session_id=text
    )  # fmt: skip
    assert row.request_id == text
    ledger.chat_ended("s", text, "complete")
    assert ledger.submission_of("s", text).state == "complete"


def test_a_rating_of_any_word_is_recorded(ledger, text):
    _, sent = ledger.run_once(
        ratings, "s", "key", RUN, dict, site_id="s", session_id=text, request_id=text, rating=text
    )  # fmt: skip
    assert sent
    assert ledger.outcomes(ratings, "s", ["key"]) == {"key": "created"}


def test_the_end_of_a_question_with_any_session_is_recorded(ledger, text):
    with ledger.questions(scope=QuestionScope("s", "async", "b"), site_id="docs", source="ask", run=RUN) as memory:
        claim = Claim("key", "label", None)
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", "r")], ())
        memory.record_ends({"r": RequestEnd("complete", None, text)})
        memory.withdraw(["key"], text)
        assert memory.entries(["key"])["key"].state == "none"


def test_a_question_with_any_request_id_is_found_again(ledger, text):
    with ledger.questions(scope=QuestionScope("s", "async", "b"), site_id="docs", source="ask", run=RUN) as memory:
        claim = Claim("key", "label", None)
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", text)], ())
        assert memory.entries(["key"])["key"].created_id == text
        assert [entry.created_id for entry in memory.created_entries()] == [text]
        memory.record_ends({text: RequestEnd("lost", None, "s")})
    (row,) = requests_between(ledger.engine, *DAY)
    assert (row["request_id"], row["state"]) == (text, "lost")


def test_a_request_id_that_looks_encoded_is_found_again(ledger):
    row, _ = ledger.run_once(
        submissions, "s", "key", RUN, lambda: {"request_id": 'json:"x"'}, site_id="s", session_id="s"
    )  # fmt: skip
    assert row.request_id == 'json:"x"'
    assert ledger.submission_of("s", 'json:"x"') is not None
