"""The command erase: what it refuses, what it cannot reach, and what it asks."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.chat_batch.requests import PendingRequest
from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, Ledger, rating_claim
from tests.unit.ledger.single import rated

SESSION, OTHER = "session-0001", "session-0002"


@pytest.fixture
def files(tmp_path):
    """A folder with an answer of each session."""
    folder = tmp_path / "files"
    rows = [{"session_id": session, "request_id": f"request-{session}", "n": 1} for session in (SESSION, OTHER)]
    lake.replace(pa.Table.from_pylist(rows), ObjectStoragePath(str(folder / "answers.parquet")))
    return folder


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


def test_what_is_not_reached_is_listed_and_the_rest_is_erased(erase, files, tmp_path):
    mail = f"about {SESSION}."
    (files / "note.txt").write_text(mail)
    (files / "of_somebody_else.txt").write_text(OTHER)
    (files / "broken.parquet").write_bytes(b"PAR1" + b"x" * 100)
    (files / "broken.json").write_text("{")
    (files / "other.db").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    (files / "lines.jsonl").write_text(f'{{"a": "{SESSION}"}}\n{{"a":  1.10}}\r\nnot JSON\n"\u2028"\n')
    (files / "data.csv").write_bytes(f'a,b\r\n"x\r\ny",{SESSION}\r\n"x\r\ny",{OTHER}\r\n\r\n'.encode())
    (files / "data.json").write_text(json.dumps({"a": [{"b": SESSION}, {"b": OTHER}]}))
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(f'"{SESSION}"\n1\n')
    (files / "link.jsonl").symlink_to(elsewhere)
    ran = erase("--yes")
    assert ran.code == 1
    names = {path.rpartition("/")[2] for path in ran.json["not_reached"]}
    assert names == {"note.txt", "broken.parquet", "broken.json", "other.db"}
    assert ran.json["counts"][str(files)] == {"rows": 4, "texts": 1}
    assert (files / "lines.jsonl").read_bytes() == '{"a":  1.10}\r\nnot JSON\n"\u2028"\n'.encode()
    assert (files / "data.csv").read_bytes() == f'a,b\r\n"x\r\ny",{OTHER}\r\n\r\n'.encode()
    assert json.loads((files / "data.json").read_text()) == {"a": [{"b": OTHER}]}
    assert elsewhere.read_text() == "1\n"
    assert (files / "link.jsonl").is_symlink()


def test_a_session_may_have_the_id_of_a_run(cli, tmp_path):
    run_id = "scheduled__2026-11-26T00:00:00+00:00"
    rows = [{"session_id": run_id, "run_id": run_id}, {"session_id": OTHER, "run_id": run_id}]
    file = tmp_path / run_id / f"{run_id}.parquet"
    lake.replace(pa.Table.from_pylist(rows), ObjectStoragePath(str(file)))
    assert cli("erase", "--session", run_id, "--path", tmp_path / run_id, "--yes").code == 0
    assert pq.ParquetFile(file).read().to_pylist() == rows[1:]


def test_a_batch_that_waits_for_the_person_stops_it(erase, files, ledger_home):
    state = BatchState(str(files / ".answers.parquet.00.chat-batch"))
    state.write_pending([pending(f"request-{OTHER}"), pending(f"request-{SESSION}")])
    trial = erase("--dry-run")
    assert (trial.code, trial.json["counts"][str(files)]) == (0, {"rows": 2})
    ran = erase("--yes")
    assert (ran.code, "may still wait" in ran.err, sessions(files)) == (2, True, [SESSION, OTHER])
    assert erase("--yes", "--force").code == 0
    audit = (ledger_home / "assistant_erasures.jsonl").read_text().splitlines()
    assert [json.loads(line)["counts"] for line in audit] == [None, {"ledger": {}, str(files): {"rows": 2}}]
    assert [request.request_id for request in state.read_open()] == [f"request-{OTHER}"]


def pending(request_id):
    values = dict.fromkeys(PendingRequest._fields, "x") | {"request_id": request_id}
    return PendingRequest(**values)


def test_a_task_that_is_sending_stops_it(erase, files):
    with Ledger.open() as ledger, rated(ledger) as rating:
        claim: Claim = rating_claim(SESSION, "request-9", "good", None)
        rating.commit_and_claim((), [claim])
        ran = erase("--yes")
        assert (ran.code, "is sending" in ran.err, sessions(files)) == (2, True, [SESSION, OTHER])
        rating.commit_and_claim([ClaimOutcome(claim, "created", claim.key)], ())
    ran = erase("--yes")
    assert (ran.code, ran.json["counts"]["ledger"]) == (0, {"entries": 1})
    assert ran.json["requests"] == 2


def test_an_iceberg_catalog_is_reached_by_its_connection(erase, tmp_path, monkeypatch):
    pytest.importorskip("pyiceberg")
    from airflow_provider_assistant.lake import iceberg

    extra = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/tables"}
    monkeypatch.setenv("AIRFLOW_CONN_ICE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    common = {"service": "h", "site_id": "docs", "sent_at": datetime(2026, 11, 26, tzinfo=UTC), "attempts": 1}
    rows = [{**common, "session_id": session, "request_id": session, "rating": "good"} for session in (SESSION, OTHER)]
    table = lake.rows_table(lake.FEEDBACK, rows)
    lake.publish(table, str(tmp_path / "lake"), "feedback", date(2026, 11, 26), "nightly.export")
    catalog = iceberg.open_catalog("ice", extra)
    iceberg.load(catalog, "assistant", str(tmp_path / "lake"), "feedback")
    ran = erase("--yes", "--iceberg-conn-id", "ice")
    assert (ran.code, ran.json["counts"]["iceberg"]) == (0, {"rows": 1})
    left = catalog.load_table("assistant.feedback").scan().to_arrow()["session_id"].to_pylist()
    assert left == [OTHER]


def test_what_a_task_writes_meanwhile_is_noticed(erase, files, monkeypatch):
    rows = pa.table({"session_id": [SESSION]})
    late = ObjectStoragePath(str(files / "late.parquet"))
    rewrite = lake.replace_bytes

    def replaced_and_written(content, target):
        with contextlib.suppress(FileExistsError):
            rewrite(content, target)
        lake.replace(rows, late)

    monkeypatch.setattr(lake, "replace_bytes", replaced_and_written)
    ran = erase("--yes")
    assert (ran.code, ran.json["remaining"]) == (1, {str(files): {"rows": 1}})
