"""``turn`` of AssistantChatBatchOperator: the questions of a conversation in order, many conversations at once."""

from __future__ import annotations

from collections import defaultdict

import pytest

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.unit.operators.batches import CHAT, DEFAULTS, SUBMIT, findings_of, rows_of

TALKS = {"session": "talk", "turn": "step"}
PATHS = {"async": SUBMIT, "sync": CHAT}

modes = pytest.mark.parametrize("mode", ["async", "sync"])


def conversations(count=3, turns=3):
    """Return the questions of some conversations, the last turn first."""
    return [
        {"id": f"{name}.{turn}", "talk": f"talk {name}", "step": 10 * turn, "message": f"Talk {name}, question {turn}?"}
        for turn in range(turns, 0, -1)
        for name in range(count)
    ]


@pytest.fixture
def execute(connection, execute):
    return lambda source=None, **options: execute(source or conversations(), **{**TALKS, **options})


def by_session(output):
    found = defaultdict(dict)
    for row in rows_of(output):
        found[row["session_id"]][row["turn"]] = row
    return found


def check_order(output, sessions, turns=3):
    found = by_session(output)
    assert len(found) == sessions
    for rows in found.values():
        assert sorted(rows) == list(range(1, turns + 1))
        assert len({row["talk"] for row in rows.values()}) == 1
        for turn in range(2, turns + 1):
            assert rows[turn]["submitted_at"] >= rows[turn - 1]["completed_at"]
            assert rows[turn]["step"] > rows[turn - 1]["step"]


@pytest.mark.promise("chat", "Each turn of a conversation is asked after the answer to the one before.")
@modes
def test_each_turn_is_asked_after_the_answer_to_the_one_before(mode, execute, output, service):
    result = execute(mode=mode)
    assert (result["rows"], result["complete"], result["submitted"], result["reused"]) == (9, 9, 9, 0)
    assert (result["sessions_closed"], result["findings"]) == (3, None)
    assert [row["key"] for row in rows_of(output)] == [row["id"] for row in conversations()]
    check_order(output, 3)
    assert service.posts(PATHS[mode]) == 9
    assert execute(mode=mode)["submitted"] == 0
    assert service.posts(PATHS[mode]) == 9


def test_the_task_defers_once_for_each_turn(connection, run_operator, output, service):
    options = {**DEFAULTS, **TALKS, "output_path": str(output), "deferrable": True}
    run = run_operator(AssistantChatBatchOperator, source=conversations(), **options)
    assert run.state == "success"
    assert (run.xcom()["complete"], run.xcom()["submitted"]) == (9, 9)
    check_order(output, 3)
    assert service.posts(SUBMIT) == 9


@modes
def test_a_turn_without_an_answer_ends_its_conversation(mode, execute, output, service):
    service.behave(fail_messages="Talk 1, question 2")
    result = execute(mode=mode, max_failed=2)
    assert (result["complete"], result["not_submitted"]) == (7, 1 if mode == "async" else 2)
    rows = {row["key"]: row for row in rows_of(output)}
    status = "failed" if mode == "async" else "not_submitted"
    assert rows["1.2"]["status"] == status
    assert rows["1.3"]["status"] == "not_submitted"
    assert "turn 2" in rows["1.3"]["error"]
    assert result["sessions_closed"] == 2


@modes
def test_a_retry_goes_on_where_a_conversation_ended(mode, execute, output, service):
    service.behave(fail_messages="Talk 1, question 2")
    with pytest.raises(AssistantError, match="without an answer"):
        execute(mode=mode)
    first = {row["key"]: row["request_id"] for row in rows_of(output) if row["status"] == "complete"}
    service.behave(fail_messages="")
    sent = service.posts(PATHS[mode])
    result = execute(mode=mode)
    assert (result["complete"], result["submitted"]) == (9, 2)
    assert service.posts(PATHS[mode]) == sent + 2
    again = {row["key"]: row["request_id"] for row in rows_of(output)}
    assert first.items() <= again.items()
    check_order(output, 3)


def test_each_repetition_of_a_conversation_has_a_session_of_its_own(execute, output, service):
    assert execute(repeat=2)["complete"] == 18
    check_order(output, 6)


def test_findings_of_all_turns_are_kept(execute, output):
    source = conversations()
    source[0] |= {"message": " "}  # the last turn of the first conversation
    source[-2] |= {"message": ""}  # the first turn of the second
    result = execute(source, max_failed=4)
    findings = findings_of(result)
    assert [(one["kind"], one["key"], one["row"]) for one in findings] == [
        ("rejected", "0.3", 1),
        ("rejected", "1.1", 8),
    ]
    assert (result["rejected"], result["not_submitted"], result["complete"]) == (2, 4, 5)


@pytest.mark.parametrize(
    ("changes", "row", "reason"),
    [
        ({"session": None}, {}, "turn needs session"),
        ({"key_columns": []}, {}, "turn needs session"),
        ({"turn": "missing"}, {}, "missing"),
        ({}, {"step": "second"}, "is not a number"),
        ({}, {"step": None}, "is not a number"),
        ({}, {"talk": ""}, "has no conversation"),
        ({}, {"step": 10}, "two questions with the same turn"),
    ],
)
def test_what_is_not_a_conversation_is_refused_before_the_first_question(changes, row, reason, execute, service):
    source = conversations()
    source[0] |= row
    with pytest.raises(AssistantInputError, match=reason):
        execute(source, **changes)
    assert not service.journal("POST")
