"""Rating answers, and the ratings as Parquet."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantFeedbackToParquetOperator
from tests.task_runs.context import execute_operator, task_context
from tests.wire import ScriptedService

FEEDBACK = r"chat/feedback$"


def ask(run_operator):
    return run_operator(
        AssistantSubmitChatOperator, session_id="s", message="Anything?", deferrable=True, poll_interval=0.01
    ).xcom()["request_id"]


def rate(run_operator, request_id, feedback="good", **options):
    return run_operator(
        AssistantFeedbackOperator, session_id="s", request_id=request_id, feedback=feedback, **options
    )  # fmt: skip


def test_a_rating_is_sent_once_however_often_it_runs(service, connection, run_operator):
    request_id = ask(run_operator)
    results = [rate(run_operator, request_id).xcom() for _ in range(3)]
    assert results[0] == {
        "session_id": "s", "request_id": request_id, "feedback": "good", "site_id": "acme-docs", "sent": True,
        "repeated": False,
    }  # fmt: skip
    assert [result["sent"] for result in results] == [True, False, False]
    assert service.posts(FEEDBACK) == 1
    assert service.ratings() == {request_id: "good"}


def rate_now(request_id, feedback):
    """Execute the operator without a DAG. Return whether it sent the rating."""
    operator = AssistantFeedbackOperator(task_id="rate", session_id="s", request_id=request_id, feedback=feedback)
    with contextlib.closing(operator.hook.client):
        return operator.execute(task_context("rate"))["sent"]


def submitted():
    """Submit a question. Return its request id."""
    hook = AssistantHook()
    with contextlib.closing(hook.client):
        return hook.submit_chat("s", "Anything?").request_id


@pytest.mark.promise("ratings", "The service has the latest rating of each answer, and none is sent twice in a row.")
@pytest.mark.parametrize("seed", range(2))
def test_the_service_has_the_latest_rating(seed, ledger_home, monkeypatch):
    """A rating is sent unless it is already the latest of its request, in any order; each reply is empty."""
    extra = {"site_id": "docs", "rating_words": "good bad so-so", "retries": 0}
    random, expected = Random(seed), []
    with ScriptedService() as scripted:
        fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        for _ in range(12):
            request_id, word = random.choice(["r1", "r2"]), random.choice(["good", "bad", "so-so"])
            latest = dict(expected).get(request_id)
            assert rate_now(request_id, word) is (word != latest)
            expected += [] if word == latest else [(request_id, word)]
    sent = [request.json() for request in scripted.received]
    assert [(rating["request_id"], rating["feedback"]) for rating in sent] == expected


@pytest.mark.parametrize(("action", "sent"), [("store-then-drop", 3), ("store-then-status:502", 3), ("status:400", 2)])
def test_a_rating_is_sent_again_after_another_that_may_have_been_received(action, sent, service, connection):
    request_id = submitted()
    assert rate_now(request_id, "good")
    service.answer(action, path=FEEDBACK)
    with pytest.raises(AssistantError):
        rate_now(request_id, "bad")
    rate_now(request_id, "good")
    assert service.posts(FEEDBACK) == sent
    assert service.ratings() == {request_id: "good"}


def test_without_the_ledger_every_run_rates(service, connection, run_operator, ledger_home):
    request_id = ask(run_operator)
    (ledger_home / "assistant_ledger.db").unlink()
    results = [rate(run_operator, request_id, ledger=False).xcom() for _ in range(2)]
    assert [(result["sent"], result["repeated"]) for result in results] == [(True, False), (False, True)]
    assert service.posts(FEEDBACK) == 2
    assert not (ledger_home / "assistant_ledger.db").exists()


def test_a_refused_rating_is_sent_again_by_the_retry(service, connection, run_operator):
    request_id = ask(run_operator)
    service.answer("retry-after:3600", path=FEEDBACK)
    run = rate(run_operator, request_id, retries=1)
    assert (run.state, run.tries()) == ("success", 2)
    assert run.xcom()["sent"]
    assert len(service.ratings()) == 1


def test_to_parquet(same_day, service, connection, run_operator, tmp_path):
    words = {ask(run_operator): word for word in ("good", "bad")}
    for request_id, word in words.items():
        rate(run_operator, request_id, word)
    today = datetime.now(UTC).date()
    run = run_operator(AssistantFeedbackToParquetOperator, output_path=str(tmp_path / "lake"))
    result = run.xcom()
    yesterday = today - timedelta(days=1)
    assert result == {
        "rows": 2,
        "path": str(tmp_path / f"lake/feedback/date={today}/{run.dag_id}.task.parquet"),
        "paths": [
            str(tmp_path / f"lake/feedback/date={day}/{run.dag_id}.task.parquet") for day in (yesterday, today)
        ],
        "bytes": sum(path.stat().st_size for path in tmp_path.rglob("lake/**/*.parquet")),
        "kept": 0,
        "gaps": 0,
        "gap_days": [],
        "date": today.isoformat(),
    }  # fmt: skip
    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(lake.FEEDBACK.schema())
    rows = read.to_pylist()
    assert [(row["rating"], row["request_id"], row["site_id"], row["session_id"]) for row in rows] == [
        (word, request_id, "acme-docs", "s") for request_id, word in words.items()
    ]
    assert all(row["answer_seconds"] >= 0 for row in rows)
    assert all(row["dag_id"].startswith("test_to_parquet") for row in rows)
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
