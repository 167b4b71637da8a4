"""Ratings of one answer, and the ratings as Parquet."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.feedback.ratings import REPEATED
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantFeedbackToParquetOperator
from tests.task_runs.context import execute_operator, task_context
from tests.wire import Answer, ScriptedService

FEEDBACK = r"chat/feedback$"


def submitted():
    """Submit a question. Return its request id."""
    hook = AssistantHook()
    with contextlib.closing(hook.client):
        return hook.submit_chat("s", "Anything?").request_id


def rate(request_id, feedback="good", **options):
    """Execute the operator without a DAG. Return whether it sent the rating, and whether it was repeated."""
    operator = AssistantFeedbackOperator(
        task_id="rate", session_id="s", request_id=request_id, feedback=feedback, **options
    )
    result = operator.execute(task_context("rate"))
    assert result.items() >= {"session_id": "s", "request_id": request_id, "feedback": feedback}.items()
    return result["sent"], result["repeated"]


@pytest.mark.promise("ratings", "The service has the latest rating of each answer, and none is sent twice in a row.")
@pytest.mark.parametrize("seed", range(2))
def test_the_service_has_the_latest_rating(seed, ledger_home, monkeypatch):
    """A rating is sent unless it is already the latest of its request, in any order; each reply is empty."""
    extra = {"site_id": "docs", "retries": 0}
    random, expected = Random(seed), []
    with ScriptedService() as scripted:
        fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        for _ in range(12):
            request_id, word = random.choice(["r1", "r2"]), random.choice(["good", "bad"])
            latest = dict(expected).get(request_id)
            assert rate(request_id, word)[0] is (word != latest)
            expected += [] if word == latest else [(request_id, word)]
    sent = [request.json() for request in scripted.received]
    assert [(rating["request_id"], rating["feedback"]) for rating in sent] == expected


@pytest.mark.parametrize(("action", "sent"), [("store-then-drop", 3), ("store-then-status:502", 3), ("status:400", 2)])
def test_a_rating_is_sent_again_after_another_that_may_have_been_received(action, sent, service, connection):
    request_id = submitted()
    assert rate(request_id) == (True, False)
    service.answer(action, path=FEEDBACK)
    with pytest.raises(AssistantError):
        rate(request_id, "bad")
    rate(request_id)
    assert service.posts(FEEDBACK) == sent
    assert service.ratings() == {request_id: "good"}


@pytest.mark.promise("ratings", "What was rated through one address of a service is not rated through another.")
def test_another_address_of_the_service_has_the_ratings_already(ledger_home, monkeypatch):
    extra = {"site_id": "docs", "service_name": "our assistant"}
    results = []
    for _ in range(2):
        with ScriptedService() as scripted:
            fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test", "extra": extra}
            monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
            results.append((*rate("r1"), len(scripted.received)))
    assert results == [(True, False, 1), (False, False, 0)]


def test_a_refused_rating_is_sent_again_by_the_retry(service, connection, run_operator):
    request_id = submitted()
    service.answer("retry-after:3600", path=FEEDBACK)
    run = run_operator(AssistantFeedbackOperator, session_id="s", request_id=request_id, feedback="good", retries=1)
    assert (run.state, run.tries(), run.xcom()["sent"]) == ("success", 2, True)
    assert service.ratings() == {request_id: "good"}


# -- a service that keeps the first rating of a request ----------------------------------------------

TIME = "2026-11-25T10:00:00+00:00"
SHAPES = {
    "as documented": lambda reply, time: {**reply, **({"feedback_submitted_at": time} if time else {})},
    "null": lambda reply, time: {**reply, "feedback_submitted_at": time},
    "in an envelope": lambda reply, time: {"data": {**reply, **({"feedback_submitted_at": time} if time else {})}},
}


class FirstRatings(ScriptedService):
    """Keep the first rating of each request, and reply in a shape."""

    def __init__(self, shape):
        super().__init__()
        self.shape = SHAPES[shape]
        self.kept = {}
        # Answers to send instead of the next replies, although the rating is kept.
        self.failures = []

    def next(self, request):
        super().next(request)
        sent = request.json()
        is_first = sent["request_id"] not in self.kept
        self.kept.setdefault(sent["request_id"], sent["feedback"])
        if self.failures:
            return self.failures.pop()
        reply = {"status": "ok", "request_id": sent["request_id"], "feedback": self.kept[sent["request_id"]]}
        return Answer(200, self.shape(reply, TIME if is_first else None))


@pytest.fixture(params=SHAPES)
def assistant(request, ledger_home, monkeypatch):
    with FirstRatings(request.param) as assistant:
        extra = {"site_id": "docs", "retries": 0}
        fields = {"conn_type": "assistant", "host": assistant.url, "password": "canary-key-0123456789", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        yield assistant


def recorded():
    """Return rating, state and error of the attempts in the ledger, the earliest one first."""
    with Ledger.open() as ledger:
        page = ledger.read(queries.entries, ledger.clock, Filter(kinds=["rating"]))
    return [(row["rating"], row["state"], row["error"]) for row in reversed(page.rows)]


def test_a_second_rating_is_repeated_and_the_first_one_stays_the_latest(assistant, capfd):
    assert rate("r1", "good") == (True, False)
    assert rate("r1", "bad") == (False, True)
    assert "did not accept" in "".join(capfd.readouterr())
    assert recorded() == [("good", "created", None), ("bad", "rejected", REPEATED)]
    assert rate("r1", "good") == (False, False), "it is still the latest one, so it is not sent again"
    assert [json.loads(one.body)["feedback"] for one in assistant.received] == ["good", "bad"]
    assert rate("r1", "bad") == (False, True)


@pytest.mark.parametrize("failure", [Answer(drop=True), Answer(502, {"error": "bad gateway"})])
def test_after_an_ambiguous_attempt_the_earlier_rating_is_the_own_one(failure, assistant):
    assistant.failures = [failure]
    with pytest.raises(AssistantError):
        rate("r1", "good")
    assert rate("r1", "good") == (True, False)
    assert [(word, state) for word, state, _ in recorded()] == [("good", "ambiguous"), ("good", "created")]
    assert rate("r1", "bad") == (False, True)


@pytest.mark.parametrize("word", ["Good", "so-so"])
def test_another_word_is_refused_before_anything_is_sent(word, assistant):
    with pytest.raises(AssistantInputError, match="only good and bad"):
        rate("r1", word)
    with pytest.raises(AssistantInputError, match="only good and bad"):
        AssistantHook().send_feedback("s", "r", word)
    assert assistant.received == []


# -- the export ------------------------------------------------------------------------------------


def test_to_parquet(same_day, service, connection, run_operator, tmp_path):
    words = {submitted(): word for word in ("good", "bad")}
    for request_id, word in words.items():
        rate(request_id, word)
    today = datetime.now(UTC).date()
    run = run_operator(AssistantFeedbackToParquetOperator, output_path=str(tmp_path / "lake"))
    result = run.xcom()
    yesterday = today - timedelta(days=1)
    assert result == {
        "rows": 2,
        "path": result["paths"][1],
        "paths": [str(next(tmp_path.glob(f"lake/feedback/date={day}/*.parquet"))) for day in (yesterday, today)],
        "bytes": sum(path.stat().st_size for path in tmp_path.rglob("lake/**/*.parquet")),
        "kept": 0,
        "gaps": 0,
        "gap_days": [],
        "date": today.isoformat(),
    }  # fmt: skip
    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(datasets.FEEDBACK.schema())
    rows = read.to_pylist()
    assert [(row["rating"], row["request_id"], row["site_id"], row["session_id"]) for row in rows] == [
        (word, request_id, "acme-docs", "s") for request_id, word in words.items()
    ]
    assert pq.ParquetFile(result["paths"][0]).read().num_rows == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"date": "2026-03-01", "days": 3}, ["2026-02-27", "2026-02-28", "2026-03-01"]),
        ({"date": "{{ '2024' }}-01-01"}, ["2023-12-31", "2024-01-01"]),
        ({"days": 1}, ["2025-05-06"]),
    ],
)
def test_days(options, expected, connection, tmp_path):
    export = AssistantFeedbackToParquetOperator(task_id="export", output_path=str(tmp_path), **options)
    result = execute_operator(export, moment=datetime(2025, 5, 6, 23, 59, tzinfo=UTC))
    assert sorted(path.name for path in tmp_path.glob("feedback/date=*")) == [f"date={day}" for day in expected]
    assert result["date"] == expected[-1]
