"""The state of a document, from replies of any shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.document_state import DocumentWords
from airflow_provider_assistant.api.replies import CreatedDocument

WORDS = DocumentWords()
STATES = {name: sorted(getattr(WORDS, name)) for name in ("active", "draft", "processing", "failed")}
STATES["other"] = ["warming", "needs a second look"]


def state_of(record: Any, **settings: Any) -> tuple[str, str | None]:
    reply = CreatedDocument(record, CallInfo(201), **settings)
    assert reply.as_dict().items() >= {"state": reply.state, "status": reply.status}.items()
    return reply.state, reply.status


@pytest.mark.parametrize(
    ("record", "state", "word"),
    [
        ({"id": 7, "status": "active"}, "active", "active"),
        ({"id": 7, "state": "Published"}, "active", "Published"),
        ({"id": "d", "document_status": "DRAFT"}, "draft", "DRAFT"),
        ({"id": "d", "status": "in-progress"}, "processing", "in-progress"),
        ({"id": "d", "status": "quarantined"}, "other", "quarantined"),
        ({"id": "d", "active": True}, "active", "active"),
        ({"id": "d", "is_active": False}, "draft", "inactive"),
        ({"id": "d", "status": "ok", "active": False}, "draft", "inactive"),
        # The status of an envelope is that of the HTTP request.
        ({"status": "success", "data": {"id": "d", "status": "draft"}}, "draft", "draft"),
        ({"id": "c", "status": "done", "document": {"id": "d", "status": "off"}}, "draft", "off"),
        ({"status": "finished", "data": {"id": "d", "status": "draft"}}, "draft", "draft"),
        # Another object, an acknowledgement or a number is not the status of the document.
        ({"id": "d", "site": {"id": "s", "status": "disabled"}}, "unknown", None),
        ({"id": "d", "status": "created"}, "unknown", None),
        ({"id": "d", "status": "OK", "success": True}, "unknown", None),
        ({"status": 201, "id": "d"}, "unknown", None),
        ({"id": "d", "status": ""}, "unknown", None),
        (None, "unknown", None),
        ([{"status": "draft"}], "unknown", None),
    ],
)
def test_state_and_word(record: Any, state: str, word: str | None) -> None:
    assert state_of(record) == (state, word)


@given(st.data())
def test_words_in_any_spelling(data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(sorted(STATES)))
    word = data.draw(st.sampled_from(STATES[state]))
    chars = [data.draw(st.sampled_from([char.lower(), char.upper()])) for char in word]
    spelling = "".join(data.draw(st.sampled_from(["", " ", "_", "-"])) + char for char in chars)
    assert state_of({"document_id": "d", "status": spelling}) == (state, spelling)


def test_the_field_and_the_words_of_a_connection() -> None:
    record = {"id": "d", "status": "draft", "stage": 3, "flag": False}
    words = WORDS.extended(active=["3", "LIVE-now"], draft=["Up_loaded"], failed=["off"])
    assert state_of(record, words=words, status_field="stage") == ("active", "3")
    assert state_of(record, status_field="flag") == ("draft", "inactive")
    assert state_of(record, status_field="phase") == ("unknown", None)
    assert [words.state(word) for word in ("uploaded", "live now", "Off")] == ["draft", "active", "failed"]


def test_no_word_has_two_states() -> None:
    every = [word for words in STATES.values() for word in words]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("word", ["dra\nft", "\x1b[31mdraft", "x" * 10_000, "\ud800"])
def test_a_word_is_safe_to_show(word: str) -> None:
    _, shown = state_of({"id": "d", "status": word})
    assert shown is not None
    assert shown.isprintable()
    assert len(shown) <= 120
