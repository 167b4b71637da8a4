"""AssistantChatBatchOperator against the embedded service: it asks every question once and writes every answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.sdk import DAG, ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.asking import answers as answers_module
from airflow_provider_assistant.asking.answers import COLUMNS, STATUSES
from airflow_provider_assistant.asking.batch import Batch
from airflow_provider_assistant.asking.state import BatchState
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRequestFailedError,
)
from airflow_provider_assistant.ledger import ScopeLedger
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.parameters import tolerance
from tests.task_runs.context import task_context
from tests.task_runs.finals import kind_of
from tests.unit.operators.batches import (
    CHAT,
    CLOSE,
    COUNTED,
    DEFAULTS,
    SUBMIT,
    Killed,
    batch_of,
    counts,
    findings_of,
    killed_at,
    many,
    rows_of,
    statuses,
)

QUESTIONS = [{"id": number, "message": f"Question {number}?", "expected": f"Answer {number}"} for number in range(8)]
POLL = r"chat/requests/"
NEVER = 3600

modes = pytest.mark.parametrize("mode", ["async", "sync"])
deferrables = pytest.mark.parametrize("deferrable", [False, True], ids=["on the worker", "deferred"])


@pytest.fixture
def ask(run_operator, output):
    """Run the operator in a DAG."""

    def asked(source=QUESTIONS, run=run_operator, **arguments):
        arguments = {**DEFAULTS, "output_path": str(output), **arguments}
        return run(AssistantChatBatchOperator, source=source, **arguments)

    return asked


def polled(service):
    """Return the number of polls of each request."""
    return Counter(entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL))


def failing(service, numbers):
    service.behave(fail_messages=rf"Question ({'|'.join(map(str, numbers))})\?")


def until(holds):
    """Wait for another thread."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it does not hold within two minutes"
        time.sleep(0.001)


@pytest.mark.promise("chat", "Every question of a batch is asked once, and its answer is in the output file.")
@pytest.mark.parametrize(("mode", "deferrable"), [("async", False), ("async", True), ("sync", False)])
def test_every_question_gets_its_row(mode, deferrable, service, connection, ask, output):
    run = ask(mode=mode, deferrable=deferrable)

    assert run.state == "success"
    result = run.xcom()
    assert set(result) == {
        "rows", *STATUSES, *COUNTED, "seconds_p50", "seconds_p95", "seconds_p99",
        "site_id", "output_path", "findings", "low_confidence",
    }  # fmt: skip
    assert counts(result) == {"complete": 8, "submitted": 8, "sessions_closed": 8}
    assert (result["rows"], result["output_path"], result["findings"]) == (8, str(output), None)
    assert 0 <= result["seconds_p50"] <= result["seconds_p95"] <= result["seconds_p99"]
    table = pq.read_table(output)
    assert table.column_names == [*COLUMNS, "id", "expected"]
    rows = table.to_pylist()
    assert [(row["id"], row["message"], row["expected"]) for row in rows] == [
        (question["id"], question["message"], question["expected"]) for question in QUESTIONS
    ]
    assert {row["status"] for row in rows} == {"complete"}
    assert all(row["answer"] and row["raw"] and row["submitted_at"] <= row["completed_at"] for row in rows)
    assert all(row["polls"] == (polled(service)[row["request_id"]] if mode == "async" else 0) for row in rows)
    assert len({row["session_id"] for row in rows}) == 8
    asked = {row["message"]: row for row in service.chats()}
    assert len(service.chats()) == len(asked) == 8
    assert all(asked[row["message"]]["id"] == row["request_id"] for row in rows)
    assert {row["mode"] for row in asked.values()} == {mode}
    assert [path.name for path in output.parent.iterdir()] == [output.name]


# -- source and parameters ---------------------------------------------------------------------------------


def test_what_stands_beside_a_question_keeps_its_type(service, connection, execute, output, tmp_path):
    beside = {
        "n": pa.array([1, None, 3], pa.int64()),
        "share": pa.array([0.5, None, 1.0], pa.float64()),
        "is_new": pa.array([True, None, False]),
        "day": pa.array([date(2026, 11, 21), None, date(2026, 1, 1)]),
        "at": pa.array([datetime(2026, 11, 21, tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
    }
    source = pa.table({"message": [f"Question {number}?" for number in range(3)], **beside})
    pq.write_table(source, tmp_path / "questions.parquet")
    execute(str(tmp_path / "questions.parquet"), key_columns=())
    found = pq.read_table(output)
    assert found.select(list(beside)).schema.types == [column.type for column in beside.values()]
    assert found.select(["message", *beside]).to_pylist() == source.to_pylist()


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, lambda rows: lambda: (pl.DataFrame([row]) for row in rows), "csv"],
    ids=["pandas", "polars in parts", "csv"],
)
def test_any_source_is_asked_as_it_is(make, service, connection, execute, output, tmp_path):
    rows = [{"id": 1, "message": "Wie heißt {{ ds }}, {% raw %}?"}, {"id": 2, "message": "When?"}]
    source, options = str(tmp_path / "questions.csv"), {}
    if make == "csv":
        pd.DataFrame(rows).to_csv(source, index=False, sep=";", encoding="latin-1")
        options = {"csv_options": {"delimiter": ";", "encoding": "latin-1"}}
    else:
        source = make(rows)
    assert execute(source, **options)["complete"] == 2
    messages = [row["message"] for row in rows]
    assert [row["message"] for row in rows_of(output)] == messages
    assert sorted(row["message"] for row in service.chats()) == sorted(messages)


def test_rows_that_ask_the_same_are_asked_once_and_both_answered(service, connection, execute, output):
    result = execute([*QUESTIONS[:3], *QUESTIONS[:2]])
    assert counts(result) == {"complete": 5, "submitted": 3, "reused": 2, "sessions_closed": 3}
    assert service.posts(SUBMIT) == 3
    rows = rows_of(output)
    for name in ("request_id", "answer", "session_id", "status"):
        assert [row[name] for row in rows[:2]] == [row[name] for row in rows[3:]]
    assert [row["id"] for row in rows] == [0, 1, 2, 0, 1]


def test_columns_and_constants(service, connection, execute, output):
    source = [{"nr": 1, "frage": "Wann?", "who": "a@example.com"}, {"nr": 2, "frage": "Wo?", "who": None}]
    execute(
        source,
        key_columns="nr",
        columns={"message": "frage", "email": "who"},
        constants={"response_language": "de", "session_id": "conversation"},
    )
    asked = {row["message"]: row for row in service.chats()}
    assert set(asked) == {"Wann?", "Wo?"}
    assert {(row["session_id"], row["language"]) for row in asked.values()} == {("conversation", "de")}
    rows = rows_of(output)
    assert [(row["key"], row["message"], row["who"]) for row in rows] == [
        ("1", "Wann?", "a@example.com"), ("2", "Wo?", None),
    ]  # fmt: skip
    assert "frage" not in rows[0]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"source": [{"id": 1, "text": "?"}]}, "no column message"),
        ({"source": many(3, answer="42", raw="{}")}, "column answer, raw"),
        ({"site_id": None}, "no site_id"),
    ],
)
def test_what_cannot_be_asked_is_named_before_any_request(options, part, service, connect, execute, output):
    connect(**({"site_id": ""} if "site_id" in options else {}))
    with pytest.raises(AssistantInputError, match=part):
        execute(**{"source": QUESTIONS, **options})
    assert service.journal() == []
    assert not list(output.parent.glob("*"))


@modes
def test_a_bad_row_is_not_asked_and_the_task_is_not_retried(mode, service, connection, ask, output):
    bad = [{"id": 90, "message": " "}, {"id": 91, "message": "?", "email": "nobody"}, {"id": None, "message": "?"}]
    run = ask([bad[0], *many(3, email="a@example.com"), *bad[1:], bad[0]], mode=mode, retries=2)
    assert (run.task_state(), run.tries()) == ("failed", 1)
    assert kind_of(run.error) is AssistantInputError
    assert "4 of 7" in str(run.error)
    rows = rows_of(output)
    assert [row["status"] for row in rows] == ["not_submitted", *["complete"] * 3, *["not_submitted"] * 3]
    assert all(row["error"].startswith("rejected: ") and not row["attempts"] for row in [rows[0], *rows[4:]])
    assert {row["request_id"] for row in [rows[0], *rows[4:]]} == {None}
    assert service.posts("chat") - service.posts(CLOSE) == 3


def test_bad_rows_may_be_allowed_and_are_listed(service, connection, execute, output):
    result = execute([*many(3), {"id": 7, "message": ""}], max_failed=1)
    assert counts(result) == {"complete": 3, "not_submitted": 1, "submitted": 3, "rejected": 1, "sessions_closed": 3}
    (finding,) = findings_of(result)
    assert (finding["kind"], finding["row"], finding["key"]) == ("rejected", 4, "7")
    assert result["findings"] == str(output.parent / ".today.findings.parquet")
    assert execute(many(3))["findings"] is None
    assert not (output.parent / ".today.findings.parquet").exists()


def test_a_row_the_service_refuses_is_a_bad_row(service, connection, execute, output):
    service.answer("status:400", body=r"Question 2\?", times=None)
    result = execute(many(5), max_failed=1)
    assert (result["complete"], result["rejected"]) == (4, 1)
    assert rows_of(output)[2]["status"] == "not_submitted"
    assert rows_of(output)[2]["error"].startswith("rejected: ")


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("answer", ["", " \n", None])
def test_answers_without_text_are_counted(mode, answer, service, connection, execute, caplog):
    reply = {"request_id": "r", "status": "completed", "answer": answer}
    service.answer("status:200", path=CHAT if mode == "sync" else POLL, times=2, reply=reply)
    assert execute(many(5), mode=mode, max_failed=2)["without_text"] == 2
    assert "2 answers have no text" in caplog.text


@pytest.mark.parametrize("spelling", ["message", "tag"])
def test_half_a_surrogate_pair_harms_nobody_else(spelling, service, connection, execute, output):
    """Rows in memory can contain one; a line of JSON with one is a bad row."""
    rows = [{"message": "One?", "tag": "x"}, {"message": "Two?", "tag": "y", spelling: "half \ud83d"}]
    for _ in range(2):
        result = execute(rows, key_columns=(), max_failed=1)
        # The service rejects this message.
        assert (result["complete"], result["rejected"]) == ((1, 1) if spelling == "message" else (2, 0))
        assert [row[spelling] for row in rows_of(output)] == [rows[0][spelling], "half \\ud83d"]
    assert len(service.chats()) == result["complete"]


@pytest.mark.parametrize(
    ("failed", "max_failed", "passes"), [(1, 0, False), (2, 2, True), (3, 2, False), (3, 0.3, True)]
)
def test_how_many_questions_may_have_no_answer(failed, max_failed, passes, service, connection, execute, output):
    failing(service, range(failed))
    if passes:
        assert execute(many(10), max_failed=max_failed)["failed"] == failed
    else:
        with pytest.raises(AssistantRequestFailedError, match=f": {failed} of 10 questions"):
            execute(many(10), max_failed=max_failed)
    assert statuses(output).get("failed", 0) == failed


@pytest.mark.parametrize(("limit", "total", "count"), [(0.29, 100, 29), (0.57, 100, 57), (0.07, 300, 21), (3, 10, 3)])
def test_a_fraction_is_exact(limit, total, count):
    assert tolerance(limit, total) == count


# -- sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "column", "conversations"),
    [(None, None, 6), ("thread", "thread", 2), (None, "session_id", 2)],
)
def test_conversations(session, column, conversations, service, connection, execute, output):
    source = [row | ({column: f"s{row['id'] % 2}"} if column else {}) for row in many(6)]
    result = execute(source, session=session)
    asked = {row["message"]: row["session_id"] for row in service.chats()}
    assert len(set(asked.values())) == conversations
    assert {row["message"]: row["session_id"] for row in rows_of(output)} == asked
    if column:
        assert [asked[row["message"]] for row in source] == [row[column] for row in source]
    closed = 0 if column else conversations
    assert (result["sessions_closed"], result["sessions_not_closed"]) == (closed, 0)
    assert service.posts(CLOSE) == closed
    assert sum(bool(row["closed_at"]) for row in service.sessions()) == closed


@pytest.mark.parametrize("fault", ["status:400", "drop"])
def test_a_conversation_that_cannot_be_closed_is_counted_only(fault, service, connection, execute, output, caplog):
    service.answer(fault, path=CLOSE, times=2)
    with caplog.at_level(logging.WARNING):
        result = execute(many(5))
    assert (result["complete"], result["sessions_closed"], result["sessions_not_closed"]) == (5, 3, 2)
    assert caplog.text.count("Not closed: 2 of 5 sessions") == 1
    assert statuses(output) == {"complete": 5}


def test_an_unknown_site_stops_the_closing_of_sessions(service, connection, execute):
    service.answer("status:404", path=CLOSE, times=None)
    result = execute(many(12), max_concurrency=2)
    assert (result["complete"], result["sessions_closed"], result["sessions_not_closed"]) == (12, 0, 12)
    assert service.posts(CLOSE) <= 2


# -- the output ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "deferrable"), [("memory", False), ("file", True)])
def test_object_storage(kind, deferrable, service, connection, ask, tmp_path):
    attach("memory", fs=MemoryFileSystem())
    root = f"memory://answers-{uuid4().hex}" if kind == "memory" else f"file://{tmp_path}/lake"
    path = ObjectStoragePath(f"{root}/day=1/today.parquet")
    run = ask([*many(5), {"id": 7, "message": ""}], output_path=str(path), deferrable=deferrable, max_failed=1)
    assert run.state == "success", run.errors
    assert run.xcom()["output_path"] == str(path)
    with path.open("rb") as file:
        assert pq.read_table(file).column("status").to_pylist() == ["complete"] * 5 + ["not_submitted"]
    assert sorted(found.name for found in path.parent.iterdir()) == [".today.findings.parquet", "today.parquet"]
    assert ask(many(5), output_path=str(path)).state == "success"
    assert [found.name for found in path.parent.iterdir()] == ["today.parquet"]


# -- failures, and what a retry does ----------------------------------------------------


def _before_the_retry(what):
    """Return a hook that calls a function before the second try, but not when a deferred try resumes."""
    done = {1}

    def hook(context):
        number = context["ti"].try_number
        if number not in done:
            done.add(number)
            what()

    return hook


@pytest.mark.promise("chat", "A retry keeps the answers of a batch and asks only the questions that have none.")
@deferrables
def test_failed_questions_are_asked_again_by_the_retry(deferrable, service, connection, ask, output):
    failing(service, [3, 7])
    seen = []

    def works_again():
        seen.append(statuses(output))
        service.behave(fail_messages=None)
        service.server.service.journal.clear()

    run = ask(retries=1, deferrable=deferrable, pre_execute=_before_the_retry(works_again))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantRequestFailedError
    assert "2 of 8" in str(run.errors[0])
    assert seen == [{"complete": 6, "failed": 2}]
    assert counts(run.xcom()) == {"complete": 8, "submitted": 2, "reused": 6, "sessions_closed": 8}
    assert (service.posts(SUBMIT), len(polled(service))) == (2, 2)
    assert {row["attempts"] for row in rows_of(output)} == {1, 2}


@modes
def test_questions_that_were_not_taken_are_submitted_by_the_retry(mode, service, connection, ask, output):
    service.answer("status:429", body=r"Question [34]\?", times=None)
    seen = []

    def works_again():
        seen.extend(rows_of(output))
        service.behave(rules=[])

    run = ask(many(5), mode=mode, retries=1, max_concurrency=1, pre_execute=_before_the_retry(works_again))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantIncompleteError
    assert [row["status"] for row in seen] == ["complete"] * 3 + ["not_submitted"] * 2
    assert "429" in seen[3]["error"]
    assert counts(run.xcom()) == {"complete": 5, "submitted": 2, "reused": 3, "sessions_closed": 5}


@modes
def test_what_may_have_been_asked_is_asked_again_and_listed(mode, service, connection, ask, output):
    service.answer("store-then-status:502", body=r"Question 2\?", times=1)
    run = ask(many(5), mode=mode, retries=1)
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantIncompleteError
    assert Counter(row["message"] for row in service.chats())["Question 2?"] == 2
    assert len(service.chats()) == 6
    assert (run.xcom()["complete"], run.xcom()["possibly_duplicated"]) == (5, 1)
    (finding,) = findings_of(run.xcom())
    assert (finding["kind"], finding["key"]) == ("possibly_duplicated", "2")
    assert finding["document_ids"] == [rows_of(output)[2]["request_id"]]


def test_a_failed_message_in_sync_mode_is_not_submitted(service, connection, execute, output):
    failing(service, [1])
    with pytest.raises(AssistantIncompleteError, match="1 of 3"):
        execute(many(3), mode="sync")
    assert [row["status"] for row in rows_of(output)] == ["complete", "not_submitted", "complete"]
    assert "500" in rows_of(output)[1]["error"]


STOPS = {401: AssistantAuthenticationError, 403: AssistantPermissionError, 404: AssistantNotFoundError}


@pytest.mark.parametrize(("mode", "status"), [("async", 401), ("sync", 403), ("async", 404)])
def test_a_refusal_of_the_whole_stops_at_once(mode, status, service, connect, execute, output):
    connect(retries=3)
    service.answer(f"status:{status}", path=SUBMIT if mode == "async" else CHAT, skip=5, times=None)
    with pytest.raises(STOPS[status]) as caught:
        execute(QUESTIONS, mode=mode, max_concurrency=2)
    assert isinstance(caught.value, AirflowFailException)
    assert service.posts("chat") <= 7
    assert len(service.chats()) == 5
    assert not output.exists()
    service.behave(rules=[])
    assert execute(QUESTIONS, mode=mode)["reused"] == 5
    assert len(service.chats()) == 8


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_while_deferred_loses_nothing(status, service, connection, run_dag, output):
    service.answer(f"status:{status}", path=POLL, times=None)
    with DAG("refused", schedule=None) as dag:
        AssistantChatBatchOperator(
            task_id="task", source=QUESTIONS, output_path=str(output), deferrable=True, **DEFAULTS
        )
    refused = run_dag(dag, run_id="run")
    assert kind_of(refused.error) is STOPS[status]
    service.behave(rules=[])
    assert run_dag(dag, run_id="run", clears=1).xcom()["complete"] == 8
    assert service.posts(SUBMIT) == 8


# -- retries and cleared tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "deferrable"),
    [("async", True), ("async", False), ("sync", False)],
)
def test_a_cleared_task(mode, deferrable, service, connection, run_dag, output):
    with DAG("cleared", schedule=None) as dag:
        AssistantChatBatchOperator(
            task_id="task", source=QUESTIONS, output_path=str(output), mode=mode, deferrable=deferrable,
            **DEFAULTS,
        )  # fmt: skip
    results = []
    for clears in range(2):
        run = run_dag(dag, run_id="run", clears=clears)
        results.append((run.xcom(), rows_of(output), polled(service).total()))
    (first, before, polls), (second, after, all_polls) = results
    assert first["submitted"] == 8
    assert (second["submitted"], second["reused"], second["complete"]) == (0, 8, 8)
    assert len(service.chats()) == 8
    assert (after, all_polls) == (before, polls)


def test_another_run_another_task_and_another_site_ask_for_themselves(service, connection, execute, output):
    for run_id, map_index in (("one", -1), ("other", -1), ("other", 0), ("other", 1)):
        path = f"{output.parent}/{{{{ 'of' }}}}-{run_id}{map_index}.parquet"
        assert execute(many(2), run_id=run_id, map_index=map_index, output_path=path)["submitted"] == 2
    assert execute(many(2), run_id="one", site_id="acme-shop")["submitted"] == 2
    assert service.posts(SUBMIT) == 10


@modes
def test_a_changed_question_does_not_get_the_old_answer(mode, service, connection, execute, output):
    execute(many(3), mode=mode)
    changed = [many(3)[0], {"id": 1, "message": "Something else?"}, {"id": 2, "message": " "}, many(4)[3]]
    result = execute(changed, mode=mode, max_failed=1)
    assert (result["submitted"], result["reused"], result["complete"], result["rejected"]) == (2, 1, 3, 1)
    asked = {row["id"]: row["message"] for row in service.chats()}
    assert sorted(asked.values()) == sorted([row["message"] for row in many(4)] + ["Something else?"])
    rows = rows_of(output)
    assert [asked.get(row["request_id"]) for row in rows] == ["Question 0?", "Something else?", None, "Question 3?"]
    assert (rows[2]["status"], rows[2]["answer"]) == ("not_submitted", None)


# A batch that is killed while it sends or polls: tests/simulate.
@pytest.mark.promise("chat", "A batch that is killed and retried asks no question again whose answer it has saved.")
@pytest.mark.parametrize(
    ("owner", "name", "after", "mode"),
    [
        (Batch, "close_sessions", False, "async"),
        (Batch, "close_sessions", False, "sync"),
        (Batch, "close_sessions", True, "async"),
        (answers_module, "replace", True, "async"),
        (BatchState, "remove", False, "sync"),
    ],
)
def test_killed_after_the_last_request(owner, name, after, mode, service, connection, execute, output, monkeypatch):
    killed_at(monkeypatch, owner, name, after=after)
    with pytest.raises(Killed):
        execute(QUESTIONS, mode=mode)
    result = execute(QUESTIONS, mode=mode)
    assert (result["submitted"], result["reused"], result["complete"]) == (0, 8, 8)
    assert (len(service.chats()), result["possibly_duplicated"]) == (8, 0)
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_in_sync_mode_a_saved_answer_is_reused_although_the_ledger_did_not_record_it(
    service, connection, execute, output, monkeypatch
):
    commit = ScopeLedger.commit

    def killed(ledger, outcomes, claims):
        if len(service.chats()) == 3:
            raise Killed
        return commit(ledger, outcomes, claims)

    with monkeypatch.context() as patch:
        patch.setattr(ScopeLedger, "commit", killed)
        with pytest.raises(Killed):
            execute(QUESTIONS, mode="sync", max_concurrency=1)
    result = execute(QUESTIONS, mode="sync")
    assert (result["complete"], result["reused"], result["possibly_duplicated"]) == (8, 3, 0)
    assert len(service.chats()) == 8
    assert [row["attempts"] for row in rows_of(output)] == [1] * 8


@modes
def test_answers_are_kept_where_the_output_is_gone(mode, service, connection, execute, output):
    execute(many(3), mode=mode)
    output.unlink()
    service.server.service.journal.clear()
    result = execute(many(3), mode=mode)
    assert result["complete"] == 3
    if mode == "async":
        assert (service.posts(SUBMIT), len(polled(service))) == (0, 3)
    else:
        assert (service.posts(CHAT), result["possibly_duplicated"]) == (3, 3)
        # The service refuses questions in the sessions that the first run has closed.
        assert len(service.sessions()) == 6


# -- deferred --------------------------------------------------------------------------------------


def deferred(source, output, **arguments):
    """Execute the operator until it defers, and return the deferral."""
    with pytest.raises(TaskDeferred) as caught:
        batch_of(source, output, deferrable=True, **arguments).execute(task_context("ask"))
    return caught.value


def resumed(source, output, event, **arguments):
    """Resume in another process."""
    operator = batch_of(source, output, deferrable=True, **arguments)
    return operator.execute_complete(task_context("ask"), event)


def event_of(trigger):
    async def first():
        (event,) = [event.payload async for event in trigger.run()]
        return event

    return asyncio.run(first())


def test_the_trigger_has_the_limits_of_the_task(service, connection, output):
    service.behave(processing_seconds=NEVER)
    deferral = deferred(many(5), output, timeout=60, max_concurrency=7)
    _, arguments = deferral.trigger.serialize()
    assert (arguments["max_concurrency"], arguments["poll_interval"]) == (7, 0.05)
    assert timedelta(seconds=60) < deferral.timeout < timedelta(seconds=1000)


def test_nothing_open_is_no_deferral(service, connection, execute):
    execute(many(3))
    assert execute(many(3), deferrable=True)["complete"] == 3
    assert execute(many(3), run_id="sync", mode="sync", deferrable=True)["complete"] == 3


def test_what_the_trigger_could_not_note_down_is_fetched_by_the_worker(service, connection, output, monkeypatch):
    service.behave(processing_seconds=NEVER)
    deferral = deferred(many(5), output)
    service.behave(processing_seconds=0)
    with monkeypatch.context() as patch:
        patch.setattr(BatchState, "add", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
        event = event_of(deferral.trigger)
    assert event["ended"] == {"complete": 5}
    assert resumed(many(5), output, event)["complete"] == 5
    assert service.posts(SUBMIT) == 5


def test_a_task_that_is_rendered_differently_when_it_resumes_is_that_which_was_deferred(service, connection, output):
    service.behave(processing_seconds=NEVER)
    deferral = deferred(many(2), output)
    service.behave(processing_seconds=0)
    event = event_of(deferral.trigger)
    other = {"site_id": "other", "assistant_conn_id": "no_such_connection"}
    assert resumed(many(2), output.with_name("other.parquet"), event, **other)["complete"] == 2
    assert len(rows_of(output)) == 2


def test_a_triggerer_that_cannot_reach_the_folder_says_what_to_do(service, connection, output, tmp_path, monkeypatch):
    service.behave(processing_seconds=NEVER)
    deferral = deferred(many(2), output)
    service.behave(processing_seconds=0)
    with monkeypatch.context() as patch:
        patch.setattr(deferral.trigger, "folder", str(tmp_path / "elsewhere"))
        event = event_of(deferral.trigger)
    with pytest.raises(AssistantError, match="deferrable=False"):
        resumed(many(2), output, event)
    assert event_of(deferral.trigger)["ended"] == {"complete": 2}


def test_a_late_answer_is_taken_after_the_deadline_too(service, connection, output):
    service.behave(processing_seconds=NEVER)
    deferral = deferred(many(3), output, timeout=0)
    event = event_of(deferral.trigger)
    assert event["open"] == 3
    service.behave(processing_seconds=0)
    until(lambda: {row["status"] for row in service.chats()} == {"completed"})
    assert resumed(many(3), output, event, timeout=0)["complete"] == 3


# -- on_kill ----------------------------------------------------------------------------


def test_no_questions_are_a_success_if_there_may_be_none(execute, output, service, connection, tmp_path):
    (tmp_path / "none").mkdir()
    for source in ([], str(tmp_path / "none"), pd.DataFrame({"id": [], "message": []})):
        with pytest.raises(AssistantInputError, match="allow_empty=True"):
            execute(source)
        result = execute(source, allow_empty=True)
        assert (result["rows"], result["complete"], result["findings"]) == (0, 0, None)
        assert list(COLUMNS) == [name for name in pq.read_table(output).column_names if name in COLUMNS]
    assert service.posts(SUBMIT) == 0
