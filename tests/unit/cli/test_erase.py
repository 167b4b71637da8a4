"""The command erase: what it refuses, what it cannot reach, and what it asks."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import SCOPE
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, read_findings
from airflow_provider_assistant.storage.write import replace
from tests.ledgers import Filler

SESSION, OTHER = "session-0001", "session-0002"


@pytest.fixture
def fill(ledger_home):
    with Ledger(sqlite_engine(ledger_home / "assistant_ledger.db")) as ledger:
        yield Filler(ledger.engine)


def write(file, metadata):
    rows = [{"session_id": session, "request_id": f"r-{session}", "n": 1} for session in (SESSION, OTHER)]
    replace(pa.Table.from_pylist(rows).replace_schema_metadata(metadata), ObjectStoragePath(str(file)))


def sessions(file):
    return pq.ParquetFile(file).read()["session_id"].to_pylist()


@pytest.fixture
def files(tmp_path):
    """A folder with an answer of each session."""
    write(tmp_path / "files" / "answers.parquet", {SCOPE: b"scope"})
    return tmp_path / "files"


@pytest.fixture
def erase(cli, files):
    return lambda *more: cli("erase", "--session", SESSION, "--path", files, "-o", "json", *more)


@pytest.mark.parametrize(
    "arguments", [[], ["--email", "zoe"], ["--email", " @ "], ["--session", " "], ["--session", "s", "--path", "/none"]]
)
def test_arguments_that_are_refused(arguments, cli, files):
    assert cli("erase", *arguments, "--yes").code == 2
    assert sessions(files / "answers.parquet") == [SESSION, OTHER]


def test_rows_of_the_person_are_erased_and_found_again_by_their_requests(erase, cli, files, fill):
    for session in (SESSION, OTHER):
        details = {"session_id": session, "rating": "good"}
        fill.attempt(f"r-{session}", "created", kind="rating", remote_id=f"r-{session}", details=details)
    # A request of the session that the file does not name.
    fill.attempt("x", "created", kind="chat", remote_id="r-x", details={"session_id": SESSION, "mode": "async"})
    findings = [Finding("rejected", key, "refused") for key in (SESSION, OTHER, f"r-{SESSION}", "row 1")]
    # Those of a chat batch name requests.
    asked_twice = [Finding("possibly_duplicated", "Why?", "asked twice", 1, [f"r-{key}", "x"]) for key in ("x", OTHER)]
    fill.load(findings=[*findings, *asked_twice])
    with FindingsFile(files / ".answers.findings.parquet") as file:
        for finding in asked_twice:
            file.add(finding)
    refused = erase()
    assert (refused.code, "--output json needs --yes or --dry-run" in refused.err) == (2, True)
    assert sessions(files / "answers.parquet") == [SESSION, OTHER]
    ran = erase("--yes")
    assert (ran.code, ran.json["counts"]) == (0, {"ledger": {"entries": 2, "findings": 3}, str(files): {"rows": 2}})
    assert sessions(files / "answers.parquet") == [OTHER]
    assert [row["document_ids"][0] for row in read_findings(file.path)] == [f"r-{OTHER}"]
    assert erase("--yes").json["counts"] == {"ledger": {}, str(files): {}}
    shown = cli("erase", "--session", OTHER, "--path", files, "--dry-run", "-o", "plain")
    assert shown.lines[:2] == [["place", "what", "number"], ["ledger", "entries", "1"]]
    assert shown.lines[-1] == [f"Would erase 5 in 2 places. Sessions: {OTHER}."]


@pytest.mark.promise("erasure", "Files of other programs are never changed.")
def test_files_of_other_programs_are_never_changed(erase, files):
    write(files / "foreign.parquet", None)
    others = {"rows.csv": f"session_id\n{SESSION}\n", "top.json": json.dumps({"session_id": SESSION})}
    for name, text in others.items():
        (files / name).write_text(text)
    assert erase("--yes").code == 0
    assert sessions(files / "foreign.parquet") == [SESSION, OTHER]
    assert {name: (files / name).read_text() for name in others} == others


def test_what_is_not_reached_is_listed(erase, files):
    (files / "broken.parquet").write_bytes(b"PAR1 no Parquet")
    write(files / ".out.parquet.0011.chat-batch" / "questions.parquet", {SCOPE: b"scope"})
    ran = erase("--yes")
    assert (ran.code, str(files / "broken.parquet") in ran.json["not_reached"]) == (1, True)
    assert "Wait until its task has ended" in str(ran.json["not_reached"])
    assert sessions(files / "answers.parquet") == [OTHER]


def test_a_request_that_is_being_sent_stops_the_command(erase, files, fill):
    fill.attempt("r", "claimed", kind="chat", hours=0, details={"session_id": SESSION, "mode": "async"}, is_alive=True)
    ran = erase("--yes")
    assert (ran.code, "a task is sending a request of this person right now" in ran.err) == (2, True)
    assert sessions(files / "answers.parquet") == [SESSION, OTHER]
