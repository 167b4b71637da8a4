"""AssistantChatBatchOperator against the embedded service: it asks every question once and writes every answer."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
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
from airflow.sdk import DAG, ObjectStoragePath, task
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.chat_batch import batch as batch_module
from airflow_provider_assistant.chat_batch.answers import COLUMNS, STATUSES
from airflow_provider_assistant.chat_batch.batch import ChatBatch
from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.ledger import ScopeLedger
from airflow_provider_assistant.loading import engine
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.parameters import tolerance
from tests.task_runs.context import task_context

QUESTIONS = [{"id": number, "message": f"Question {number}?", "expected": f"Answer {number}"} for number in range(8)]
SUBMIT = r"chat/async$"
CHAT = r"chat$"
POLL = r"chat/requests/"
CLOSE = r"session/close$"
NEVER = 3600
DEFAULTS = {"key_columns": ["id"], "poll_interval": 0.05, "timeout": 30}
COUNTED = {
    "submitted",
    "reused",
    "rejected",
    "ambiguous",
    "possibly_duplicated",
    "sessions_closed",
    "sessions_not_closed",
}

modes = pytest.mark.parametrize("mode", ["async", "sync"])
deferrables = pytest.mark.parametrize("deferrable", [False, True], ids=["on the worker", "deferred"])


@pytest.fixture
def output(tmp_path):
    return tmp_path / "answers" / "today.parquet"


@pytest.fixture
def ask(run_operator, output):
    """Run the operator in a DAG."""

    def asked(source=QUESTIONS, run=run_operator, **arguments):
        arguments = {**DEFAULTS, "output_path": str(output), **arguments}
        return run(AssistantChatBatchOperator, source=source, **arguments)

    return asked


def operator_of(source, arguments):
    operator = AssistantChatBatchOperator(task_id="ask", source=source, **arguments)
    operator.render_template_fields({})
    return operator


@pytest.fixture
def execute(output):
    """Execute the operator without a DAG, like a new process, and check that the counts add up."""

    def executed(source=QUESTIONS, *, run_id="run", max_tries=0, map_index=-1, **arguments):
        arguments = {**DEFAULTS, "output_path": str(output), **arguments}
        in_context = task_context("ask", run_id=run_id, max_tries=max_tries, map_index=map_index)
        result = operator_of(source, arguments).execute(in_context)
        assert result["rows"] == sum(result[status] for status in STATUSES)
        return result

    return executed


def rows_of(output):
    return pq.read_table(output).to_pylist()


def statuses(output):
    return dict(Counter(row["status"] for row in rows_of(output)))


def posts(service, path=SUBMIT):
    return len(service.journal("POST", path))


def polled(service):
    """Return the number of polls of each request."""
    return Counter(entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL))


def counts(result):
    return {name: result[name] for name in (*STATUSES, *COUNTED) if result[name]}


def many(count, **changes):
    return [{"id": number, "message": f"Question {number}?"} | changes for number in range(count)]


def failing(service, numbers):
    service.behave(fail_messages=rf"Question ({'|'.join(map(str, numbers))})\?")


def lose(service, *, messages):
    """Make the service forget the requests of these messages."""
    ids = [row["id"] for row in service.rows("requests") if row["message"] in messages]
    service.answer("status:404", path=f"{POLL}({'|'.join(ids)})$", times=None)


def until(holds):
    """Wait for another thread."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it does not hold within two minutes"
        time.sleep(0.001)


def only(output):
    """Check that the folder of the output contains no other files."""
    assert [path.name for path in output.parent.iterdir()] == [output.name]


@modes
@deferrables
def test_every_question_gets_its_row(mode, deferrable, service, connection, ask, output):
    run = ask(mode=mode, deferrable=deferrable)

    assert run.state == "success"
    result = run.xcom()
    assert set(result) == {
        "rows", *STATUSES, *COUNTED, "seconds_p50", "seconds_p95", "seconds_p99",
        "noticed_after_p50", "noticed_after_p95", "noticed_after_p99", "site_id", "output_path", "findings",
        "seconds_measured", "seconds_unknown", "low_confidence",
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
    asked = {row["message"]: row for row in service.rows("requests")}
    assert len(service.rows("requests")) == len(asked) == 8
    assert all(asked[row["message"]]["id"] == row["request_id"] for row in rows)
    assert {row["mode"] for row in asked.values()} == {mode}
    only(output)


# -- source and parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_the_log_counts_questions_that_were_submitted(mode, service, connection, execute, caplog):
    with caplog.at_level(logging.INFO):
        messages = ("Who?", "When?", "")
        execute([{"id": text, "message": text} for text in messages], key_columns="message", mode=mode, max_failed=1)
    assert "Site 'acme-docs', 3 questions: 2 submitted, 1 rejected." in caplog.messages
    assert not [message for message in caplog.messages if "created" in message and "rows" in message]


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


FILES = {
    "questions.csv": lambda path: pd.DataFrame(QUESTIONS).to_csv(path, index=False),
    "questions.jsonl": lambda path: path.write_text("".join(f"{json.dumps(row)}\n" for row in QUESTIONS)),
    "questions.parquet": lambda path: pq.write_table(pa.Table.from_pylist(QUESTIONS), path),
}
SOURCES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.Table.from_pylist,
    "callable": lambda rows: lambda: pl.DataFrame(rows),
    "generator": lambda rows: lambda: (pd.DataFrame([row]) for row in rows),
}


@pytest.mark.parametrize("kind", [*SOURCES, *FILES])
def test_any_source_is_asked(kind, service, connection, execute, output, tmp_path):
    if kind in FILES:
        FILES[kind](tmp_path / kind)
        source = str(tmp_path / kind)
    else:
        source = SOURCES[kind](QUESTIONS)
    assert execute(source)["complete"] == 8
    assert [row["message"] for row in rows_of(output)] == [row["message"] for row in QUESTIONS]
    assert posts(service) == 8


def test_a_dataframe_from_another_task(service, connection, run_operator, output):
    def build():
        @task
        def read():
            return pd.DataFrame(QUESTIONS)

        AssistantChatBatchOperator(task_id="task", source=read(), output_path=str(output), **DEFAULTS)

    assert run_operator(build).xcom()["complete"] == 8


def test_paths_by_template_and_rows_as_they_are(service, connection, ask, output, tmp_path):
    message = "Write {{ ds }} for the day, {% raw %} to quote?"
    assert ask([{"id": 1, "message": message}], output_path=f"{output.parent}/{{{{ params.day }}}}.parquet",
               params={"day": "monday"}).state == "success"  # fmt: skip
    assert rows_of(output.parent / "monday.parquet")[0]["message"] == service.rows("requests")[0]["message"] == message
    FILES["questions.csv"](tmp_path / "questions.csv")
    run = ask("{{ params.folder }}/*.csv", params={"folder": str(tmp_path)})
    assert run.xcom()["complete"] == 8


def test_rows_that_ask_the_same_are_asked_once_and_both_answered(service, connection, execute, output):
    result = execute([*QUESTIONS[:3], *QUESTIONS[:2]])
    assert counts(result) == {"complete": 5, "submitted": 3, "reused": 2, "sessions_closed": 3}
    assert posts(service) == 3
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
    asked = {row["message"]: row for row in service.rows("requests")}
    assert set(asked) == {"Wann?", "Wo?"}
    assert {(row["session_id"], row["language"]) for row in asked.values()} == {("conversation", "de")}
    rows = rows_of(output)
    assert [(row["key"], row["message"], row["who"]) for row in rows] == [
        ("1", "Wann?", "a@example.com"), ("2", "Wo?", None),
    ]  # fmt: skip
    assert "frage" not in rows[0]


@pytest.mark.parametrize("given", ["id", ["id"], "['id', 'kind']", ("id", "kind")], ids=str)
def test_key_columns_in_every_form_that_airflow_renders(given, service, connection, execute, output):
    execute([{"id": number, "kind": "faq", "message": "When?"} for number in range(2)], key_columns=given)
    keys = ["id=0, kind=faq", "id=1, kind=faq"] if "kind" in given else ["0", "1"]
    assert [row["key"] for row in rows_of(output)] == keys


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"source": []}, "no rows"),
        ({"source": [{"id": 1, "text": "?"}]}, "no column message"),
        ({"source": [{"message": "?"}]}, "no column id"),
        ({"session": "thread"}, "no column thread"),
        ({"constants": {"message": "?"}}, "message"),
        ({"columns": {"answer": "expected"}}, "answer"),
        ({"source": many(3, status="new")}, "column status"),
        ({"source": many(3, answer="42", raw="{}")}, "column answer, raw"),
        ({"source": many(3, session_id="s"), "session": "shared"}, "column session_id"),
        ({"source": [*many(3), {"id": 1, "message": "Another?"}]}, "1 key with rows of different content"),
        ({"source": "nowhere.csv"}, "does not exist"),
        ({"site_id": None}, "no site_id"),
    ],
)
@modes
def test_what_cannot_be_asked_is_named_before_any_request(mode, options, part, service, connect, execute, output):
    connect(**({"site_id": ""} if "site_id" in options else {}))
    with pytest.raises(AssistantInputError, match=part):
        execute(mode=mode, **options)
    assert service.journal() == []
    assert not list(output.parent.glob("*"))


@modes
def test_a_bad_row_is_not_asked_and_the_task_is_not_retried(mode, service, connection, ask, output):
    bad = [{"id": 90, "message": " "}, {"id": 91, "message": "?", "email": "nobody"}, {"id": None, "message": "?"}]
    run = ask([bad[0], *many(3, email="a@example.com"), *bad[1:], bad[0]], mode=mode, retries=2)
    assert (run.task_state(), run.tries()) == ("failed", 1)
    assert type(run.error) is AssistantInputError
    assert str(run.error).startswith("4 of 7 questions cannot be asked (3 complete, 4 not submitted), more than max_")
    rows = rows_of(output)
    assert [row["status"] for row in rows] == ["not_submitted", *["complete"] * 3, *["not_submitted"] * 3]
    reasons = [
        "column 'message' is empty",
        "email' must be one",
        "key column 'id' is empty",
        "column 'message' is empty",
    ]
    for row, reason in zip([rows[0], *rows[4:]], reasons, strict=True):
        assert row["error"].startswith("rejected: ")
        assert reason in row["error"]
        assert (row["request_id"], row["answer"], row["submitted_at"], row["attempts"]) == (None, None, None, 0)
    assert posts(service, "chat") - posts(service, CLOSE) == 3


def test_bad_rows_may_be_allowed_and_are_listed(service, connection, execute, output):
    result = execute([*many(3), {"id": 7, "message": ""}], max_failed=1)
    assert counts(result) == {"complete": 3, "not_submitted": 1, "submitted": 3, "rejected": 1, "sessions_closed": 3}
    (finding,) = rows_of(result["findings"])
    assert (finding["kind"], finding["row"], finding["key"]) == ("rejected", 4, "7")
    assert result["findings"] == str(output.parent / ".today.findings.parquet")
    assert execute(many(3))["findings"] is None
    only(output)


def test_all_rows_are_bad(service, connection, execute, output):
    with pytest.raises(AssistantInputError, match="2 of 2 questions cannot be asked"):
        execute(many(2, message=""))
    assert statuses(output) == {"not_submitted": 2}
    assert service.journal() == []


@modes
def test_a_row_the_service_refuses_is_a_bad_row(mode, service, connection, execute, output):
    service.answer("status:400", body=r"Question 2\?", times=None)
    result = execute(many(5), mode=mode, max_failed=1)
    assert (result["complete"], result["rejected"]) == (4, 1)
    assert rows_of(output)[2]["status"] == "not_submitted"
    assert rows_of(output)[2]["error"].startswith("rejected: ")


@pytest.mark.parametrize("spelling", ["message", "tag"])
def test_half_a_surrogate_pair_harms_nobody_else(spelling, service, connection, execute, output):
    """Rows in memory can contain one; a line of JSON with one is a bad row."""
    rows = [{"message": "One?", "tag": "x"}, {"message": "Two?", "tag": "y", spelling: "half \ud83d"}]
    for _ in range(2):
        result = execute(rows, key_columns=(), max_failed=1)
        # The service rejects this message.
        assert (result["complete"], result["rejected"]) == ((1, 1) if spelling == "message" else (2, 0))
        assert [row[spelling] for row in rows_of(output)] == [rows[0][spelling], "half \\ud83d"]
    assert len(service.rows("requests")) == result["complete"]


@pytest.mark.parametrize(
    ("failed", "max_failed", "passes"),
    [(0, 0, True), (1, 0, False), (2, 2, True), (3, 2, False), (1, 1, True), (2, 1, False), (2, 0.2, True),
     (3, 0.2, False), (3, 0.3, True), (9, 0.95, True), (10, 0.95, False), (10, 10, True)],
)  # fmt: skip
def test_how_many_questions_may_have_no_answer(failed, max_failed, passes, service, connection, execute, output):
    if failed:
        failing(service, range(failed))
    if passes:
        assert execute(many(10), max_failed=max_failed)["failed"] == failed
    else:
        with pytest.raises(
            AssistantRequestFailedError, match=f"^{failed} of 10 questions without an answer .*, more than max_failed="
        ):
            execute(many(10), max_failed=max_failed)
    assert statuses(output).get("failed", 0) == failed


def test_a_link_that_leads_out_of_the_root_ends_a_batch_before_any_request(service, connection, execute, tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside.jsonl"
    root.mkdir()
    outside.write_text('{"id": 1, "message": "What is in here?"}\n')
    (root / "link.jsonl").symlink_to(outside)
    with pytest.raises(AssistantInputError, match=r"leads to .*outside\.jsonl.* not below allowed_root"):
        execute(str(root), allowed_root=str(root))
    assert service.seen() == []
    assert execute(str(root), allowed_root=str(tmp_path))["complete"] == 1


@pytest.mark.parametrize(("limit", "total", "count"), [(0.29, 100, 29), (0.57, 100, 57), (0.07, 300, 21), (3, 10, 3)])
def test_a_fraction_is_exact(limit, total, count):
    assert tolerance(limit, total) == count


@pytest.mark.parametrize(
    "option", [{"mode": "both"}, {"max_failed": -1}, {"poll_interval": 0}], ids=lambda option: next(iter(option))
)
def test_options_are_checked_when_the_dag_is_parsed(option):
    with pytest.raises(AssistantInputError, match=next(iter(option))):
        AssistantChatBatchOperator(task_id="ask", source=QUESTIONS, output_path="out.parquet", **option)


def test_a_deadline_may_be_a_timedelta():
    arguments = {"source": QUESTIONS, "output_path": "out.parquet", "timeout": timedelta(minutes=2)}
    assert AssistantChatBatchOperator(task_id="ask", **arguments).timeout == 120


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [("True", None, True), ("False", None, False), ("True", False, False), ("False", True, True)],
)
def test_deferrable_follows_the_configuration(default, given, expected, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", default)
    operator = AssistantChatBatchOperator(task_id="ask", source=QUESTIONS, output_path="out.parquet", deferrable=given)
    assert operator.deferrable is expected


# -- sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "column", "conversations"),
    [(None, None, 6), ("per_row", None, 6), ("shared", None, 1), ("thread", "thread", 2), (None, "session_id", 2)],
)
def test_conversations(session, column, conversations, service, connection, execute, output):
    source = [row | ({column: f"s{row['id'] % 2}"} if column else {}) for row in many(6)]
    result = execute(source, session=session)
    asked = {row["message"]: row["session_id"] for row in service.rows("requests")}
    assert len(set(asked.values())) == conversations
    assert {row["message"]: row["session_id"] for row in rows_of(output)} == asked
    if column:
        assert [asked[row["message"]] for row in source] == [row[column] for row in source]
    closed = 0 if column else conversations
    assert (result["sessions_closed"], result["sessions_not_closed"]) == (closed, 0)
    assert posts(service, CLOSE) == closed
    assert sum(bool(row["closed_at"]) for row in service.rows("sessions")) == closed


NAMED = [
    {"source": [row | {"session_id": "customer"} for row in many(2)]},
    {"source": [row | {"thread": "customer"} for row in many(2)], "session": "thread"},
    {"source": [row | {"thread": "customer"} for row in many(2)], "columns": {"session_id": "thread"}},
    {"source": many(2), "constants": {"session_id": "customer"}},
]


@deferrables
@pytest.mark.parametrize("named", NAMED, ids=["column", "session", "columns", "constants"])
def test_conversations_that_the_source_names_are_closed_on_request_only(named, deferrable, service, connection, ask):
    for close_sessions, closed in ((None, 0), (False, 0), (True, 1)):
        run = ask(**named, close_sessions=close_sessions, deferrable=deferrable)
        assert run.state == "success"
        assert (run.xcom()["sessions_closed"], posts(service, CLOSE)) == (closed, closed)


@pytest.mark.parametrize(("close_sessions", "closed"), [(None, 3), (True, 3), (False, 0)])
def test_conversations_of_the_task_are_closed_unless_told_otherwise(
    close_sessions, closed, service, connection, execute
):
    result = execute(many(3), close_sessions=close_sessions)
    assert (result["sessions_closed"], result["sessions_not_closed"]) == (closed, 0)
    assert posts(service, CLOSE) == closed


@pytest.mark.parametrize("fault", ["status:500", "status:400", "drop"])
def test_a_conversation_that_cannot_be_closed_is_counted_only(fault, service, connection, execute, output, caplog):
    service.answer(fault, path=CLOSE, times=2)
    with caplog.at_level(logging.WARNING):
        result = execute(many(5))
    assert (result["complete"], result["sessions_closed"], result["sessions_not_closed"]) == (5, 3, 2)
    assert caplog.text.count("Not closed: 2 of 5 sessions") == 1
    assert statuses(output) == {"complete": 5}


@pytest.mark.parametrize("status", [403, 404])
def test_an_unknown_site_stops_the_closing_of_sessions(status, service, connection, execute, caplog):
    service.answer(f"status:{status}", path=CLOSE, times=None)
    with caplog.at_level(logging.WARNING):
        result = execute(many(12), max_concurrency=2)
    assert (result["complete"], result["sessions_closed"], result["sessions_not_closed"]) == (12, 0, 12)
    assert posts(service, CLOSE) <= 2
    assert f"Not closed: 12 of 12 sessions: {status} " in caplog.text


def test_a_conversation_with_an_open_question_is_not_closed(service, connection, execute, output, monkeypatch):
    submit = ChatBatch.submit

    def submitted(batch, questions, turn):
        submit(batch, questions, turn)
        until(lambda: {row["status"] for row in service.rows("requests")} == {"complete"})
        # After the deadline, each request is polled once more.
        service.answer("status:503", path=POLL, times=1)

    monkeypatch.setattr(ChatBatch, "submit", submitted)
    source = [row | {"session_id": "alone" if row["id"] == 2 else "shared"} for row in many(3)]
    result = execute(source, timeout=0, max_failed=1, max_concurrency=1, close_sessions=True)
    (open_,) = [row for row in rows_of(output) if row["status"] == "timed_out"]
    closed = {row["session_id"] for row in service.rows("sessions") if row["closed_at"]}
    assert result["sessions_closed"] == 1
    assert closed == {"alone", "shared"} - {open_["session_id"]}


def test_what_was_closed_before_is_closed(service, connection, execute):
    assert execute(many(3))["sessions_closed"] == 3
    again = execute(many(3))
    assert (again["sessions_closed"], again["sessions_not_closed"]) == (3, 0)


# -- the output ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "file"])
@deferrables
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


@modes
def test_an_output_that_cannot_be_written_is_found_before_any_request(mode, service, connection, execute, output):
    output.parent.write_bytes(b"a file where the folder should be")
    with pytest.raises(AssistantError, match=r"output_path.*is not a folder.*Nothing was sent"):
        execute(mode=mode)
    assert service.journal() == []


def test_an_output_of_somebody_else_is_replaced(service, connection, execute, output):
    output.parent.mkdir()
    output.write_bytes(b"no parquet")
    execute(many(2))
    execute(many(3), run_id="another")
    assert statuses(output) == {"complete": 3}
    assert posts(service) == 5


def test_the_result_is_small_whatever_the_size(service, connection, execute):
    failing(service, range(200))
    result = execute([*many(300), *({"id": number, "message": ""} for number in range(300, 500))], max_failed=400)
    assert counts(result) == {
        "complete": 100, "failed": 200, "not_submitted": 200, "submitted": 300, "rejected": 200, "sessions_closed": 300,
    }  # fmt: skip
    assert len(json.dumps(result)) < 2048


def test_the_key_is_nowhere(service, canary, execute, output, caplog, capfd):
    service.answer("status:404", path=POLL)
    service.answer("status:500", path=CLOSE)
    with caplog.at_level(logging.DEBUG):
        result = execute(many(3), max_failed=1)
    assert canary not in f"{result} {rows_of(output)} {caplog.text} {capfd.readouterr()}"


# -- failures, and what a retry does ----------------------------------------------------


@deferrables
def test_failed_questions_are_asked_anew_by_the_retry_and_the_others_are_not(
    deferrable, service, connection, ask, output
):
    failing(service, [3, 7])
    seen = []

    def mended(context):
        seen.append(statuses(output))
        service.behave(fail_messages=None)
        service.server.service.journal.clear()

    run = ask(retries=1, deferrable=deferrable, pre_execute=_from_second_try(mended))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantRequestFailedError
    assert "2 of 8 questions without an answer" in str(run.errors[0])
    assert "A retry keeps the answers and asks those again that failed." in str(run.errors[0])
    assert str(output) in str(run.errors[0])
    assert seen == [{"complete": 6, "failed": 2}]
    assert counts(run.xcom()) == {"complete": 8, "submitted": 2, "reused": 6, "sessions_closed": 8}
    assert posts(service) == 2
    assert len(polled(service)) == 2
    assert Counter(row["message"] for row in service.rows("requests")) == Counter(
        [question["message"] for question in QUESTIONS] + ["Question 3?", "Question 7?"]
    )
    assert {row["attempts"] for row in rows_of(output)} == {1, 2}


def _from_second_try(what):
    """Return a hook that calls a function before each retry, but not when a deferred try resumes."""
    done = {1}

    def hook(context):
        number = context["ti"].try_number
        if number not in done:
            done.add(number)
            what(context)

    return hook


@deferrables
def test_lost_questions_are_asked_anew_by_the_retry(deferrable, service, connection, ask, output, monkeypatch):
    gone = ["Question 1?", "Question 2?"]
    service.behave(processing_seconds=NEVER)

    def lost(context):
        service.behave(rules=[])
        service.server.service.journal.clear()

    submit = ChatBatch.submit

    def submitted(batch, questions, turn):
        submit(batch, questions, turn)
        if len(service.rows("requests")) == 8:
            lose(service, messages=gone)
            service.behave(processing_seconds=0)

    monkeypatch.setattr(ChatBatch, "submit", submitted)
    run = ask(retries=1, deferrable=deferrable, pre_execute=_from_second_try(lost))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantRequestLostError
    assert "A retry keeps the answers and asks those again that were lost." in str(run.errors[0])
    assert (run.xcom()["submitted"], run.xcom()["reused"]) == (2, 6)
    assert posts(service) == 2
    assert len(polled(service)) == 2
    assert len(service.rows("requests")) == 10


@deferrables
def test_open_questions_are_waited_on_for_by_the_retry(deferrable, service, connection, ask, output):
    service.behave(processing_seconds=NEVER)
    seen = []

    def finished(context):
        seen.append(rows_of(output))
        service.behave(processing_seconds=0)
        until(lambda: {row["status"] for row in service.rows("requests")} == {"complete"})

    run = ask(many(5), retries=1, deferrable=deferrable, timeout=0.3, pre_execute=_from_second_try(finished))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantRequestTimeoutError
    assert "A retry keeps the answers and waits for those that are open." in str(run.errors[0])
    assert posts(service) == 5
    (before,) = seen
    assert {row["status"] for row in before} == {"timed_out"}
    assert all(row["request_id"] and row["submitted_at"] and "may still complete" in row["error"] for row in before)
    after = rows_of(output)
    assert [row["request_id"] for row in after] == [row["request_id"] for row in before]
    assert counts(run.xcom()) == {"complete": 5, "reused": 5, "sessions_closed": 5}
    assert all(row["seconds"] >= 0.3 for row in after)


@modes
def test_questions_that_were_not_taken_are_submitted_by_the_retry(mode, service, connection, ask, output):
    service.answer("status:429", body=r"Question [34]\?", times=None)
    seen = []

    def mended(context):
        seen.append({row["message"]: row for row in rows_of(output)})
        service.behave(rules=[])
        service.server.service.journal.clear()

    run = ask(many(5), mode=mode, retries=1, max_concurrency=1, pre_execute=_from_second_try(mended))
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantIncompleteError
    assert "A retry keeps the answers and submits the rest." in str(run.errors[0])
    (before,) = seen
    assert [row["status"] for row in before.values()] == ["complete"] * 3 + ["not_submitted"] * 2
    assert "429" in before["Question 3?"]["error"]
    assert counts(run.xcom()) == {"complete": 5, "submitted": 2, "reused": 3, "sessions_closed": 5}
    assert posts(service, "chat") - posts(service, CLOSE) == 2


@modes
def test_what_may_have_been_asked_is_asked_again_and_listed(mode, service, connection, ask, output):
    service.answer("store-then-status:502", body=r"Question 2\?", times=1)
    run = ask(many(5), mode=mode, retries=1)
    assert (run.state, run.tries()) == ("success", 2)
    assert type(run.errors[0]) is AssistantIncompleteError
    assert Counter(row["message"] for row in service.rows("requests"))["Question 2?"] == 2
    assert len(service.rows("requests")) == 6
    assert (run.xcom()["complete"], run.xcom()["possibly_duplicated"]) == (5, 1)
    (finding,) = rows_of(run.xcom()["findings"])
    assert (finding["kind"], finding["key"]) == ("possibly_duplicated", "2")
    assert finding["document_ids"] == [rows_of(output)[2]["request_id"]]


def test_the_worst_names_the_error_and_rejected_rows_count_for_none(service, connection, execute, output):
    failing(service, [1, 2])
    source = [*many(5), *({"id": number, "message": ""} for number in range(10, 14))]
    with pytest.raises(AssistantRequestFailedError) as caught:
        execute(source, max_failed=5)
    assert "6 of 9 questions without an answer (3 complete, 2 failed, 4 not submitted)" in str(caught.value)
    assert "A retry keeps the answers and asks those again that failed." in str(caught.value)


def test_without_a_ledger_a_retry_asks_everything_again_and_says_so(service, connection, execute, output, ledger_home):
    failing(service, [1])
    with pytest.raises(AssistantRequestFailedError, match="asks all questions again"):
        execute(many(3), ledger=False)
    service.behave(fail_messages=None)
    assert counts(execute(many(3), ledger=False)) == {"complete": 3, "submitted": 3, "sessions_closed": 3}
    assert posts(service) == 6
    assert list(ledger_home.iterdir()) == []


STOPS = {401: AssistantAuthenticationError, 403: AssistantPermissionError, 404: AssistantNotFoundError}


@modes
@pytest.mark.parametrize("status", STOPS)
def test_a_refusal_of_the_whole_stops_at_once(mode, status, service, connect, execute, output):
    connect(retries=3)
    service.answer(f"status:{status}", skip=5, times=None)
    with pytest.raises(STOPS[status]) as caught:
        execute(mode=mode, max_concurrency=2)
    assert isinstance(caught.value, AirflowFailException)
    assert posts(service, "chat") <= 7
    assert len(service.rows("requests")) == 5
    assert not output.exists()
    service.behave(rules=[])
    assert execute(mode=mode)["reused"] == 5
    assert len(service.rows("requests")) == 8


@pytest.mark.parametrize(("deferrable", "status"), [(False, 403), (True, 401)])
def test_a_refusal_while_waiting_loses_nothing(deferrable, status, service, connection, run_dag, output):
    service.answer(f"status:{status}", path=POLL, times=None)
    with DAG("refused", schedule=None) as dag:
        AssistantChatBatchOperator(
            task_id="task", source=QUESTIONS, output_path=str(output), deferrable=deferrable, **DEFAULTS
        )
    refused = run_dag(dag, run_id="run")
    assert type(refused.error) is STOPS[status]
    assert posts(service) == 8
    service.behave(rules=[])
    assert run_dag(dag, run_id="run", clears=1).xcom()["complete"] == 8
    assert posts(service) == 8


def test_the_service_is_down(service, connection, execute, output):
    service.answer("status:503", times=None)
    with pytest.raises(AssistantError) as caught:
        execute(many(3))
    assert isinstance(caught.value, AssistantAPIError | AssistantAmbiguousError | AssistantIncompleteError)
    service.behave(rules=[])
    result = execute(many(3))
    assert (result["complete"], result["possibly_duplicated"]) == (3, 3)


# -- retries and cleared tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "deferrable", "reuse"),
    [("async", True, True), ("async", False, False), ("sync", False, True), ("sync", False, False)],
)
def test_a_cleared_task(mode, deferrable, reuse, service, connection, run_dag, output):
    with DAG("cleared", schedule=None) as dag:
        AssistantChatBatchOperator(
            task_id="task", source=QUESTIONS, output_path=str(output), mode=mode, deferrable=deferrable,
            reuse=reuse, **DEFAULTS,
        )  # fmt: skip
    results = []
    for clears in range(2):
        run = run_dag(dag, run_id="run", clears=clears)
        results.append((run.xcom(), rows_of(output), polled(service).total()))
    (first, before, polls), (second, after, all_polls) = results
    assert first["submitted"] == 8
    if reuse:
        assert (second["submitted"], second["reused"], second["complete"]) == (0, 8, 8)
        assert after == before
        assert all_polls == polls
        assert len(service.rows("requests")) == 8
    else:
        assert (second["submitted"], second["reused"], second["complete"]) == (8, 0, 8)
        assert not {row["request_id"] for row in before} & {row["request_id"] for row in after}
        assert not {row["session_id"] for row in before} & {row["session_id"] for row in after}
        assert len(service.rows("requests")) == 16
    only(output)


def test_told_to_ask_anew_a_retry_still_takes_up(service, connection, execute):
    execute(many(3), reuse=False, max_tries=1)
    assert execute(many(3), reuse=False, max_tries=1)["reused"] == 3
    assert posts(service) == 3
    assert execute(many(3), reuse=False, max_tries=3)["submitted"] == 3
    assert posts(service) == 6


def test_another_run_and_another_task_ask_for_themselves(service, connection, execute, output):
    for run_id, map_index in (("one", -1), ("other", -1), ("other", 0), ("other", 1)):
        path = str(output.parent / "{{ 'of' }}" / f"{run_id}{map_index}.parquet")
        result = execute(many(2), run_id=run_id, map_index=map_index, output_path=path)
        assert result["submitted"] == 2
    assert posts(service) == 8


def test_another_site_is_asked_anew(service, connection, execute, output):
    execute(many(2))
    assert execute(many(2), site_id="acme-shop")["submitted"] == 2
    assert {row["request_id"] for row in rows_of(output)} == {
        row["id"] for row in service.rows("requests") if row["site"] == "acme-shop"
    }


@modes
def test_questions_that_changed_or_came_since_are_asked(mode, service, connection, execute, output):
    execute(many(3), mode=mode)
    changed = [many(3)[0], {"id": 1, "message": "Something else?"}, *many(4)[2:]]
    result = execute(changed, mode=mode)
    assert (result["submitted"], result["reused"], result["complete"]) == (2, 2, 4)
    assert Counter(row["message"] for row in service.rows("requests")) == Counter(
        ["Question 0?", "Question 1?", "Question 2?", "Something else?", "Question 3?"]
    )
    asked = {row["id"]: row["message"] for row in service.rows("requests")}
    assert [asked[row["request_id"]] for row in rows_of(output)] == [row["message"] for row in changed]


@modes
def test_a_changed_question_that_cannot_be_asked_does_not_get_the_old_answer(
    mode, service, connection, execute, output
):
    execute(many(3), mode=mode)
    result = execute([*many(2), {"id": 2, "message": " "}], mode=mode, max_failed=1)
    assert (result["reused"], result["not_submitted"], result["rejected"]) == (2, 1, 1)
    row = rows_of(output)[2]
    assert (row["status"], row["answer"], row["request_id"]) == ("not_submitted", None, None)


@modes
def test_a_question_whose_language_changed_gets_its_own_answer(mode, service, connection, execute, output):
    execute(many(2), mode=mode, constants={"response_language": "en"})
    result = execute(many(2), mode=mode, constants={"response_language": "de"})
    assert result["submitted"] == 2
    assert all(row["answer"].startswith("Das weiß ich nicht") for row in rows_of(output))


@modes
def test_answers_are_kept_where_the_output_is_gone(mode, service, connection, execute, output):
    execute(many(3), mode=mode)
    output.unlink()
    service.server.service.journal.clear()
    result = execute(many(3), mode=mode)
    assert result["complete"] == 3
    if mode == "async":
        assert (posts(service), len(polled(service))) == (0, 3)
    else:
        assert (posts(service, CHAT), result["possibly_duplicated"]) == (3, 3)


class Killed(BaseException):
    """Stands for SIGKILL: no code runs after it."""


def killed_at(monkeypatch, owner, name, *, after=False):
    """Replace a function by one that raises Killed on the first call."""
    method = getattr(owner, name)

    def kill(*arguments, **options):
        monkeypatch.setattr(owner, name, method)
        if after:
            method(*arguments, **options)
        raise Killed

    monkeypatch.setattr(owner, name, kill)


@modes
def test_killed_when_all_was_submitted(mode, service, connection, execute, output, monkeypatch):
    killed_at(monkeypatch, ChatBatch, "_save_questions")
    with pytest.raises(Killed):
        execute(mode=mode)
    result = execute(mode=mode)
    assert (result["submitted"], result["reused"], result["complete"]) == (0, 8, 8)
    assert len(service.rows("requests")) == 8
    assert result["possibly_duplicated"] == 0
    only(output)


def test_killed_when_all_had_come(service, connection, execute, output, monkeypatch):
    killed_at(monkeypatch, ChatBatch, "table")
    with pytest.raises(Killed):
        execute()
    assert not output.exists()
    service.server.service.journal.clear()
    assert execute()["reused"] == 8
    assert (posts(service), polled(service).total()) == (0, 0)


def test_killed_when_most_had_come(service, connection, execute, output, monkeypatch):
    late = ["Question 3?", "Question 6?"]
    submit = ChatBatch.submit

    def slow(batch, questions, turn):
        submit(batch, questions, turn)
        until(lambda: {row["status"] for row in service.rows("requests")} == {"complete"})
        ids = [row["id"] for row in service.rows("requests") if row["message"] in late]
        service.answer("status:503", path=f"{POLL}({'|'.join(ids)})$", times=None)

    with monkeypatch.context() as patch:
        patch.setattr(ChatBatch, "submit", slow)
        patch.setattr(ChatBatch, "table", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            execute(timeout=0.5)
    (folder,) = output.parent.glob(".*.chat-batch")
    noted = BatchState(str(folder))
    assert len(noted.read_answers()) == 6
    (path, *_) = folder.glob("answers-*")
    # A file as a kill during a write leaves it.
    path.write_bytes(path.read_bytes()[:-5])
    missing = len(noted.read_open())
    assert missing == 3
    service.behave(rules=[])
    service.server.service.journal.clear()
    assert execute()["complete"] == 8
    assert posts(service) == 0
    assert len(polled(service)) == missing
    only(output)


@pytest.mark.parametrize("moment", ["after the output", "before it is forgotten"])
def test_killed_while_publishing(moment, service, connection, execute, output, monkeypatch):
    failing(service, [5])
    if moment == "after the output":
        killed_at(monkeypatch, batch_module.answers, "publish", after=True)
    else:
        killed_at(monkeypatch, BatchState, "remove")
    with pytest.raises(Killed):
        execute()
    assert statuses(output) == {"complete": 7, "failed": 1}
    service.behave(fail_messages=None)
    service.server.service.journal.clear()
    result = execute()
    assert (result["complete"], result["submitted"]) == (8, 1)
    assert len(polled(service)) == 1
    only(output)


def test_in_sync_mode_an_answer_that_went_with_its_try_is_asked_again_and_listed(
    service, connection, execute, output, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(BatchState, "write_answers", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        patch.setattr(BatchState, "write_questions", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            execute(many(5), mode="sync")
    assert len(service.rows("requests")) == 5
    result = execute(many(6), mode="sync")
    assert (result["complete"], result["submitted"], result["possibly_duplicated"]) == (6, 6, 5)
    assert {row["kind"] for row in rows_of(result["findings"])} == {"possibly_duplicated"}
    assert len(service.rows("requests")) == 11
    again = execute(many(6), mode="sync")
    assert (again["reused"], again["possibly_duplicated"]) == (6, 5)


def test_in_sync_mode_a_saved_answer_is_reused_although_the_ledger_did_not_record_it(
    service, connection, execute, output, monkeypatch
):
    commit = ScopeLedger.commit_and_claim

    def killed(ledger, outcomes, claims, **options):
        if len(service.rows("requests")) == 3:
            raise Killed
        return commit(ledger, outcomes, claims, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ScopeLedger, "commit_and_claim", killed)
        with pytest.raises(Killed):
            execute(mode="sync", max_concurrency=1)
    (folder,) = output.parent.glob(".*.chat-batch")
    assert len(BatchState(str(folder)).read_answers()) == len(service.rows("requests")) == 3
    result = execute(mode="sync")
    assert (result["complete"], result["reused"], result["possibly_duplicated"]) == (8, 3, 0)
    assert len(service.rows("requests")) == 8
    assert [row["attempts"] for row in rows_of(output)] == [1] * 8
    only(output)


def test_a_failed_message_in_sync_mode_is_not_submitted(service, connection, execute, output):
    failing(service, [1])
    with pytest.raises(AssistantIncompleteError, match="1 of 3 questions without an answer"):
        execute(many(3), mode="sync")
    assert [row["status"] for row in rows_of(output)] == ["complete", "not_submitted", "complete"]
    assert "500" in rows_of(output)[1]["error"]


# -- deferred --------------------------------------------------------------------------------------


def deferred(source, output, **arguments):
    """Execute the operator until it defers. Return the operator and the deferral."""
    arguments = {**DEFAULTS, "output_path": str(output), "deferrable": True, **arguments}
    operator = operator_of(source, arguments)
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(task_context("ask"))
    return operator, caught.value


def resumed(source, output, event, **arguments):
    """Resume in another process."""
    operator = operator_of(source, {**DEFAULTS, "output_path": str(output), "deferrable": True, **arguments})
    return operator.execute_complete(task_context("ask"), event)


def event_of(trigger):
    async def first():
        (event,) = [event.payload async for event in trigger.run()]
        return event

    return asyncio.run(first())


def test_the_trigger_is_small_and_waits_as_long_as_the_task(service, connection, output):
    service.behave(processing_seconds=NEVER)
    _, deferral = deferred(many(50), output, timeout=60, max_concurrency=7)
    path, arguments = deferral.trigger.serialize()
    assert path.endswith("AssistantChatBatchTrigger")
    assert arguments["max_concurrency"] == 7
    assert arguments["poll_interval"] == 0.05
    assert len(json.dumps(arguments)) < 1000
    assert deferral.method_name == "execute_complete"
    assert timedelta(seconds=60) < deferral.timeout < timedelta(seconds=1000)


def test_nothing_open_is_no_deferral(service, connection, execute):
    execute(many(3))
    assert execute(many(3), deferrable=True)["complete"] == 3
    assert execute(many(3), run_id="sync", mode="sync", deferrable=True)["complete"] == 3


def test_what_the_trigger_could_not_note_down_is_fetched_by_the_worker(service, connection, output, monkeypatch):
    _, deferral = deferred(many(5), output)
    with monkeypatch.context() as patch:
        patch.setattr(BatchState, "write_answers", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
        event = event_of(deferral.trigger)
    assert event["ended"] == {"complete": 5}
    assert resumed(many(5), output, event)["complete"] == 5
    assert posts(service) == 5


def test_a_triggerer_that_cannot_reach_the_folder_says_what_to_do(service, connection, output, tmp_path, monkeypatch):
    _, deferral = deferred(many(2), output)
    with monkeypatch.context() as patch:
        patch.setattr(deferral.trigger, "folder", str(tmp_path / "elsewhere"))
        event = event_of(deferral.trigger)
    with pytest.raises(AssistantError, match=r"Nothing is lost: a retry takes up the requests\. .*deferrable=False"):
        resumed(many(2), output, event)
    assert event_of(deferral.trigger)["ended"] == {"complete": 2}


@pytest.mark.parametrize("event", [None, {}, {"status": "success"}])
def test_an_event_that_says_nothing_is_an_error(event, service, connection, output):
    deferred(many(2), output)
    with pytest.raises(AssistantError, match="has no deadline"):
        resumed(many(2), output, event)


def test_a_late_answer_is_taken_after_the_deadline_too(service, connection, output):
    service.behave(processing_seconds=NEVER)
    _, deferral = deferred(many(3), output, timeout=0)
    event = event_of(deferral.trigger)
    assert event["open"] == 3
    service.behave(processing_seconds=0)
    until(lambda: {row["status"] for row in service.rows("requests")} == {"complete"})
    assert resumed(many(3), output, event, timeout=0)["complete"] == 3


# -- on_kill ----------------------------------------------------------------------------


@pytest.fixture
def end_when():
    """Call on_kill() from another thread, like a signal handler, as soon as a condition holds."""
    threads = []

    def watch(operator, holds):
        def wait():
            until(holds)
            operator.on_kill()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    yield watch
    for thread in threads:
        thread.join()


def test_ended_while_submitting(service, connection, execute, output, end_when, monkeypatch):
    monkeypatch.setattr(engine, "GRACE", 60.0)
    service.answer("delay:0.3", path=SUBMIT, skip=4, times=None)
    operator = operator_of(many(100), {**DEFAULTS, "output_path": str(output), "max_concurrency": 2})
    end_when(operator, lambda: posts(service) >= 5)
    with pytest.raises(AssistantIncompleteError, match="a retry goes on with the others"):
        operator.execute(task_context("ask"))
    made = len(service.rows("requests"))
    assert made < 100
    service.behave(rules=[])
    assert execute(many(100))["submitted"] == 100 - made
    assert len(service.rows("requests")) == 100


def test_ended_while_waiting(service, connection, execute, output, end_when):
    service.behave(processing_seconds=NEVER)
    operator = operator_of(many(5), {**DEFAULTS, "output_path": str(output)})
    end_when(operator, lambda: polled(service).total() >= 5)
    with pytest.raises(AssistantIncompleteError, match="a retry takes up the requests that are open"):
        operator.execute(task_context("ask"))
    assert service.journal("POST", CLOSE) == []
    service.behave(processing_seconds=0)
    assert execute(many(5))["reused"] == 5
    assert len(service.rows("requests")) == 5


def test_ended_between_submitting_and_waiting(service, connection, execute, output, monkeypatch):
    operator = operator_of(many(5), {**DEFAULTS, "output_path": str(output)})
    submit = ChatBatch.submit

    def submitted(batch, questions, turn):
        submit(batch, questions, turn)
        operator.on_kill()

    with monkeypatch.context() as patch:
        patch.setattr(ChatBatch, "submit", submitted)
        with pytest.raises(AssistantIncompleteError):
            operator.execute(task_context("ask"))
    assert polled(service).total() == 0
    assert execute(many(5))["reused"] == 5


def test_ended_before_it_began_is_nothing(output):
    operator_of(many(5), {**DEFAULTS, "output_path": str(output)}).on_kill()


@modes
def test_no_questions_are_a_success_if_there_may_be_none(mode, execute, output, service, connection, tmp_path):
    (tmp_path / "none").mkdir()
    for source in ([], str(tmp_path / "none"), pd.DataFrame({"id": [], "message": []})):
        with pytest.raises(AssistantInputError, match="allow_empty=True"):
            execute(source, mode=mode, deferrable=False)
        result = execute(source, mode=mode, deferrable=False, allow_empty=True)
        assert (result["rows"], result["complete"], result["findings"]) == (0, 0, None)
        assert list(COLUMNS) == [name for name in pq.read_table(output).column_names if name in COLUMNS]
    assert posts(service) == 0


def test_questions_in_another_csv_dialect(execute, output, service, connection, tmp_path):
    (tmp_path / "q.csv").write_bytes("id;message\n1;Wie heißt 'Größe'?\n".encode("latin-1"))
    result = execute(str(tmp_path / "q.csv"), deferrable=False, csv_options={"delimiter": ";", "encoding": "latin-1"})
    assert result["complete"] == 1
    assert rows_of(output)[0]["message"] == "Wie heißt 'Größe'?"
