"""A chat batch in sync mode asks no question again that the service may still be answering."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_provider_assistant.exceptions import AssistantIncompleteError
from tests.documented import HELD, DocumentedAssistant
from tests.unit.operators.batches import findings_of, rows_of
from tests.wire import SHORT_TIMEOUT

MESSAGES = [f"What about {number}?" for number in range(6)]


@pytest.fixture
def assistant():
    with DocumentedAssistant() as server:
        yield server


@pytest.fixture
def connect_to(assistant, ledger_home, monkeypatch):
    def connect(**extra):
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", assistant.connection(chat_timeout=SHORT_TIMEOUT, **extra))

    # If the event loop stands still while it connects, aiohttp counts this time as connecting.
    monkeypatch.setattr("airflow_provider_assistant.client.settings.ClientSettings.connect_timeout", 60.0)
    return connect


@pytest.fixture
def ask(execute):
    def asked(messages=MESSAGES, **arguments):
        source = [{"id": f"q-{number}", "message": message} for number, message in enumerate(messages)]
        return execute(source, mode="sync", **arguments)

    return asked


@pytest.mark.promise("chat", "A question of a batch that timed out is sent once, and counted and listed as ambiguous.")
@pytest.mark.parametrize(("retries", "max_concurrency"), [(4, 32), (1, 4), (0, 1)])
def test_chats_that_time_out_are_sent_once_and_counted(retries, max_concurrency, assistant, connect_to, ask, output):
    connect_to(retries=retries)
    messages = MESSAGES[:3]
    assistant.outcomes = dict.fromkeys(messages, HELD)
    result = ask(messages, max_failed=3, max_concurrency=max_concurrency)
    assert assistant.chats == dict.fromkeys(messages, 1)
    assert (result["not_submitted"], result["ambiguous"], result["complete"]) == (3, 3, 0)
    assert {(row["kind"], row["row"]) for row in findings_of(result)} == {("ambiguous", row) for row in (1, 2, 3)}
    assert all(row["error"].startswith("ambiguous: ") for row in rows_of(output))


@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_the_choice_says_what_a_retry_of_the_task_does(on_ambiguous, assistant, connect_to, ask, output):
    connect_to(retries=3)
    slow = set(MESSAGES[1:4])
    assistant.outcomes = dict.fromkeys(slow, HELD)
    with pytest.raises(AssistantIncompleteError):
        ask(on_ambiguous=on_ambiguous)
    assert assistant.chats == dict.fromkeys(MESSAGES, 1)
    assert {row["message"] for row in rows_of(output) if row["status"] != "complete"} == slow
    assistant.outcomes = {}
    result = ask(on_ambiguous=on_ambiguous, max_failed=3)
    if on_ambiguous == "retry":
        assert (result["complete"], result["possibly_duplicated"]) == (6, 3)
        assert assistant.chats == Counter(MESSAGES) + Counter(slow)
    else:
        assert (result["complete"], result["ambiguous"]) == (3, 3)
        assert assistant.chats == Counter(MESSAGES)


@pytest.mark.parametrize(("on_ambiguous", "times"), [("retry", 3), ("skip", 1)])
@pytest.mark.parametrize("status", [500, 507])
def test_after_a_5xx_a_question_is_sent_again_by_choice_only(status, on_ambiguous, times, assistant, connect_to, ask):
    connect_to(retries=2)
    first, second = MESSAGES[:2]
    assistant.outcomes = {second: status}
    result = ask([first, second], on_ambiguous=on_ambiguous, max_failed=1)
    assert assistant.chats == {first: 1, second: times}
    assert (result["complete"], result["ambiguous"]) == (1, 1)
