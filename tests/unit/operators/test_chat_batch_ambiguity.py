"""A chat batch in sync mode asks no question again that the service may still be answering."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.chat_batch.state import findings_of
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousPermanentError,
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.documented import HELD, DocumentedAssistant
from tests.task_runs.context import execute_operator
from tests.wire import SHORT_TIMEOUT


@pytest.fixture
def assistant():
    with DocumentedAssistant() as server:
        yield server


@pytest.fixture
def connect_to(assistant, ledger_home, monkeypatch):
    def connect(**extra):
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", assistant.connection(chat_timeout=SHORT_TIMEOUT, **extra))

    # If the event loop stands still while it connects, aiohttp counts this time as connecting.
    monkeypatch.setattr("airflow_provider_assistant.client.aiohttp_transport.connect_timeout", lambda _: 60.0)
    return connect


@pytest.fixture
def ask(tmp_path):
    def asked(messages, **arguments):
        arguments = {"task_id": "ask", "mode": "sync", "output_path": str(tmp_path / "answers.parquet"), **arguments}
        source = [{"id": f"q-{number}", "message": message} for number, message in enumerate(messages)]
        return execute_operator(AssistantChatBatchOperator(source=source, key_columns=["id"], **arguments))

    return asked


def messages_of(seed, count):
    rng = random.Random(seed)
    return [f"What about {rng.randrange(10**9)} of {number}?" for number in range(count)]


def rows_of(tmp_path):
    return pq.read_table(tmp_path / "answers.parquet").to_pylist()


def findings(tmp_path):
    from airflow.sdk import ObjectStoragePath

    path = findings_of(ObjectStoragePath(str(tmp_path / "answers.parquet")))
    return pq.read_table(str(path)).to_pylist() if path.exists() else []


@pytest.mark.parametrize(
    ("seed", "count", "retries", "max_concurrency"), [(1, 2, 4, 32), (2, 7, 1, 4), (3, 5, 2, 32), (4, 3, 0, 1)]
)
def test_chats_that_time_out_are_sent_once_and_counted(
    seed, count, retries, max_concurrency, assistant, connect_to, ask, tmp_path
):
    connect_to(retries=retries)
    messages = messages_of(seed, count)
    assistant.outcomes = dict.fromkeys(messages, HELD)
    result = ask(messages, max_failed=count, max_concurrency=max_concurrency)
    assert assistant.chats == dict.fromkeys(messages, 1)
    assert (result["not_submitted"], result["ambiguous"], result["complete"]) == (count, count, 0)
    assert {(row["kind"], row["row"]) for row in findings(tmp_path)} == {("ambiguous", row + 1) for row in range(count)}
    assert all(row["error"].startswith("ambiguous: ") for row in rows_of(tmp_path))


@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_the_choice_says_what_a_retry_of_the_task_does(on_ambiguous, seed, assistant, connect_to, ask, tmp_path):
    connect_to(retries=3)
    rng = random.Random(seed)
    messages = messages_of(seed, rng.randrange(3, 9))
    slow = set(rng.sample(messages, rng.randrange(1, len(messages))))
    assistant.outcomes = dict.fromkeys(slow, HELD)
    with pytest.raises(AssistantIncompleteError) as caught:
        ask(messages, on_ambiguous=on_ambiguous)
    assert assistant.chats == dict.fromkeys(messages, 1)
    will_ask_again = on_ambiguous == "retry"
    assert ("asks those again that may have been asked" in str(caught.value)) == will_ask_again
    assert {row["message"] for row in rows_of(tmp_path) if row["status"] != "complete"} == slow

    assistant.outcomes = {}
    result = ask(messages, on_ambiguous=on_ambiguous, max_failed=len(slow))
    expected = Counter(messages)
    if will_ask_again:
        expected += Counter(slow)
        assert (result["complete"], result["possibly_duplicated"]) == (len(messages), len(slow))
    else:
        assert (result["complete"], result["ambiguous"]) == (len(messages) - len(slow), len(slow))
    assert assistant.chats == expected


@pytest.mark.parametrize("retries", [0, 2])
def test_a_batch_stops_for_good_if_a_question_may_have_been_asked(retries, assistant, connect_to, ask):
    connect_to(retries=retries)
    messages = messages_of(21, 6)
    assistant.outcomes = {messages[2]: HELD}
    for _ in range(2):
        with pytest.raises(AssistantAmbiguousPermanentError, match="on_ambiguous is 'fail'"):
            ask(messages, on_ambiguous="fail", max_failed=6)
    assert assistant.chats[messages[2]] == 1
    assert max(assistant.chats.values()) == 1


@pytest.mark.parametrize(("on_ambiguous", "times"), [("retry", 3), ("skip", 1)])
@pytest.mark.parametrize("status", [500, 507])
def test_after_a_5xx_a_question_is_sent_again_by_choice_only(status, on_ambiguous, times, assistant, connect_to, ask):
    connect_to(retries=2)
    first, second = messages_of(31, 2)
    assistant.outcomes = {second: status}
    result = ask([first, second], on_ambiguous=on_ambiguous, max_failed=1)
    assert assistant.chats == {first: 1, second: times}
    assert (result["complete"], result["ambiguous"]) == (1, 1)


def test_the_choice_is_checked_when_the_dag_is_parsed(tmp_path):
    with pytest.raises(AssistantInputError, match="on_ambiguous"):
        AssistantChatBatchOperator(
            task_id="ask", source=[{"message": "?"}], output_path=str(tmp_path / "a.parquet"), on_ambiguous="ignore"
        )
