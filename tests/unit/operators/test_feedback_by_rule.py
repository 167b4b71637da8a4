"""Ratings by rule: each answer is rated once, and the counts add up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantIncompletePermanentError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.ledger.database import SQLITE_ATTEMPTS
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.sending import sender
from airflow_provider_assistant.sending.client import SendingClient
from tests.task_runs.context import task_context
from tests.unit.ledger.outage import away

FEEDBACK = r"chat/feedback$"
RULES = {"good": "token_f1 >= 0.8", "bad": "token_f1 < 0.3"}
ENDS = ("sent", "already_sent", "repeated", "not_rated", "not_answered", "failed")


class Evaluated:
    """Files with answers of the service and their scores."""

    def __init__(self, folder, service):
        self.answers, self.scores = str(folder / "answers.parquet"), str(folder / "scores.parquet")
        self.service = service

    def ask(self, score, **options):
        """Ask one question per score. None means no score."""
        source = [{"key": f"q{number}", "message": f"Question {number}?"} for number in range(len(score))]
        options = {"mode": "sync", "max_failed": len(score), "key_columns": "key", **options}
        ask = AssistantChatBatchOperator(task_id="ask", source=source, output_path=self.answers, **options)
        ask.render_template_fields({})
        ask.execute(task_context("ask"))
        rows = pq.read_table(self.answers).to_pylist()
        scores = [
            {
                "key": row["key"],
                "scorer": "token_f1",
                "score": value if row["status"] == "complete" else None,
                "outcome": "unanswered" if row["status"] != "complete" else "error" if value is None else "scored",
                "status": row["status"],
                "seconds": row["seconds"],
            }
            for row, value in zip(rows, score, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(scores), self.scores)
        return [row["request_id"] for row in rows]

    def operator(self, **options):
        options = {"answers": self.answers, "scores": self.scores, "rules": RULES, **options}
        return AssistantRateAnswersOperator(task_id="rate", **options)

    def rate(self, **options):
        result = self.operator(**options).execute(task_context("rate"))
        assert result["rows"] == sum(result[end] for end in ENDS)
        return result

    def rated(self):
        return Counter(self.service.ratings().values())


@pytest.fixture
def evaluated(tmp_path, service, connection):
    return Evaluated(tmp_path, service)


def findings(ledger_home):
    path = ledger_home / "assistant_loads" / "dag" / "rate" / "run.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


@pytest.mark.promise("ratings", "Each answer is rated once by its scores, and the counts add up.")
def test_each_answer_is_rated_once_by_its_scores(evaluated, service):
    requests = evaluated.ask([0.9, 0.1, 0.5, 1.0, None])
    result = evaluated.rate()
    assert result == {
        "rows": 5, "sent": 3, "already_sent": 0, "repeated": 0, "not_rated": 2, "not_answered": 0, "failed": 0,
        "possibly_duplicated": 0, "by_rating": {"good": 2, "bad": 1}, "site_id": "acme-docs", "findings": None,
    }  # fmt: skip
    found = service.ratings()
    assert found == {requests[0]: "good", requests[1]: "bad", requests[3]: "good"}


def test_what_was_rated_alone_is_not_rated_again(evaluated, service):
    request_id, _ = evaluated.ask([0.9, 0.9])
    session_id = pq.read_table(evaluated.answers)["session_id"][0].as_py()
    AssistantFeedbackOperator(
        task_id="one", session_id=session_id, request_id=request_id, feedback="good"
    ).execute(task_context("one"))  # fmt: skip
    result = evaluated.rate()
    assert (result["sent"], result["already_sent"]) == (1, 1)
    assert service.posts(FEEDBACK) == 2


def test_questions_without_an_answer_are_not_rated(evaluated, service):
    service.behave(fail_messages="Question 1")
    evaluated.ask([0.9, 0.9, 0.9], mode="async", poll_interval=0.05, deferrable=False)
    result = evaluated.rate()
    assert (result["sent"], result["not_answered"]) == (2, 1)


def test_no_more_are_in_flight_than_the_connection_allows(evaluated, connect, service, monkeypatch):
    evaluated.ask([0.9] * 12)
    flying, most, allowed = 0, 0, asyncio.Event()
    create = SendingClient.create

    async def counted(self, item):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        if most >= 3:
            allowed.set()
        try:
            await asyncio.wait_for(allowed.wait(), 60)  # a slow machine must not send them one after the other
            return await create(self, item)
        finally:
            flying -= 1

    monkeypatch.setattr(SendingClient, "create", counted)
    connect(max_concurrency=3)
    service.behave(latency=0.02)
    assert evaluated.rate()["sent"] == 12
    assert most == 3


def test_a_refused_rating_is_listed_and_sent_by_the_retry(evaluated, service, ledger_home):
    evaluated.ask([0.9] * 4)
    service.answer("status:400", path=FEEDBACK)
    operator = evaluated.operator(max_concurrency=1)
    with pytest.raises(AssistantIncompleteError, match="refused 1 rating"):
        operator.execute(task_context("rate"))
    assert [(row["kind"], row["key"]) for row in findings(ledger_home)] == [("failed", "q0")]
    result = evaluated.rate()
    assert (result["sent"], result["already_sent"], result["possibly_duplicated"]) == (1, 3, 0)
    assert evaluated.rated() == {"good": 4}


def test_an_ambiguous_rating_is_listed_and_repeated_and_said_so(evaluated, service, ledger_home):
    evaluated.ask([0.9] * 4)
    service.answer("store-then-drop", path=FEEDBACK)
    with pytest.raises(AssistantIncompleteError):
        evaluated.operator(max_concurrency=1).execute(task_context("rate"))
    assert [row["kind"] for row in findings(ledger_home)] == ["ambiguous"]
    result = evaluated.rate()
    assert (result["sent"], result["already_sent"], result["possibly_duplicated"]) == (1, 3, 1)
    assert [(row["kind"], row["key"]) for row in findings(ledger_home)] == [("possibly_duplicated", "q0")]
    assert result["findings"]
    assert evaluated.rated() == {"good": 4}


def test_a_rating_that_was_repeated_in_process_is_listed(evaluated, connect, service, ledger_home):
    evaluated.ask([0.9])
    connect(retries=2)
    service.answer("store-then-status:502", path=FEEDBACK)
    assert evaluated.rate()["possibly_duplicated"] == 1
    assert [row["kind"] for row in findings(ledger_home)] == ["possibly_duplicated"]


def test_a_service_that_is_down_is_left_alone_soon(evaluated, service, monkeypatch):
    monkeypatch.setattr(sender, "BREAKER", 5)
    evaluated.ask([0.9] * 20)
    service.answer("status:503", path=FEEDBACK, times=None)
    with pytest.raises(AssistantIncompleteError, match="5 ratings in a row could not be sent"):
        evaluated.operator(max_concurrency=2).execute(task_context("rate"))
    assert service.posts(FEEDBACK) <= 6


@pytest.mark.parametrize("is_back", [False, True], ids=["stays away", "is back at the end"])
def test_a_ledger_that_breaks_stops_it_and_what_was_sent_counts_as_sent(is_back, evaluated, service, caplog):
    evaluated.ask([0.9] * 5)
    times = SQLITE_ATTEMPTS if is_back else float("inf")
    with (
        away(sa.Engine, "UPDATE", when=lambda: service.posts(FEEDBACK) == 3, times=times),
        pytest.raises(AssistantLedgerError, match="the ledger cannot be written: database is locked"),
    ):
        evaluated.operator(max_concurrency=1).execute(task_context("rate"))
    assert ("1 last outcome cannot be recorded" in caplog.text) is not is_back
    result = evaluated.rate()
    unrecorded = 0 if is_back else 1
    assert (result["sent"], result["already_sent"]) == (2 + unrecorded, 3 - unrecorded)
    assert result["possibly_duplicated"] == unrecorded


def when_rated(service, count, do):
    """Call a function from another thread, like a signal handler, after a number of ratings."""

    def wait():
        deadline = time.monotonic() + 120
        while service.posts(FEEDBACK) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ended_in_the_middle_the_answers_to_what_is_in_flight_are_awaited(evaluated, service, monkeypatch):
    monkeypatch.setattr(sender, "GRACE", 60.0)
    evaluated.ask([0.9] * 60)
    service.answer("delay:0.3", path=FEEDBACK, skip=4, times=None)
    operator = evaluated.operator(max_concurrency=2)
    thread = when_rated(service, 5, operator.on_kill)
    with pytest.raises(AssistantIncompleteError, match="ended from outside"):
        operator.execute(task_context("rate"))
    thread.join()
    sent = len(service.ratings())
    assert sent < 60
    service.behave(rules=[])
    result = evaluated.rate()
    assert (result["sent"], result["already_sent"], result["possibly_duplicated"]) == (60 - sent, sent, 0)
    assert evaluated.rated() == {"good": 60}


def test_a_timeout_that_airflow_raises_ends_it(evaluated, service, monkeypatch):
    evaluated.ask([0.9] * 10)

    async def expiring(*_):
        raise AirflowTaskTimeout("too long")

    monkeypatch.setattr(SendingClient, "create", expiring)
    with pytest.raises(AirflowTaskTimeout, match="too long"):
        evaluated.operator().execute(task_context("rate"))


@pytest.mark.parametrize("field", ["answers", "scores"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_sent(field, evaluated, service, tmp_path):
    evaluated.ask([0.9])
    (tmp_path / "other.txt").write_text("no Parquet")
    for path in ("missing.parquet", "other.txt"):
        with pytest.raises(AssistantInputError, match=f"{field} must be a Parquet file, but .*{path}") as raised:
            evaluated.operator(**{field: str(tmp_path / path)}).execute(task_context("rate"))
        assert raised.value.field == field
    assert service.posts(FEEDBACK) == 0


# -- rejected ratings --------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("status:404", AssistantIncompletePermanentError),
        ("status:409", AssistantIncompletePermanentError),
        ("status:503", AssistantIncompleteError),
        ("drop", AssistantIncompleteError),
        # These concern all ratings, and stop at the first.
        ("status:401", AssistantAuthenticationError),
        ("retry-after:3600", AssistantRateLimitError),
    ],
)
def test_which_failures_a_retry_can_help(action, error, evaluated, service):
    evaluated.ask([0.9] * 3)
    service.answer(action, path=FEEDBACK, times=None)
    with pytest.raises(AssistantError) as raised:
        evaluated.operator(max_concurrency=1).execute(task_context("rate"))
    assert type(raised.value) is error
    stops = error in {AssistantAuthenticationError, AssistantRateLimitError}
    assert service.posts(FEEDBACK) == (1 if stops else 3)


def test_airflow_does_not_retry_refused_ratings(evaluated, service, run_operator):
    evaluated.ask([0.9] * 3)
    service.answer("status:404", path=FEEDBACK, times=None)
    paths = {"answers": evaluated.answers, "scores": evaluated.scores}
    run = run_operator(AssistantRateAnswersOperator, rules=RULES, retries=2, **paths)
    assert (run.state, run.tries(), service.posts(FEEDBACK)) == ("failed", 1, 3)


def test_a_retry_sends_what_failed_and_then_reports_what_is_refused(evaluated, service):
    evaluated.ask([0.9] * 5)
    operator = evaluated.operator(max_concurrency=1)
    for action in ("status:404", "status:503"):
        service.answer(action, path=FEEDBACK)
    with pytest.raises(AssistantIncompleteError, match=r"Not sent: 2 ratings .*A retry sends those") as raised:
        operator.execute(task_context("rate"))
    assert not isinstance(raised.value, AirflowFailException)
    service.answer("status:404", path=FEEDBACK)
    with pytest.raises(AssistantIncompletePermanentError, match="refused 1 rating "):
        operator.execute(task_context("rate"))
    assert evaluated.rated() == {"good": 4}


# -- several ratings of one request ----------------------------------------------------------------


def test_ratings_by_rule_that_were_superseded_are_sent_again(evaluated, service):
    """A service whose replies do not say that it keeps the first rating may have the latest one."""
    evaluated.ask([0.9, 0.1])
    service.answer("status:200", path=FEEDBACK, times=None, reply={"status": "ok"})
    swapped = {"bad": "token_f1 >= 0.8", "good": "token_f1 < 0.3"}
    results = [evaluated.rate(rules=rules) for rules in (RULES, swapped, RULES, RULES)]
    assert [(result["sent"], result["already_sent"]) for result in results] == [(2, 0), (2, 0), (2, 0), (0, 2)]
    assert [result["by_rating"] for result in results] == [{"good": 1, "bad": 1}] * 4
    assert service.posts(FEEDBACK) == 6
