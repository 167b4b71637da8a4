"""The command erase: what it refuses, what it cannot reach, and what it asks."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.asking.answers import SCOPE
from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import BatchState, Request
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from tests.ledgers import Filler

SESSION, OTHER = "session-0001", "session-0002"


@pytest.fixture
def fill(ledger_home):
    with Ledger(sqlite_engine(ledger_home / "assistant_ledger.db")) as ledger:
        yield Filler(ledger.engine)


@pytest.fixture
def files(tmp_path):
    """A folder with an answer of each session."""
    folder = tmp_path / "files"
    rows = [{"session_id": session, "request_id": f"request-{session}", "n": 1} for session in (SESSION, OTHER)]
    write_answers(pa.Table.from_pylist(rows), folder / "answers.parquet")
    return folder


def write_answers(table, file):
    lake.replace(table.replace_schema_metadata({SCOPE: b"scope"}), ObjectStoragePath(str(file)))


@pytest.fixture
def erase(cli, files):
    def run(*more):
        return cli("erase", "--session", SESSION, "--path", files, "-o", "json", *more)

    return run


def sessions(files):
    return pq.ParquetFile(files / "answers.parquet").read()["session_id"].to_pylist()


def test_arguments_that_are_refused(cli, erase, files, tmp_path):
    for more in ([], ["--email", "zoe"], ["--email", " @ "], ["--session", " "]):
        ran = cli("erase", *more, "--path", files, "--yes")
        assert ran.code == 2, more
        assert "Nothing was changed" in ran.err
    ran = cli("erase", "--session", SESSION, "--path", tmp_path / "none", "--yes")
    assert (ran.code, "there is no file or folder" in ran.err) == (2, True)
    # JSON for a program cannot ask.
    ran = erase()
    assert (ran.code, "needs --yes or --dry-run" in ran.err) == (2, True)
    assert sessions(files) == [SESSION, OTHER]


@pytest.mark.parametrize(("reply", "code"), [("yes", 0), (" YES ", 0), ("y", 2), ("", 2), (None, 2)])
def test_the_question(reply, code, cli, files, monkeypatch):
    def ask(_, __):
        if reply is None:
            raise EOFError
        return reply

    monkeypatch.setattr(Console, "ask", ask)
    assert cli("erase", "--session", SESSION, "--path", files).code == code
    assert sessions(files) == ([OTHER] if code == 0 else [SESSION, OTHER])
    # Nothing is left to ask about.
    if code == 0:
        monkeypatch.setattr(Console, "ask", None)
        assert cli("erase", "--session", SESSION, "--path", files).code == 0


@pytest.mark.promise("erasure", "Erasing a person never changes a file or a table that is not of this package.")
def test_files_of_other_programs_stay_as_they_are(erase, files, tmp_path):
    """They are named if they are about the person, so that somebody can look at them."""
    about = {"session_id": SESSION, "request_id": f"request-{SESSION}"}
    foreign = {
        "note.txt": f"about {SESSION}.".encode(),
        "data.json": json.dumps({"a": [about]}).encode(),
        "summary.json": json.dumps(about).encode(),
        "lines.jsonl": f"{json.dumps(about)}\n".encode(),
        "lines.jsonl.gz": gzip.compress(json.dumps(about).encode()),
        "data.csv": f"key,question,answer,label\n1,q,{SESSION},\n".encode(),
        "results.xml": f'<testsuites><testsuite name="{SESSION}"/></testsuites>'.encode(),
        "page.html": f"<p>{SESSION}</p>".encode(),
    }
    for name, content in foreign.items():
        (files / name).write_bytes(content)
    pq.write_table(pa.Table.from_pylist([about]), files / "table.parquet")
    partition = files / "feedback" / "date=2026-11-26"
    partition.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([about]), partition / "other.parquet")
    database = files / "other.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT '{SESSION}' AS session_id")
    # Files that are not about the person are not named, unless they cannot be read.
    (files / "of_somebody_else.txt").write_text(OTHER)
    (files / "broken.json").write_text("{")
    (files / "broken.parquet").write_bytes(b"PAR1" + b"x" * 100)
    (files / "other.db").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    ours = files / "answers.parquet"
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file() and path != ours}

    ran = erase("--yes")
    assert ran.code == 1
    assert {path: path.read_bytes() for path in before} == before
    assert sessions(files) == [OTHER]
    assert ran.json["counts"] == {"ledger": {}, str(files): {"rows": 1}}
    names = {path.rpartition("/")[2] for path in ran.json["not_reached"]}
    unreadable = {"broken.parquet", "other.db"}
    assert names == {*foreign, "table.parquet", "other.parquet", 'other.duckdb: "main"."people"', *unreadable}


def test_our_rows_are_erased_next_to_files_of_others(erase, files, tmp_path):
    """A link is followed, and the rest of a file keeps its bytes."""
    day = files / "lake" / "feedback" / "date=2026-11-26"
    common = {"service": "h", "site_id": "docs", "sent_at": datetime(2026, 11, 26, tzinfo=UTC), "attempts": 1}
    rated_rows = [
        {**common, "session_id": session, "request_id": session, "rating": "good"}
        for session in (SESSION, SESSION, OTHER)
    ]
    # Compacted by another program, so without our metadata.
    table = lake.rows_table(lake.FEEDBACK, rated_rows).replace_schema_metadata(None)
    lake.replace(table, ObjectStoragePath(str(day / "compacted.parquet")))
    rows = [{"session_id": session, "answer": "x\r\ny"} for session in (SESSION, OTHER)]
    write_answers(pa.Table.from_pylist(rows), tmp_path / "elsewhere.parquet")
    (files / "linked.parquet").symlink_to(tmp_path / "elsewhere.parquet")

    ran = erase("--yes")
    assert (ran.code, ran.json["counts"][str(files)]) == (0, {"rows": 4})
    assert pq.ParquetFile(day / "compacted.parquet").read()["session_id"].to_pylist() == [OTHER]
    assert pq.ParquetFile(tmp_path / "elsewhere.parquet").read().to_pylist() == rows[1:]
    assert (files / "linked.parquet").is_symlink()


def test_a_session_may_have_the_id_of_a_run(cli, tmp_path):
    run_id = "scheduled__2026-11-26T00:00:00+00:00"
    rows = [{"session_id": run_id, "run_id": run_id}, {"session_id": OTHER, "run_id": run_id}]
    file = tmp_path / run_id / f"{run_id}.parquet"
    write_answers(pa.Table.from_pylist(rows), file)
    assert cli("erase", "--session", run_id, "--path", tmp_path / run_id, "--yes").code == 0
    assert pq.ParquetFile(file).read().to_pylist() == rows[1:]


def test_a_batch_that_waits_for_the_person_stops_it(erase, files, ledger_home):
    record = BatchState(str(files / ".answers.parquet.00.chat-batch"))
    record.write_questions(Questions())
    record.add([Request(name, f"request-{name}", "s", 1.0) for name in (OTHER, SESSION)])
    trial = erase("--dry-run")
    assert (trial.code, trial.json["counts"][str(files)]) == (0, {"rows": 2})
    ran = erase("--yes")
    assert (ran.code, "may still wait" in ran.err, sessions(files)) == (2, True, [SESSION, OTHER])
    assert erase("--yes", "--force").code == 0
    audit = (ledger_home / "assistant_erasures.jsonl").read_text().splitlines()
    assert [json.loads(line)["counts"] for line in audit] == [None, {"ledger": {}, str(files): {"rows": 2}}]
    assert [request.request_id for request in record.read_open()] == [f"request-{OTHER}"]


def test_a_task_that_is_sending_stops_it(erase, files, fill):
    details = {"session_id": SESSION, "rating": "good", "remote_id": "request-9"}
    fill.attempt("r", "claimed", kind="rating", hours=0, details=details)
    ran = erase("--yes")
    assert (ran.code, "is sending" in ran.err, sessions(files)) == (2, True, [SESSION, OTHER])


@pytest.mark.promise("erasure", "Chat requests and ratings of a person go, with all of a session that is the person's.")
def test_entries_of_a_person_go_and_others_lose_only_the_texts(cli, fill, ledger_home):
    email = "zoe@example.com"
    for label, session, request in (("Zoe@Example.com", "s-1", "q-1"), ("q", "s-1", "q-2"), ("q", "s-2", "q-3")):
        fill.attempt(label, "created", kind="chat", remote_id=request, details={"session_id": session}, dag_id=request)
    details = {"session_id": "s-1", "rating": "good", "remote_id": "q-2"}
    fill.attempt("r", "created", kind="rating", remote_id="q-2", details=details)
    fill.attempt(email, "created", remote_id="doc-1")
    fill.attempt(f"about {email}", "created", remote_id="doc-2", group=email)
    arguments = ("erase", "--email", email, "-o", "json")
    fill.load(outcome="failed", error=f"{email} was rejected")
    assert cli(*arguments, "--dry-run").json["counts"]["ledger"] == {"entries": 3, "texts": 4}
    ran = cli(*arguments, "--yes")
    assert (ran.code, ran.json["counts"]["ledger"], ran.json["sessions"]) == (0, {"entries": 3, "texts": 4}, ["s-1"])
    with fill.engine.connect() as connection:
        left = connection.exec_driver_sql("SELECT kind, label, group_name, remote_id FROM assistant_attempts").all()
    assert sorted(map(tuple, left), key=str) == [
        ("chat", "q", None, "q-3"),
        ("qa", "(erased)", "(erased)", "doc-2"),
        ("qa", "(erased)", None, "doc-1"),
    ]
    # The file has no bytes of deleted entries.
    content = (ledger_home / "assistant_ledger.db").read_bytes()
    assert b"s-1" not in content
    assert email.encode() not in content


def test_what_a_task_writes_meanwhile_is_noticed(erase, files, monkeypatch):
    rows = pa.table({"session_id": [SESSION]})
    rewrite = lake.replace_bytes

    def replaced_and_written(content, target):
        rewrite(content, target)
        write_answers(rows, files / "late.parquet")

    monkeypatch.setattr(lake, "replace_bytes", replaced_and_written)
    ran = erase("--yes")
    assert (ran.code, ran.json["remaining"]) == (1, {str(files): {"rows": 1}})
