"""A chat batch sends no message to a session that it closed, or may have closed: the service would refuse it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from airflow_provider_assistant.asking import batch
from tests.documented import FAILED, LOST, DocumentedAssistant, answer_to
from tests.unit.operators.batches import Killed, rows_of

SEED = 101


@pytest.fixture
def assistant(ledger_home, monkeypatch):
    with DocumentedAssistant() as server:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", server.connection())
        yield server
        assert server.refused == []


@pytest.fixture
def ask(execute):
    """Execute one try of the task, in which any number of questions may have no answer."""
    return lambda source, **options: execute(source, **{"max_failed": len(source), **options})


def by_key(output):
    return {row["key"]: row for row in rows_of(output)}


def questions_of(rng, count, **columns):
    return [{"id": f"q-{number}", "message": f"What of {rng.randrange(10**9)}?", **columns} for number in range(count)]


def messages_of(source):
    return [row["message"] for row in source]


def some_of(rng, values):
    return rng.sample(values, rng.randrange(1, len(values)))


def check_complete(source, output, assistant):
    rows = by_key(output)
    assert [rows[row["id"]]["answer"] for row in source] == [answer_to(row["message"]) for row in source]
    # The output names the session in which the question was answered.
    for row in rows.values():
        assert (row["session_id"], row["message"]) == assistant.requests[row["request_id"]]


@pytest.mark.promise("chat", "A batch sends no message to a session that it closed, or may have closed.")
@pytest.mark.parametrize("end", [FAILED, LOST])
def test_questions_are_asked_again_in_new_sessions(end, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 9))
    messages = messages_of(source)
    expected = Counter(messages)
    without_answer = some_of(rng, messages)
    assistant.outcomes = dict.fromkeys(without_answer, end)
    ask(source)
    for _ in range(rng.randrange(1, 3)):
        expected += Counter(without_answer)
        without_answer = some_of(rng, without_answer) if len(without_answer) > 1 else without_answer
        assistant.outcomes = dict.fromkeys(without_answer, end)
        ask(source)
    assistant.outcomes = {}
    expected += Counter(without_answer)
    assert ask(source)["complete"] == len(source)
    assert assistant.chats == expected
    check_complete(source, output, assistant)


@pytest.mark.parametrize("count", [0, 1, None], ids=["before", "in part", "after"])
def test_a_task_that_was_killed_while_it_closed_sessions(count, assistant, ask, output, monkeypatch):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 9))
    messages = messages_of(source)
    without_answer = some_of(rng, messages)
    assistant.outcomes = dict.fromkeys(without_answer, FAILED)

    close = batch.close_sessions

    async def closed(settings, site_id, sessions):
        await close(settings, site_id, sessions[:count])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(batch, "close_sessions", closed)
        with pytest.raises(Killed):
            ask(source)
    assistant.outcomes = {}
    assert ask(source)["complete"] == len(source)
    assert assistant.chats == Counter(messages) + Counter(without_answer)
    check_complete(source, output, assistant)


@pytest.mark.parametrize("change", ["message", "removed and changed"])
def test_a_changed_question_is_asked_in_a_new_session(change, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 7), email="a@example.com")
    ask(source)
    changed = rng.sample(range(len(source)), 2)
    if change == "removed and changed":
        ask([row for number, row in enumerate(source) if number not in changed])
    for number in changed:
        source[number] = source[number] | {"message": f"And {number}?"}
    accepted_before = len(assistant.accepted)
    assert ask(source)["complete"] == len(source)
    assert len(assistant.accepted) == accepted_before + 2
    check_complete(source, output, assistant)


# -- conversations ---------------------------------------------------------------------------------


def conversations_of(rng, count):
    source = []
    for talk in range(count):
        for step in range(rng.randrange(2, 4)):
            row = {"id": f"q{talk}.{step}", "message": f"What of {rng.randrange(10**9)}?", "email": "a@example.com"}
            source.append({**row, "talk": f"t{talk}", "step": step})
    rng.shuffle(source)
    return source


TALKS = {"session": "talk", "turn": "step"}


def test_a_changed_conversation_is_asked_as_a_whole_in_a_new_session(assistant, ask, output):
    rng = random.Random(SEED)
    source = conversations_of(rng, 3)
    ask(source, **TALKS)
    accepted_before = len(assistant.accepted)
    number = rng.randrange(len(source))
    source[number] = source[number] | {"message": "Something else?"}
    assert ask(source, **TALKS)["complete"] == len(source)
    check_complete(source, output, assistant)
    turns = sorted((row for row in source if row["talk"] == source[number]["talk"]), key=lambda row: row["step"])
    repeated = assistant.accepted[accepted_before:]
    assert [message for _, message in repeated] == [row["message"] for row in turns]
    assert len({session for session, _ in repeated}) == 1


@pytest.mark.parametrize("end", [FAILED, LOST])
def test_a_conversation_that_ended_early_goes_on_in_its_session(end, assistant, ask, output):
    rng = random.Random(SEED)
    source = conversations_of(rng, 3)
    assistant.outcomes = {rng.choice(messages_of(source)): end}
    ask(source, **TALKS)
    assistant.outcomes = {}
    assert ask(source, **TALKS)["complete"] == len(source)
    assert len({session for session, _ in assistant.accepted}) == 3
    check_complete(source, output, assistant)
