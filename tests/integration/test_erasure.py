"""A person whose data went through every place is erased, and no byte of it is left."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from airflow_provider_assistant import lake
from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.asking.state import BatchState, End
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.ledger import sqlite_engine
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
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from tests.ledgers import Filler
from tests.live.postgres import PostgresServer
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)

EMAIL = "Zoe.Canary+x@Example.com"
SESSION = "canary-session-7f3a9c51"
# The other person has a similar address and session, and the same words in other questions.
OTHER_EMAIL, OTHER_SESSION = "joe.Canary+x@Example.com", "other-session-7f3a9c51"
QUESTION = 'Where is "zoé-canary" parcel <4711> \u202e & why\nis it late?'
OTHER_QUESTION = "When are refunds paid?"


def odd_spellings() -> list[str]:
    """Return texts with the address, each spelt in another way."""
    in_json = EMAIL.replace("@", "\\u0040")
    return [EMAIL.upper(), quote(EMAIL, safe=""), in_json, f"mailto:<{EMAIL}>.", EMAIL.replace("@", "&#64;")]


class Search:
    """Look for the person in files and tables, in a way of its own."""

    def __init__(self, request_ids: set[str]) -> None:
        spellings = [EMAIL, user_label(EMAIL), SESSION, *request_ids, *odd_spellings()]
        spellings += [json.dumps(text)[1:-1] for text in (EMAIL, QUESTION)]
        spellings += [QUESTION, "zoé-canary", "zo\\u00e9-canary"]
        self._words = {spelling.lower().encode() for spelling in spellings}

    def has(self, content: bytes) -> bool:
        shown = content.lower()
        return any(word in shown for word in self._words)

    def files(self, *roots: Path) -> set[str]:
        """Return the names of the files that have something of the person."""
        found = set()
        for root in roots:
            for path in sorted(root.rglob("*")):
                if path.is_file() and any(map(self.has, self._contents(path))):
                    found.add(str(path.relative_to(root)))
        return found

    def _contents(self, path: Path) -> Iterator[bytes]:
        content = path.read_bytes()
        yield path.name.encode()
        yield content
        if content.startswith(b"PAR1"):
            table = pq.ParquetFile(io.BytesIO(content)).read()
            yield json.dumps(table.to_pylist(), default=str, ensure_ascii=False).encode("utf-8", "replace")
            yield repr(table.schema.metadata).encode()

    def tables(self, connection, names) -> set[str]:
        """Return the names of the tables that have something of the person."""
        found = set()
        for name in names:
            rows = connection.exec_driver_sql(f"SELECT * FROM {name}").fetchall()
            if self.has(json.dumps([list(row) for row in rows], default=str, ensure_ascii=False).encode()):
                found.add(name)
        return found


@pytest.mark.promise(
    "erasure",
    "No byte of an erased person is left in what this package keeps, and others lose nothing.",
)
@pytest.mark.parametrize("has_servers", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_no_byte_is_left(
    has_servers,
    service,
    connection,
    run_operator,
    ledger_home,
    tmp_path,
    monkeypatch,
    cli,  # noqa: F811
) -> None:
    places = Places(tmp_path, ledger_home / "assistant_ledger.db")
    write_all_places(run_operator, service, places.lake, places.files)
    options = ["--email", EMAIL.swapcase(), "--lake", places.lake, "--path", places.files, "-o", "json"]
    options += ["--database", places.database]
    with contextlib.ExitStack() as stack:
        targets = [{"database": str(places.database)}]
        if has_servers:
            server = stack.enter_context(PostgresServer())
            monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", server.airflow_url)
            places.engine = sa.create_engine(server.url, poolclass=sa.NullPool)
            stack.callback(places.engine.dispose)
            places.catalog = iceberg_of(places.lake, places.iceberg, monkeypatch)
            targets.append({"conn_id": "warehouse"})
            options += ["--warehouse-conn-id", "warehouse", "--iceberg-conn-id", "ice"]
        for target in targets:
            loaded = run_operator(AssistantParquetToWarehouseOperator, output_path=str(places.lake), **target)
            assert loaded.state == "success", loaded.errors
        request_ids = set(column(places.files / "answers.parquet", "request_id", "session_id", SESSION))
        assert len(request_ids) == 3
        search = Search(request_ids)
        before = places.where(search)
        for place, found in before.items():
            assert found, place
        assert {name.split("/")[0] for name in before["lake"]} >= {
            "answers",
            "feedback",
            "findings",
            "reads",
            "reads_raw",
            "requests",
        }
        names = {name.rpartition("/")[2] for name in before["files"]}
        assert names >= {"answers.parquet", "findings.parquet", "report.html"}

        trial = cli("erase", *options, "--dry-run").json
        assert places.where(search) == before
        ran = cli("erase", *options, "--yes")
        result = ran.json
        assert (ran.code, result["not_reached"], result["remaining"]) == (0, {}, {})
        assert result["counts"] == trial["counts"]
        assert result["sessions"] == [SESSION]
        assert places.where(search) == {place: set() for place in before}
        check_others(places)
        if has_servers:
            check_ledger_in_postgres(cli, places.engine)
    audit = (ledger_home / "assistant_erasures.jsonl").read_text()
    assert json.loads(audit.splitlines()[0])["counts"] == result["counts"]
    assert not search.has(audit.encode())


def check_ledger_in_postgres(cli, engine) -> None:  # noqa: F811
    fill = Filler(engine)
    for session, request_id in ((SESSION, "request-1"), (OTHER_SESSION, "request-2"), (SESSION, "\ud800-3")):
        details = {"session_id": session, "rating": "good", "remote_id": request_id}
        fill.attempt(request_id, "created", kind="rating", remote_id=request_id, details=details)
    options = ("--session", SESSION, "--ledger-conn-id", "warehouse", "--yes", "-o", "json")
    assert cli("erase", *options).json["counts"]["ledger"] == {"entries": 2}
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT session_id FROM assistant_attempts").scalars().all()
    assert found == [OTHER_SESSION]


def write_all_places(run_operator, service, lake_folder: Path, files: Path) -> None:
    """Let both people ask, be rated, be evaluated, be exported and stand in rejected rows."""
    source = [{"key": f"mine-{n}", "message": f"{QUESTION} {n}", "session_id": SESSION, "email": EMAIL} for n in (1, 2)]
    source.append({"key": "mine-3", "message": QUESTION, "session_id": SESSION, "email": None})
    for number, text in enumerate(odd_spellings()):
        row = {"key": f"text-{number}", "message": f"write to {text}", "session_id": f"{OTHER_SESSION}-{number}"}
        source.append({**row, "email": None})
    for number in range(3):
        row = {"key": f"other-{number}", "message": OTHER_QUESTION, "session_id": OTHER_SESSION}
        source.append({**row, "email": OTHER_EMAIL})
    source = [{**row, "expected": "In five days."} for row in source]
    answers = str(files / "answers.parquet")

    def run(kind, **arguments):
        done = run_operator(kind, **arguments)
        assert done.state == "success", done.errors
        return done.xcom()

    batch = {"source": source, "key_columns": ["key"], "output_path": answers, "poll_interval": 0.05}
    batch["lake_path"] = str(lake_folder)
    run(AssistantChatBatchOperator, **batch)
    run(AssistantSubmitChatOperator, session_id=SESSION, message=QUESTION, user_email=EMAIL)
    evaluation = run(
        AssistantEvaluateOperator,
        answers=answers,
        name="canary",
        scorers=["token_f1", "exact_match"],
        gate=["token_f1 >= 0.99"],
        on_fail="report",
        output_path=str(files / "evaluations"),
        lake_path=str(lake_folder),
    )
    rules = {"good": "token_f1 >= 0.5", "bad": "token_f1 < 0.5"}
    run(AssistantRateAnswersOperator, answers=answers, scores=evaluation["scores_path"], rules=rules)
    documents = [
        {"title": EMAIL, "question": "q", "answer": "", "category": "faq"},
        {"title": f"about {EMAIL}", "question": "q", "answer": "a", "category": "faq"},
        {"title": OTHER_EMAIL, "question": "q", "answer": "a", "category": "faq"},
    ]
    findings = str(files / "findings.parquet")
    load = {"source": documents, "key_columns": ["title"], "findings_path": findings, "max_rejected": 1}
    load["lake_path"] = str(lake_folder)
    run(AssistantLoadQAOperator, **load)
    exports = (AssistantFeedbackToParquetOperator, AssistantRequestsToParquetOperator, AssistantLoadsToParquetOperator)
    for export in exports:
        run(export, output_path=str(lake_folder))
    for with_emails in (True, False):
        read = {"path": "/m2m/sites/acme-docs/sessions", "with_emails": with_emails, "name": f"sessions {with_emails}"}
        run(AssistantReadToParquetOperator, output_path=str(lake_folder), **read)
    path = f"/m2m/sites/acme-docs/users/{EMAIL}/statistics"
    run(AssistantReadToParquetOperator, path=path, output_path=str(lake_folder))
    write_further_files(files)


def write_further_files(files: Path) -> None:
    """Write what a killed chat batch leaves."""
    rows = pq.ParquetFile(files / "answers.parquet").read().to_pylist()
    record = BatchState(str(files / ".killed.parquet.00112233.chat-batch"))
    for row in rows:
        names = ("question_id", "status", "request_id", "session_id", "answer", "raw")
        record.add([End(**{name: row[name] for name in names}, ended_at=1.0, seconds=1.0, polls=1)])
    lake.replace(pa.Table.from_pylist(rows), lake_path(files / ".killed.parquet.00112233.chat-batch/questions.parquet"))


def lake_path(path: Path):
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    return ObjectStoragePath(str(path))


def iceberg_of(lake_folder: Path, folder: Path, monkeypatch):
    from airflow_provider_assistant.lake import iceberg

    folder.mkdir()
    extra = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
    monkeypatch.setenv("AIRFLOW_CONN_ICE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    catalog = iceberg.open_catalog("ice", extra)
    for dataset in lake.DATASETS:
        if (lake_folder / dataset).is_dir():
            iceberg.load(catalog, "assistant", str(lake_folder), dataset)
    return catalog


class Places:
    """All places of a test, without servers unless they are set."""

    def __init__(self, home: Path, ledger: Path) -> None:
        self.lake, self.files, self.iceberg = home / "lake", home / "files", home / "iceberg"
        self.database = home / "warehouse.duckdb"
        self.ledger = ledger
        self.engine: sa.Engine | None = None
        self.catalog: Any = None

    def where(self, search: Search) -> dict[str, set[str]]:
        """Return by place where the person is."""
        found = {"lake": search.files(self.lake), "files": search.files(self.files)}
        engine = sqlite_engine(self.ledger)
        with engine.connect() as connection:
            found["ledger"] = search.tables(connection, sa.inspect(engine).get_table_names())
        engine.dispose()
        found["duckdb"] = set()
        with duckdb.connect(str(self.database)) as database:
            for (name,) in database.sql("SELECT table_name FROM information_schema.tables").fetchall():
                rows = database.execute(f"SELECT COLUMNS(*)::VARCHAR FROM assistant.{name}").fetchall()
                if search.has(json.dumps(rows, default=str, ensure_ascii=False).encode()):
                    found["duckdb"].add(name)
        files = [*self.ledger.parent.glob(f"{self.ledger.name}*"), *self.database.parent.glob("*.duckdb*")]
        found["bytes of databases"] = {file.name for file in files if search.has(file.read_bytes())}
        if self.engine is not None:
            with self.engine.connect() as connection:
                names = connection.exec_driver_sql(
                    "SELECT 'assistant.' || table_name FROM information_schema.tables WHERE table_schema = 'assistant'"
                )
                found["postgres"] = search.tables(connection, [name for (name,) in names])
            found["iceberg"] = search.files(self.iceberg)
        return found


def column(file: Path, name: str, by: str, value: str) -> list[str]:
    rows = pq.ParquetFile(file).read().to_pylist()
    return [row[name] for row in rows if row[by] == value]


def check_others(places: Places) -> None:
    """The other person has lost nothing, and the views still work."""
    files = places.files
    assert len(column(files / "answers.parquet", "key", "session_id", OTHER_SESSION)) == 3
    (scores,) = files.glob("evaluations/canary/*/scores.parquet")
    assert set(pq.ParquetFile(scores).read()["key"].to_pylist()) == {"other-0", "other-1", "other-2"}
    assert Summary.model_validate_json((scores.parent / "summary.json").read_bytes()).name == "canary"
    count = f"SELECT count(*) FROM assistant.feedback WHERE session_id = '{OTHER_SESSION}'"
    with duckdb.connect(str(places.database)) as connection:
        assert connection.execute(count).fetchall() == [(3,)]
        views = connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        assert len(views) > 3
        for (view,) in views:
            connection.execute(f"SELECT * FROM assistant.{view}").fetchall()
    if places.engine is not None:
        with places.engine.connect() as connection:
            assert connection.exec_driver_sql(count).scalar() == 3
        sessions = places.catalog.load_table("assistant.feedback").scan().to_arrow()["session_id"].to_pylist()
        assert sessions.count(OTHER_SESSION) == 3
