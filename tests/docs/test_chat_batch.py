"""Check the how-to on chat batches: the file, retries and failures."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_args

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.chat_batch import answers, poller, schedule, state
from airflow_provider_assistant.chat_batch.requests import Mode
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.triggers import chat_batch as triggers
from tests.docs.conftest import QUESTIONS
from tests.docs.pages import codes, section, table
from tests.docs.test_loads import dag_on, queries, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

CHAT_BATCH, LEDGER, OPERATORS, ERRORS = (
    "docs/ask/chat-batch.md",
    "docs/internals/ledger.md",
    "docs/reference/operators.md",
    "docs/reference/errors.md",
)
STATUSES = table(section(CHAT_BATCH, "What is in the file"))
SUBMIT, POLL = r"chat/async$", r"chat/requests/"
pytestmark = pytest.mark.usefixtures("files")


@pytest.fixture
def run_batch(connect: Callable[..., None], run_operator: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    def run(**arguments: Any) -> Run:
        arguments = {"source": QUESTIONS, "poll_interval": 0.05, "timeout": 30, **arguments}
        return run_operator(AssistantChatBatchOperator, output_path=str(tmp_path / "answers.parquet"), **arguments)

    connect()
    return run


def test_columns_of_the_file(run_batch: Callable[..., Run], tmp_path: Path) -> None:
    assert run_batch().state == "success"
    schema = pq.read_schema(tmp_path / "answers.parquet")
    rows = table(section(OPERATORS, "What is in the file"))
    said = [(codes(row["Column"])[0], codes(row["Type"])[0]) for row in rows]
    assert [name for name, _ in said] == list(answers.COLUMNS)
    assert said == [(field.name, str(field.type)) for field in schema][: len(said)]
    assert schema.names[len(said) :] == ["id", "expected", "language"]


def test_statuses_are_told_everywhere() -> None:
    assert tuple(codes(row["Status"])[0] for row in STATUSES) == answers.STATUSES
    counts = [codes(row["Key"])[0] for row in table(section(OPERATORS, "Counts of a batch"))]
    assert set(answers.STATUSES) < set(counts)
    total, *parts = re.findall(r"\w+", codes(section(OPERATORS, "Counts of a batch"))[0])
    assert (total, tuple(parts)) == ("rows", answers.STATUSES)


def test_modes() -> None:
    (mode,) = [row for row in table(section(OPERATORS, "AssistantChatBatchOperator")) if row["Parameter"] == "`mode`"]
    assert tuple(codes(mode["Meaning"])[:2]) == get_args(Mode)


def test_numbers_in_the_text() -> None:
    text = words(CHAT_BATCH)
    assert "saved within two seconds" in text
    assert state.FLUSH == 2
    assert "polled first at a quarter of it" in text
    assert schedule.FIRST == 0.25
    assert "has a line every 30 seconds" in text
    assert poller.PROGRESS == 30


def test_queries(
    connect: Callable[..., None], run_dag: Callable[..., Run], ledger_home: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    import duckdb

    connect()
    run = run_dag(dag_on(CHAT_BATCH, "ask_golden_set", tmp_path))
    assert run.state == "success"
    assert run.xcom("show_unanswered") == len(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    query, low_confidence = queries(CHAT_BATCH)
    # The site has no documents.
    found = duckdb.sql(low_confidence).fetchall()
    assert {(level, score) for _, level, score, _, _ in found} == {("low", 0.0)}
    assert len(found) == len(QUESTIONS)
    ((path, questions, answered, p50, p99),) = duckdb.sql(query).fetchall()
    assert run.run_id in path
    assert (questions, answered) == (3, 3)
    assert 0 <= p50 <= p99
    (query,) = [query for query in queries(LEDGER) if "assistant_chat_requests" in query]
    with closing(sqlite3.connect(ledger_home / "assistant_ledger.db")) as ledger:
        rows = ledger.execute(query).fetchall()
    assert {row[1] for row in rows} == {str(question["id"]) for question in QUESTIONS}
    assert {(row[0], row[3]) for row in rows} == {(run.run_id, "created")}


# -- why a batch fails -----------------------------------------------------------------------------

BLANK = [*QUESTIONS, {"id": 20, "message": " ", "expected": "", "language": "en"}]
# Key: beginning of the table row. Value: faults of the service, arguments, number of requests after all tries.
ENDS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "Most of them failed": ({"fail_messages": "."}, {}, 6),
    "Most of them did not end": ({"processing_seconds": 600}, {"timeout": 0.2}, 3),
    "Most of them are no longer known": ({"action": "status:404", "path": POLL}, {}, 6),
    "Most of them could not be submitted": ({"action": "status:503", "path": SUBMIT, "skip": 1}, {}, 1),
    "A question may have been asked": (
        {"action": "store-then-status:503", "path": SUBMIT},
        {"on_ambiguous": "fail"},
        1,
    ),
    "All of them are invalid rows": ({}, {"source": BLANK, "key_columns": "id"}, 3),
    "The source cannot be asked": ({}, {"source": [{"question": "When?"}]}, 0),
    "401 or 403": ({"action": "status:401", "path": POLL}, {}, 3),
    "No question could be submitted": ({"action": "retry-after:900", "path": SUBMIT}, {}, 0),
    "The triggerer cannot read": ({}, {"deferrable": True}, 3),
    "The ledger cannot be used": ({}, {}, 0),
}


@pytest.mark.parametrize(
    "row", table(section(ERRORS, "Why a chat batch fails")), ids=lambda row: row["What happened"][:30]
)
def test_why_a_batch_fails(
    row: dict[str, str],
    run_batch: Callable[..., Run],
    service: RunningService,
    ledger_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ((name, (trouble, arguments, stored)),) = [end for end in ENDS.items() if row["What happened"].startswith(end[0])]
    if "action" in trouble:
        service.answer(**trouble, times=None)
    else:
        service.behave(**trouble)
    if "triggerer" in name:
        elsewhere = state.BatchState(str(tmp_path / "elsewhere"))
        monkeypatch.setattr(triggers, "BatchState", lambda _: elsewhere)
    if "ledger" in name:
        (ledger_home / "assistant_ledger.db").write_text("This is no database, but long enough to be looked at." * 99)
    run = run_batch(retries=1, max_concurrency=1, **arguments)
    assert run.state == "failed"
    assert len(service.rows("requests")) == stored
    assert run.tries() == (2 if row["Airflow retries"] == "yes" else 1)
    named = codes(row["Exception"])
    assert not named or type(run.error).__name__ in named, run.error
