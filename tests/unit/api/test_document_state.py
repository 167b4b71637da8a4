"""The state of a document, from replies of any shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.document_state import DocumentWords, document_state, status_word
from airflow_provider_assistant.api.replies import CreatedDocument
from tests.unit.api.test_replies import JSON, envelopes

WORDS = DocumentWords()
ALL_WORDS = [
    *[(word, "active") for word in sorted(WORDS.active)],
    *[(word, "draft") for word in sorted(WORDS.draft)],
    *[(word, "processing") for word in sorted(WORDS.processing)],
    *[(word, "failed") for word in sorted(WORDS.failed)],
    ("warming", "other"),
    ("needs a second look", "other"),
]


@pytest.mark.parametrize(
    ("record", "state", "word"),
    [
        ({"id": 7, "status": "active"}, "active", "active"),
        ({"id": 7, "state": "Published"}, "active", "Published"),
        ({"document_id": "d", "publication_status": "not published"}, "draft", "not published"),
        ({"uuid": "d", "document_status": "DRAFT"}, "draft", "DRAFT"),
        ({"id": "d", "processing_status": "In Progress"}, "processing", "In Progress"),
        ({"id": "d", "status": "in-progress"}, "processing", "in-progress"),
        ({"id": "d", "indexing_status": "FAILED"}, "failed", "FAILED"),
        ({"id": "d", "status": {"name": "archived", "label": "Archiviert"}}, "draft", "archived"),
        ({"id": "d", "status": "quarantined"}, "other", "quarantined"),
        ({"id": "d", "active": True}, "active", "active"),
        ({"id": "d", "is_active": False}, "draft", "inactive"),
        ({"id": "d", "enabled": 0}, "draft", "inactive"),
        ({"id": "d", "published": "false"}, "draft", "inactive"),
        ({"id": "d", "published": "2026-11-02T08:00:00Z"}, "unknown", None),
        ({"id": "d", "is_draft": True}, "draft", "draft"),
        ({"id": "d", "draft": False}, "active", "active"),
        ({"id": "d", "ready": False}, "processing", "not ready"),
        ({"id": "d", "archived": False}, "unknown", None),
        # The worst of several statuses counts.
        ({"id": "d", "active": True, "processing_status": "pending"}, "processing", "pending"),
        ({"id": "d", "status": "processed", "active": False}, "draft", "inactive"),
        ({"id": "d", "status": "active", "processing_status": "error"}, "failed", "error"),
        ({"id": "d", "status": "reviewing", "ready": False}, "other", "reviewing"),
        ({"id": "d", "status": "reviewing", "is_draft": True}, "draft", "draft"),
        ({"id": "d", "status": "live", "is_processed": True}, "active", "live"),
        # The envelope's status is that of the HTTP call.
        ({"status": "success", "data": {"id": "d", "status": "draft"}}, "draft", "draft"),
        ({"id": "c", "status": "done", "document": {"id": "d", "status": "off"}}, "draft", "off"),
        (
            {"id": "call-1", "state": "finished", "data": {"document_id": "d", "active": False}},
            "draft",
            "inactive",
        ),
        # The id and the status may be in different objects.
        ({"document_id": "d", "status": "ok", "document": {"state": "new"}}, "other", "new"),
        ({"document_id": 7, "live": 1, "document": {"id": 7, "state": "off"}}, "draft", "off"),
        ({"data": {"id": "d"}, "status": "draft"}, "draft", "draft"),
        ({"status": "draft"}, "draft", "draft"),
        # Another object has an id of its own.
        ({"id": "d", "site": {"id": "s", "status": "disabled"}}, "unknown", None),
        ({"id": "d", "status": "live", "category": {"id": 3, "active": False}}, "active", "live"),
        # Acknowledgements and numbers.
        ({"id": "d", "status": "created"}, "unknown", None),
        ({"id": "d", "status": "OK"}, "unknown", None),
        ({"success": True, "id": "d"}, "unknown", None),
        ({"status": 201, "id": "d"}, "unknown", None),
        ({"status": True, "id": "d"}, "unknown", None),
        ({"id": "d", "status": ""}, "unknown", None),
        ({"id": "d", "status": None}, "unknown", None),
        ({}, "unknown", None),
        (None, "unknown", None),
        ([{"status": "draft"}], "unknown", None),
        ("draft", "unknown", None),
    ],
)
def test_state_and_word(record: Any, state: str, word: str | None) -> None:
    assert document_state(record) == state
    assert status_word(record) == word
    reply = CreatedDocument(record, CallInfo(201))
    assert (reply.state, reply.status) == (state, word)
    assert reply.as_dict()["state"] == state
    assert reply.as_dict()["status"] == word


@given(st.sampled_from(ALL_WORDS), st.data())
def test_words_in_any_spelling_and_envelope(expected: tuple[str, str], data: st.DataObject) -> None:
    word, state = expected
    chars = [data.draw(st.sampled_from([char.lower(), char.upper()])) for char in word]
    gaps = [data.draw(st.sampled_from(["", " ", "_", "-"])) for _ in word]
    spelling = "".join(gap + char for gap, char in zip(gaps, chars, strict=True))
    record = {"document_id": "d", "status": spelling}
    wrapped = data.draw(envelopes())(record)
    assert document_state(wrapped) == state
    assert status_word(wrapped) == spelling


@given(JSON, st.none() | st.sampled_from(["status", "data"]) | st.text())
def test_any_json_is_read(record: Any, status_field: str | None) -> None:
    state = document_state(record, status_field=status_field)
    word = status_word(record, status_field)
    assert state == (WORDS.state(word) if word else "unknown")
    assert word is None or word.isprintable() or word.isspace()


def test_only_a_named_field_counts() -> None:
    record = {"id": "d", "status": "draft", "stage": 3, "active": False}
    words = WORDS.extended(active=["3"], draft=["4"])
    assert document_state(record, words, "stage") == "active"
    assert status_word(record, "stage") == "3"
    assert document_state({**record, "stage": 4}, words, "stage") == "draft"
    assert document_state(record, words, "active") == "draft"
    assert document_state(record, words, "phase") == "unknown"


def test_a_named_field_may_hold_an_acknowledgement() -> None:
    words = WORDS.extended(active=["OK"])
    assert document_state({"id": "d", "phase": "ok"}, words, "phase") == "active"


def test_a_further_word_replaces_the_default() -> None:
    words = WORDS.extended(draft=["Up_loaded", "on hold"], active=["LIVE-now"], failed=["off"])
    assert words.state("uploaded") == "draft"
    assert words.state("ON_HOLD") == "draft"
    assert words.state("live now") == "active"
    assert words.state("Off") == "failed"
    assert words.extended(processing=["off"]).state("off") == "processing"


def test_no_word_has_two_states() -> None:
    kinds = [WORDS.active, WORDS.draft, WORDS.processing, WORDS.failed]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))


@pytest.mark.parametrize("word", ["dra\nft", "\x1b[31mdraft", "x" * 10_000, "\ud800"])
def test_a_word_is_safe_to_show(word: str) -> None:
    shown = status_word({"id": "d", "status": word})
    assert shown is not None
    assert shown.isprintable()
    assert len(shown) <= 120
