"""A person whose data went through every place is erased, and no byte of it is left."""
# ruff: noqa: F811 (fixtures)

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)
from tests.unit.lake.conftest import engine, server  # noqa: F401 (fixtures)
from tests.unit.lake.nights import FIRST, origin, write_rows

EMAIL, SESSION = "Zoe.Canary+x@Example.com", "canary-session-7f3a9c51"
# The other person has a similar address and session, and asks the same.
OTHER_EMAIL, OTHER_SESSION = "joe.Canary+x@Example.com", "canary-session-7f3a9c51x"
QUESTION = 'Where is "zoé-canary" parcel <4711> \u202e & why\nis it late?'


def has_person(content: bytes, request_ids: set[str]) -> bool:
    """Return whether a content has something of the person, in a way of its own."""
    text = content.decode("utf-8", "replace").lower().replace(OTHER_SESSION, "")
    words = [EMAIL, user_label(EMAIL), SESSION, *request_ids, "zoé-canary", "zo\\u00e9-canary"]
    return any(word.lower() in text for word in words)


def contents(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield path.name.encode()
    yield content
    if content.startswith(b"PAR1"):
        table = pq.ParquetFile(io.BytesIO(content)).read()
        yield json.dumps(table.to_pylist(), default=str, ensure_ascii=False).encode("utf-8", "replace")


def files_with(root: Path, request_ids: set[str]) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and any(has_person(content, request_ids) for content in contents(path))
    }


def tables_with(engine, request_ids: set[str]) -> set[str]:
    with engine.connect() as connection:
        rows = {
            name: connection.exec_driver_sql(f"SELECT * FROM assistant.{name}").fetchall()
            for name in sa.inspect(engine).get_table_names("assistant")
        }
    return {name for name, found in rows.items() if has_person(repr(found).encode(), request_ids)}


@pytest.mark.system
@pytest.mark.promise(
    "erasure", "No byte of an erased person is left in what this package keeps, and others lose nothing."
)
def test_no_byte_is_left(
    service, connection, run_operator, ledger_home, tmp_path, monkeypatch, cli, engine, server
) -> None:
    lake, files = tmp_path / "lake", tmp_path / "files"
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", server.airflow_url)
    write_all_places(run_operator, lake, files)
    answers = pq.ParquetFile(files / "answers.parquet").read().to_pylist()
    request_ids = {row["request_id"] for row in answers if row["session_id"] == SESSION}
    assert len(request_ids) == 3
    options = ["--email", EMAIL.swapcase(), "--lake", lake, "--path", files, "--warehouse-conn-id", "warehouse"]

    def where() -> dict[str, set[str]]:
        return {
            "lake": files_with(lake, request_ids),
            "files": files_with(files, request_ids),
            "ledger": {file.name for file in ledger_home.glob("*.db*") if has_person(file.read_bytes(), request_ids)},
            "warehouse": tables_with(engine, request_ids),
        }

    before = where()
    datasets = {"answers", "feedback", "findings", "requests", "usage"}
    assert {name.split("/")[0] for name in before["lake"]} == before["warehouse"] == datasets
    names = {name.rpartition("/")[2] for name in before["files"]}
    assert names >= {"answers.parquet", "findings.parquet", "report.html", "scores.parquet"}
    assert all(before.values())

    trial = cli("erase", *options, "-o", "json", "--dry-run").json
    assert where() == before
    ran = cli("erase", *options, "-o", "json", "--yes")
    result = ran.json
    assert (ran.code, result["not_reached"], result["remaining"]) == (0, {}, {})
    assert (result["counts"], result["sessions"]) == (trial["counts"], [SESSION])
    assert where() == {place: set() for place in before}
    audit = (ledger_home / "assistant_erasures.jsonl").read_text()
    assert json.loads(audit)["counts"] == result["counts"]
    assert not has_person(audit.encode(), request_ids)
    # The other person has lost nothing but what the evaluation said.
    kept = pq.ParquetFile(files / "answers.parquet").read().to_pylist()
    assert kept == [row for row in answers if row["session_id"] != SESSION]
    with engine.connect() as postgres:
        count = f"SELECT count(*) FROM assistant.feedback WHERE session_id = '{OTHER_SESSION}'"
        assert postgres.exec_driver_sql(count).scalar() == 3
    assert not list(files.glob("evaluations/*/*/*"))


def write_all_places(run_operator, lake: Path, files: Path) -> None:
    """Let both people ask, be rated, be evaluated, be exported and stand in rejected rows."""
    source = [{"key": f"mine-{n}", "message": f"{QUESTION} {n}", "session_id": SESSION, "email": EMAIL} for n in (1, 2)]
    source.append({"key": "mine-3", "message": QUESTION, "session_id": SESSION, "email": None})
    for number in range(3):
        row = {"key": f"other-{number}", "message": "When are refunds paid?", "session_id": OTHER_SESSION}
        source.append({**row, "email": OTHER_EMAIL})
    source = [{**row, "expected": "In five days."} for row in source]
    answers = str(files / "answers.parquet")

    def run(kind, **arguments):
        done = run_operator(kind, **arguments)
        assert done.state == "success", done.errors
        return done.xcom()

    batch = {"source": source, "key_columns": ["key"], "output_path": answers, "poll_interval": 0.05}
    run(AssistantChatBatchOperator, lake_path=str(lake), **batch)
    run(AssistantSubmitChatOperator, session_id=SESSION, message=QUESTION, user_email=EMAIL)
    evaluation = run(
        AssistantEvaluateOperator,
        answers=answers,
        name="canary",
        scorers=["token_f1"],
        gate=["token_f1 >= 0.99"],
        on_fail="report",
        output_path=str(files / "evaluations"),
        lake_path=str(lake),
    )
    rules = {"good": "token_f1 >= 0.5", "bad": "token_f1 < 0.5"}
    run(AssistantRateAnswersOperator, answers=answers, scores=evaluation["scores_path"], rules=rules)
    documents = [
        {"title": EMAIL, "question": "q", "answer": "", "category": "faq"},
        {"title": OTHER_EMAIL, "question": "q", "answer": "a", "category": "faq"},
    ]
    load = {"source": documents, "key_columns": ["title"], "findings_path": str(files / "findings.parquet")}
    run(AssistantLoadQAOperator, max_rejected=1, lake_path=str(lake), **load)
    for export in (
        AssistantFeedbackToParquetOperator,
        AssistantRequestsToParquetOperator,
        AssistantLoadsToParquetOperator,
    ):
        run(export, output_path=str(lake))
    # The reply of another route, as its export writes it.
    values = [{**origin(), "metric": "email", "text": user_label(email), "type": "string"} for email in (EMAIL, "x")]
    write_rows(lake, "usage", FIRST, values)
    for names in (None, ["usage"]):
        run(AssistantParquetToWarehouseOperator, output_path=str(lake), conn_id="warehouse", datasets=names)
