"""``repeat`` of AssistantChatBatchOperator: every question several times, each time in a session of its own."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.operators.batches import CHAT, SUBMIT, findings_of, many, rows_of

QUESTIONS = many(4)


@pytest.mark.parametrize(("mode", "path"), [("async", SUBMIT), ("sync", CHAT)])
def test_every_repetition_is_asked_once_in_a_session_of_its_own(mode, path, connection, execute, output, service):
    result = execute(QUESTIONS, repeat=3, mode=mode)
    assert (result["rows"], result["complete"], result["submitted"], result["sessions_closed"]) == (12, 12, 12, 12)
    rows = rows_of(output)
    assert [(row["key"], row["repetition"]) for row in rows] == [(str(n), r) for n in range(4) for r in (1, 2, 3)]
    assert len({row["session_id"] for row in rows}) == 12
    assert service.posts(path) == 12
    assert execute(QUESTIONS, repeat=3, mode=mode)["submitted"] == 0
    assert service.posts(path) == 12


def test_a_retry_with_more_repetitions_asks_only_the_new_ones(connection, execute, output, service):
    execute(QUESTIONS)
    first = {row["key"]: row["request_id"] for row in rows_of(output)}
    assert execute(QUESTIONS, repeat=2)["submitted"] == 4
    assert {row["key"]: row["request_id"] for row in rows_of(output) if row["repetition"] == 1} == first
    assert execute(QUESTIONS)["submitted"] == 0
    assert service.posts(SUBMIT) == 8


def test_findings_name_the_row_of_the_source(connection, execute, output):
    source = [*QUESTIONS, {"id": 4, "message": ""}]
    result = execute(source, repeat=2, max_failed=2)
    assert (result["rejected"], result["complete"]) == (2, 8)
    findings = findings_of(result)
    assert [(one["row"], one["key"]) for one in findings] == [(5, "4"), (5, "4")]
    assert {row["repetition"] for row in rows_of(output) if row["status"] == "not_submitted"} == {1, 2}


def test_repetitions_never_share_a_session(connection, execute, service):
    source = [{**row, "thread": "s"} for row in QUESTIONS]
    with pytest.raises(AssistantInputError, match="would share a session"):
        execute(source, repeat=2, session="thread")
    assert not service.journal("POST")
    assert execute(source, repeat=2)["complete"] == 8
