"""Which sessions of a chat batch are closed, and what its files remember about them."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.chat_batch.answers import OWN_SESSIONS, STATUSES
from airflow_provider_assistant.chat_batch.sessions import (
    CLOSED,
    decoded_closed,
    encoded_closed,
    ended_sessions,
    next_session,
)
from airflow_provider_assistant.chat_batch.state import BatchState


def table_of(rows, *, is_own=True, has_turns=False):
    """Return an output with these sessions and statuses."""
    return pa.table(
        {
            "session_id": pa.array([session for session, _ in rows], pa.string()),
            "status": [status for _, status in rows],
            "turn": pa.array([1 if has_turns else None for _ in rows], pa.int32()),
        },
        metadata={OWN_SESSIONS: json.dumps(is_own)},
    )


def test_each_session_that_replaces_another_is_new():
    sessions = [session_id("thread", "run", "key")]
    for _ in range(12):
        sessions.append(next_session(sessions[-1]))
    assert len(set(sessions)) == 13
    assert sessions[1] == f"{sessions[0]}-2"
    assert sessions[12] == f"{sessions[0]}-13"


@pytest.mark.parametrize(
    ("arguments", "kept_open"),
    [
        ({}, {"timed_out"}),
        ({"has_turns": True}, {"timed_out", "failed", "lost", "not_submitted"}),
        ({"is_own": False}, {"timed_out", "failed", "lost", "not_submitted"}),
    ],
    ids=["generated", "conversations", "named"],
)
def test_a_session_that_a_retry_needs_stays_open(arguments, kept_open):
    for status in STATUSES:
        rows = [("a", "complete"), ("b", "complete"), ("a", status)]
        expected = ["b"] if status in kept_open else ["a", "b"]
        assert ended_sessions(table_of(rows, **arguments)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_an_output_file_remembers_all_closed_sessions(seed):
    rng = random.Random(seed)
    sessions = [f"thread-{rng.randrange(16**8):08x}" for _ in range(rng.randrange(1, 9))]
    rows = [(rng.choice(sessions), rng.choice(STATUSES)) for _ in range(rng.randrange(12))]
    table = table_of(rows, is_own=rng.random() < 0.5, has_turns=rng.random() < 0.5)
    closed = set(rng.sample(sessions, rng.randrange(len(sessions) + 1)))
    if rng.random() < 0.5:
        closed |= set(ended_sessions(table))
    metadata = {**table.schema.metadata, CLOSED: encoded_closed(table, closed)}
    assert decoded_closed(table.replace_schema_metadata(metadata)) == closed


def test_the_closed_sessions_of_many_rows_take_little_space():
    rows = [(f"thread-{number}", "complete") for number in range(10_000)]
    table = table_of(rows)
    encoded = encoded_closed(table, {*ended_sessions(table), "thread-of-a-row-that-is-gone"})
    assert len(encoded) < 100
    assert decoded_closed(table) == set()


def test_the_batch_state_keeps_all_sessions_that_it_was_told_to_close(tmp_path):
    state = BatchState(str(tmp_path / "state"))
    assert state.read_closed() == set()
    state.write_closed(["a", 'b"\ud800'])
    state.write_closed(["c"])
    # A process that is killed while it writes closes none of the sessions of this file.
    (tmp_path / "state" / "closed-cut.jsonl").write_text('"d"\n"e')
    assert state.read_closed() == {"a", 'b"\ud800', "c", "d"}
