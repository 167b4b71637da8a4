"""A chat batch sends no message to a session that it closed, or may have closed: the service would refuse it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
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
@pytest.mark.parametrize("session", [None, "shared"])
@pytest.mark.parametrize("end", [FAILED, LOST])
def test_questions_are_asked_again_in_new_sessions(end, session, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 9))
    messages = messages_of(source)
    expected = Counter(messages)
    without_answer = some_of(rng, messages)
    assistant.outcomes = dict.fromkeys(without_answer, end)
    ask(source, session=session)
    for _ in range(rng.randrange(1, 3)):
        expected += Counter(without_answer)
        without_answer = some_of(rng, without_answer) if len(without_answer) > 1 else without_answer
        assistant.outcomes = dict.fromkeys(without_answer, end)
        ask(source, session=session)
    assistant.outcomes = {}
    expected += Counter(without_answer)
    assert ask(source, session=session)["complete"] == len(source)
    assert assistant.chats == expected
    check_complete(source, output, assistant)


@pytest.mark.parametrize("is_closed", ["in part", "all", "none", "all, and published"])
def test_a_task_that_was_killed_while_it_closed_sessions(is_closed, assistant, ask, output, monkeypatch):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 9))
    messages = messages_of(source)
    without_answer = some_of(rng, messages)
    assistant.outcomes = dict.fromkeys(without_answer, FAILED)
    close = batch_module.close_sessions

    async def closed(settings, site_id, sessions):
        count = {"none": 0, "in part": rng.randrange(len(sessions))}.get(is_closed, len(sessions))
        await close(settings, site_id, sessions[:count])
        raise Killed

    def removed(batch):
        raise Killed

    with monkeypatch.context() as patched:
        if is_closed == "all, and published":
            patched.setattr(batch_module.BatchState, "remove", removed)
        else:
            patched.setattr(batch_module, "close_sessions", closed)
        with pytest.raises(Killed):
            ask(source)
    assistant.outcomes = {}
    assert ask(source)["complete"] == len(source)
    assert assistant.chats == Counter(messages) + Counter(without_answer)
    check_complete(source, output, assistant)


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("session", [None, "shared"])
def test_without_the_ledger_all_questions_are_asked_again_in_new_sessions(session, mode, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(2, 7))
    tries = rng.randrange(2, 4)
    for _ in range(tries):
        assert ask(source, session=session, mode=mode, ledger=False)["complete"] == len(source)
    assert set(assistant.chats.values()) == {tries}
    assert len(set(assistant.accepted)) == tries * len(source)
    check_complete(source, output, assistant)


@pytest.mark.parametrize("change", ["message", "email", "new row", "removed and changed"])
@pytest.mark.parametrize("session", [None, "shared"])
def test_a_changed_question_is_asked_in_a_new_session(session, change, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 7), email="a@example.com")
    ask(source, session=session)
    changed = rng.sample(range(len(source)), 2)
    if change == "removed and changed":
        ask([row for number, row in enumerate(source) if number not in changed], session=session)
    for number in changed:
        if change == "email":
            source[number] = source[number] | {"email": "b@example.com"}
        elif change == "new row":
            source.append({"id": f"new-{number}", "message": f"New {number}?", "email": "a@example.com"})
        else:
            source[number] = source[number] | {"message": f"And {number}?"}
    accepted_before = len(assistant.accepted)
    assert ask(source, session=session)["complete"] == len(source)
    assert len(assistant.accepted) == accepted_before + 2
    check_complete(source, output, assistant)


@pytest.mark.parametrize("status", [400, 500])
def test_a_shared_session_that_is_closed_is_replaced_in_sync_mode(status, assistant, ask, output):
    source = questions_of(random.Random(7), 4)
    first, *others = messages_of(source)
    assistant.outcomes = {first: status}
    assert ask(source, session="shared", mode="sync")["complete"] == 3
    assistant.outcomes = {}
    assert ask(source, session="shared", mode="sync")["complete"] == 4
    assert assistant.chats == Counter([first, first, *others])
    sessions = {message: session for session, message in assistant.accepted}
    assert sessions[first] != sessions[others[0]]
    assert sessions[first].startswith(sessions[others[0]])
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


@pytest.mark.parametrize("ledger", [True, False])
def test_a_closed_conversation_is_asked_as_a_whole_in_a_new_session(ledger, assistant, ask, output):
    rng = random.Random(SEED)
    source = conversations_of(rng, 3)
    ask(source, ledger=ledger, **TALKS)
    accepted_before = len(assistant.accepted)
    number = rng.randrange(len(source))
    source[number] = source[number] | {"email": "b@example.com"}
    assert ask(source, ledger=ledger, **TALKS)["complete"] == len(source)
    check_complete(source, output, assistant)
    talks = {row["talk"] for row in source} if not ledger else {source[number]["talk"]}
    repeated = assistant.accepted[accepted_before:]
    for talk in talks:
        turns = sorted((row for row in source if row["talk"] == talk), key=lambda row: row["step"])
        wanted = [row["message"] for row in turns]
        asked = [(session, message) for session, message in repeated if message in wanted]
        assert [message for _, message in asked] == wanted
        assert len({session for session, _ in asked}) == 1
    assert len(repeated) == len([row for row in source if row["talk"] in talks])


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


# -- sessions that the source names ----------------------------------------------------------------


@pytest.mark.parametrize("end", [FAILED, LOST])
def test_a_named_session_stays_open_until_all_its_questions_have_answers(end, assistant, ask, output):
    rng = random.Random(SEED)
    source = questions_of(rng, rng.randrange(3, 9))
    for row in source:
        row["talk"] = f"t{rng.randrange(3)}"
    without_answer = rng.choice(source)
    assistant.outcomes = {without_answer["message"]: end}
    ask(source, session="talk", close_sessions=True)
    assert assistant.closed == {row["talk"] for row in source} - {without_answer["talk"]}
    assistant.outcomes = {}
    assert ask(source, session="talk", close_sessions=True)["complete"] == len(source)
    assert assistant.closed == {row["talk"] for row in source}
    check_complete(source, output, assistant)


@pytest.mark.parametrize("max_failed", [0, 1])
def test_a_question_for_a_named_session_that_was_closed_is_rejected_before_it_is_sent(
    max_failed, assistant, ask, output
):
    source = questions_of(random.Random(5), 3, talk="visitor-7")
    ask(source, session="talk", close_sessions=True)
    source[1]["message"] = "And to other countries?"
    arguments = {"session": "talk", "close_sessions": True, "max_failed": max_failed}
    if max_failed:
        result = ask(source, **arguments)
        assert (result["rejected"], result["complete"], result["findings"] is None) == (1, 2, False)
    else:
        with pytest.raises(AssistantInputError):
            ask(source, **arguments)
    assert len(assistant.accepted) == 3
    row = by_key(output)["q-1"]
    assert row["status"] == "not_submitted"
    assert "visitor-7" in row["error"]
