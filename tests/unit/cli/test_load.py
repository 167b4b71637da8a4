"""The load command: what it shares with the load operator, and what it shows."""

from __future__ import annotations

import argparse
import json

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.cli.rows import source_name
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.unit.cli.conftest import rows
from tests.wire import refusing_port

QA = "/documents/qa$"
REPLACE = ("--on-change", "replace", "--on-missing", "delete")


@pytest.fixture(autouse=True)
def _connected(connection):
    pass


@pytest.fixture
def load(cli, faq):
    """Return a function that loads the file of three rows."""
    return lambda *argv, file=faq: cli("load", file, "--key", "id", "-o", "json", *argv)


def counts(ran, *names):
    return tuple(ran.json[name] for name in names)


@pytest.mark.promise("command line", "A command and a DAG do not create each other's documents again.")
def test_the_command_and_a_dag_know_what_the_other_has_loaded(load, faq, run_operator, service):
    task = {"source": str(faq), "key_columns": "id", "source_name": str(faq)}
    first = load()
    assert (first.code, counts(first, "rows", "created", "site_id", "source")) == (0, (3, 3, "acme-docs", str(faq)))
    assert sorted(first.json["sent"]) == ["1", "2", "3"]
    assert run_operator(AssistantLoadQAOperator, **task).xcom()["unchanged"] == 3
    rows(faq, ("1", "Refunds", "In five days."), ("4", "New", "Yes."))
    assert run_operator(AssistantLoadQAOperator, **task).xcom()["created"] == 1
    assert counts(load(), "created", "unchanged", "stale") == (0, 2, 2)
    assert service.posts(QA) == 4
    assert load("-o", "table").out.splitlines()[-1] == "site acme-docs: 2 rows: 0 created, 2 unchanged (2 stale)"


@pytest.mark.promise("command line", "A dry run sends nothing, and its counts are those of the load that follows.")
def test_a_dry_run_sends_nothing_and_says_what_a_load_then_does(load, connect, faq, service, ledger_home):
    connect(manage_documents=True)
    load()
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."), ("4", "New", "Yes."), ("5", "No", ""))
    before = (service.posts(), service.documents())
    planned = load(*REPLACE, "--dry-run")
    shown = load(*REPLACE, "--dry-run", "-o", "plain").lines
    assert (service.posts(), service.documents()) == before
    assert not (ledger_home / "assistant_loads").exists()
    loaded = load(*REPLACE)
    names = ("rows", "created", "changed", "unchanged", "rejected", "stale", "deleted", "failed", "ambiguous", "sent")
    assert counts(planned, *names) == counts(loaded, *names)
    assert counts(planned, "dry_run", "sent", "deleted") == (True, ["1", "4"], 2)
    assert planned.code == loaded.code == 1
    assert planned.err.splitlines()[-1].startswith("error: 1 row was rejected, more than max_rejected=0 allows")
    assert ("are loaded" in planned.err, "are loaded" in loaded.err) == (False, True)
    kinds = [sorted(one["kind"] for one in ran.json["listed"]) for ran in (planned, loaded)]
    assert kinds[0] == kinds[1]
    assert shown[-4:-1] == [["would send"], ["1"], ["4"]]


def test_a_file_of_another_program_is_the_same_the_next_night(cli, tmp_path, service):
    path = tmp_path / "faq.csv"
    lines = ("exported today", '1|5" pipe|Q|\\N|A', "||||", "2|\\N|Q|c|A", "3|Größe|Q|c|A, B")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="cp1252")
    formats = ("delimiter=|", "quotechar=", "skip_lines=1", "null_texts=\\N")
    options = ("--encoding", "cp1252", *(word for one in formats for word in ("--csv-option", one)), "-o", "json")
    header = ("--csv-option", "header=id,title,question,category,answer", "--key", "id")
    for night in range(2):
        ran = cli("load", path, *options, *header)
        assert ran.code == 1, ran.err
        assert counts(ran, "created", "unchanged", "rejected", "left_out") == (2 - 2 * night, 2 * night, 1, 1)
    contents = {document["title"]: (document["content"], document["category"]) for document in service.documents()}
    assert contents == {'5" pipe': ("A", None), "Größe": ("A, B", "c")}
    numbered = ("--column", "title=2", "--column", "question=3", "--column", "answer=5", "--column", "category=4")
    ran = cli("load", path, *options, "--csv-option", "header=none", *numbered, "--key", "1", "--dry-run")
    assert counts(ran, "rows", "unchanged") == (3, 2)


def test_options_are_those_of_the_operator(load, cli, tmp_path, service):
    empty = rows(tmp_path / "empty.csv")
    refused = load(file=empty)
    assert (refused.code, "--allow-empty" in refused.err) == (2, True)
    ran = load("--allow-empty", file=empty)
    assert (ran.code, counts(ran, "rows", "stale")) == (0, (0, None))
    bad = rows(tmp_path / "bad.csv", ("1", "Refunds", "In five days."), ("2", "", "Nothing."))
    assert [load("--max-rejected", allowed, file=bad).code for allowed in ("0.4", "0.5")] == [1, 0]
    (tmp_path / "other.csv").write_text("headline,question,answer\nReturns,When?,In five days.\n")
    assert cli("load", tmp_path / "other.csv", "--column", "title=headline", "--constant", "category=a=b").code == 0
    assert service.documents()[-1]["category"] == "a=b"
    (tmp_path / "a.jsonl").write_text('{"title": "T", "content": "C", "category": "c"}\n')
    assert cli("load", tmp_path / "a.jsonl", "--kind", "text", "--site", "acme-shop").code == 0
    assert len(service.documents("acme-shop")) == 1


@pytest.mark.promise("command line", "A load shows its first findings, and where all of them are.")
def test_findings_are_shown(load, cli, tmp_path, ledger_home, service):
    file = rows(tmp_path / "faq.csv", ("1", "Refunds", "In five days."), ("2", "Hours", ""))
    service.behave(document_status="draft")
    ran = load("-o", "plain", file=file)
    assert (ran.code, "Activate these documents" in ran.err, "warning: Row" in ran.err) == (1, True, False)
    assert ["rejected", "2", "2", f"{file}, line 3: column 'answer' is empty"] in ran.lines
    assert [line[0] for line in ran.lines].count("draft") == 1
    (path,) = (ledger_home / "assistant_loads").rglob("*.parquet")
    assert str(path) in ran.err
    assert sorted(pq.read_table(path)["kind"].to_pylist()) == ["draft", "rejected"]
    there = load("--findings", tmp_path / "findings.parquet", file=file)
    assert there.json["findings"] == str(tmp_path / "findings.parquet")
    (finding,) = cli("findings", tmp_path / "findings.parquet", "-o", "json").json
    assert (finding["kind"], finding["key"]) == ("rejected", "2")


def test_a_findings_file_is_shown(cli, tmp_path):
    path = tmp_path / "findings.parquet"
    with FindingsFile(path) as file:
        file.add(Finding("stale", "2", "no longer in the source", document_ids=["doc-2"], group="Refunds"))
        file.add(Finding("superseded", "1", "its content has changed", row=1, document_ids=["doc-1", "doc-3"]))
    assert cli("findings", path, "-o", "plain").lines == [
        ["kind", "row", "key", "reason", "document_ids", "group"],
        ["stale", "", "2", "no longer in the source", "doc-2", "Refunds"],
        ["superseded", "1", "1", "its content has changed", "doc-1, doc-3", ""],
    ]
    (only,) = cli("findings", path, "--finding", "superseded", "-o", "json").json
    assert (only["key"], only["document_ids"]) == ("1", ["doc-1", "doc-3"])
    (tmp_path / "letter.parquet").write_text("Dear aunt")
    for other in ("letter.parquet", "missing.parquet"):
        ran = cli("findings", tmp_path / other)
        assert (ran.code, "is not a findings file" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--column", "title"], "--column must look like NAME=VALUE"),
        (["--constant", "=x"], "--constant must look like NAME=VALUE"),
        (["--column", "title=a", "--column", "title=b"], "names title twice"),
        (["--column", "nonsense=a"], "nonsense"),
        (["--key", "nowhere"], "faq.csv' has no column nowhere"),
        (["--missing-in", "groups"], "needs --group COLUMN"),
        (["--findings", "nosuch://findings.parquet"], "nosuch://"),
        (REPLACE, "manage_documents"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(load, service, wrong, message):
    ran = load(*wrong)
    assert (ran.code, ran.out, message in ran.err) == (2, "", True)
    assert service.posts() == 0


@pytest.mark.parametrize("file", ["nosuch://faq.csv", "gs://bucket/faq.csv"])
def test_a_url_that_no_package_reads_is_refused(load, service, file):
    ran = load(file=file)
    assert (ran.code, "://" in ran.err, service.posts()) == (2, True, 0)


@pytest.mark.promise(
    "command line", "A load that could not run is exit code 2, one that left rows is 1, and its counts add up."
)
def test_a_load_that_could_not_run_and_one_that_left_rows(load, connect, service, monkeypatch):
    connect(key="wrong-key-123")
    ran = load()
    assert (ran.code, counts(ran, "rows", "created", "failed")) == (2, (3, 0, 3))
    assert "401" in ran.json["error"]
    progress, error = ran.err.splitlines()[-2:]
    assert progress.startswith("This try created 0 of 3 rows. 3 rows are left")
    assert error.startswith("error: ")
    with refusing_port() as port:
        fields = json.loads(service.server.conn_json(retries=0)) | {"host": f"http://127.0.0.1:{port}", "port": None}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        ran = load()
    assert (ran.code, counts(ran, "rows", "failed"), "Connection refused" in ran.err) == (2, (3, 3), True)
    # The first load ends with nothing created, the second one with two of three rows.
    connect(retries=0)
    for times, code in ((None, 2), (1, 1)):
        service.server.service.faults.rules.clear()
        service.answer("status:503", path=QA, times=times)
        ran = load()
        assert (ran.code, "503" in ran.err, "503" in ran.json["error"]) == (code, True, True)
    assert counts(ran, "created", "ambiguous", "failed") in {(2, 1, 0), (2, 0, 1)}
    assert load("--on-ambiguous", "skip").code == 0


@pytest.mark.promise("command line", "Files of the same name in two folders are two sources, however they are spelled.")
def test_files_of_the_same_name_are_two_sources(load, tmp_path, service, monkeypatch):
    service.behave(allow_duplicates=True)
    german, english = tmp_path / "de" / "faq.csv", tmp_path / "en" / "faq.csv"
    for file in (german, english):
        file.parent.mkdir()
        name = file.parent.name
        rows(file, *((f"{name}{number}", f"T{number}", f"In {name}.") for number in range(3)))
    monkeypatch.chdir(tmp_path)
    names = [load(file=f"{folder}/faq.csv").json["source"] for folder in ("de", "./en")]
    assert names == [str(german), str(english)]
    for file in (german, f"file://{german}", "de/../de/faq.csv"):
        assert counts(load(file=file), "unchanged", "stale") == (3, 0)
    assert service.posts() == 6


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("s3://bucket/de/faq.csv", "s3://bucket/de/faq.csv"),
        ("s3://my_aws@bucket/de/", "s3://bucket/de"),
        ("sftp://user:secret@host/a@b/*.csv", "sftp://host/a@b/*.csv"),
        ("file:///data/faq.csv", "/data/faq.csv"),
        ("/data//faq/", "/data/faq"),
        ("/", "/"),
    ],
)
def test_names_of_sources(file, name):
    assert source_name(argparse.Namespace(file=file, source_name=None)) == name
