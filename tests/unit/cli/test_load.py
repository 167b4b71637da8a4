"""The load command."""

from __future__ import annotations

import argparse
import json
import os

import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.cli.rows import source_name
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.ledger.schema import attempts
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.unit.cli.conftest import rows
from tests.wire import refusing_port

QA = "/documents/qa$"


@pytest.fixture(autouse=True)
def _connected(connection):
    pass


def recorded():
    with Ledger.open() as ledger:
        counts = ledger.read(queries.counts, Filter(), ("created", "draft", "rejected", "unresolved"))
    return {which: count for which, count in counts.items() if count}


def group_labels():
    with Ledger.open() as ledger:
        return set(ledger.read(lambda connection: connection.scalars(sa.select(attempts.c.group_name)).all()))


def counts(ran, *names):
    return tuple(ran.json[name] for name in names)


@pytest.mark.promise("command line", "A file that is loaded twice creates each document once.")
def test_every_row_once(cli, faq, service):
    first = cli("load", faq, "--key", "id", "-o", "json")
    second = cli("load", faq, "--key", "id", "-o", "json")
    assert (first.code, second.code) == (0, 0)
    assert counts(first, "rows", "created", "unchanged") == (3, 3, 0)
    assert counts(second, "rows", "created", "unchanged") == (3, 0, 3)
    assert service.posts(QA) == 3
    assert recorded() == {"created": 3}


def test_what_is_told_of_it(cli, faq):
    result = cli("load", faq, "--key", "id", "-o", "json").json
    assert {"dry_run": False, "site_id": "acme-docs", "source": str(faq), "findings": None, "error": None}.items() <= (
        result.items()
    )
    assert sorted(result["sent"]) == ["1", "2", "3"]
    assert cli("load", faq, "--key", "id").out == "site acme-docs: 3 rows: 0 created, 3 unchanged\n"


REPLACE = ("--on-change", "replace", "--on-missing", "delete")


def test_a_dry_run_says_what_a_load_removes(cli, connect, service, tmp_path):
    connect(manage_documents=True)
    path = tmp_path / "faq.csv"
    columns = ["id", "title", "question", "answer"]
    first = [(str(number), f"T{number}", f"Q{number}?", "Yes.") for number in range(6)]
    pd.DataFrame(first, columns=columns).to_csv(path, index=False)
    assert cli("load", path, "--key", "id", *REPLACE).code == 0
    # Two rows are gone, and one has changed.
    second = [*first[:3], ("3", "T3", "Q3?", "No.")]
    pd.DataFrame(second, columns=columns).to_csv(path, index=False)
    before = service.documents()
    told = cli("load", path, "--key", "id", *REPLACE, "--dry-run", "-o", "json")
    assert service.documents() == before
    done = cli("load", path, "--key", "id", *REPLACE, "-o", "json")
    names = ("created", "changed", "stale", "deleted", "not_removed")
    assert counts(told, *names) == counts(done, *names) == (1, 1, 2, 3, 0)
    assert sorted(document["content"] for document in service.documents()) == ["No.", "Yes.", "Yes.", "Yes."]
    assert cli("load", path, "--key", "id", *REPLACE).out.count("deleted") == 0


def test_removing_documents_needs_the_permission_of_the_connection(cli, faq, service):
    for options in (REPLACE, REPLACE[:2], REPLACE[2:]):
        ran = cli("load", faq, "--key", "id", *options)
        assert ran.code == 2
        assert "manage_documents" in ran.err
    assert not service.posts(QA)


def test_drafts_are_shown(cli, faq, service):
    service.behave(document_status="draft")
    ran = cli("load", faq, "--key", "id")
    assert ran.code == 0
    assert "3 created (3 of them not in use)" in ran.out
    assert [line[0] for line in ran.lines].count("draft") == 3
    assert "Activate these documents" in ran.err
    assert recorded() == {"created": 3, "draft": 3}
    (load,) = cli("ledger", "loads", "-o", "json").json
    assert (load["counts"]["created"], load["counts"]["drafts"]) == (3, 3)


@pytest.mark.promise("command line", "A command and a DAG do not create each other's documents again.")
def test_the_command_and_a_dag_know_what_the_other_has_loaded(cli, faq, run_operator, service):
    task = {"source": str(faq), "key_columns": "id", "source_name": str(faq)}
    cli("load", faq, "--key", "id")
    assert run_operator(AssistantLoadQAOperator, **task).xcom()["unchanged"] == 3
    rows(faq, ("1", "Refunds", "In five days."), ("4", "New", "Yes."))
    assert run_operator(AssistantLoadQAOperator, **task).xcom()["created"] == 1
    last = cli("load", faq, "--key", "id", "-o", "json")
    assert counts(last, "created", "unchanged", "stale") == (0, 2, 2)
    assert service.posts(QA) == 4


@pytest.mark.promise("command line", "A dry run sends nothing, and its counts are those of the load that follows.")
def test_a_dry_run_sends_nothing_and_says_what_a_load_then_does(cli, faq, service, ledger_home):
    cli("load", faq, "--key", "id")
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."), ("4", "New", "Yes."), ("5", "No", ""))
    before = (service.posts(), recorded())
    rehearsed = cli("load", faq, "--key", "id", "--dry-run", "-o", "json")
    assert (service.posts(), recorded()) == before
    assert not (ledger_home / "assistant_loads").exists()
    assert rehearsed.json["dry_run"] is True
    assert rehearsed.json["sent"] == ["1", "4"]
    loaded = cli("load", faq, "--key", "id", "-o", "json")
    same = ("rows", "created", "changed", "unchanged", "rejected", "stale", "failed", "ambiguous")
    assert counts(rehearsed, *same) == counts(loaded, *same) == (4, 2, 1, 1, 1, 1, 0, 0)
    assert rehearsed.code == loaded.code == 1
    kinds = [[one["kind"] for one in ran.json["listed"]] for ran in (rehearsed, loaded)]
    assert sorted(kinds[0]) == sorted(kinds[1]) == ["rejected", "stale", "superseded"]


def test_a_dry_run_leaves_the_groups_of_documents_as_they_are(cli, faq, service):
    cli("load", faq, "--key", "id")
    grouped = ("load", faq, "--key", "id", "--group", "title")
    assert cli(*grouped, "--dry-run").code == 0
    assert group_labels() == {None}
    assert cli(*grouped).code == 0
    assert len(group_labels() - {None}) == 3


def test_a_file_of_another_program_is_the_same_the_next_night(cli, tmp_path, service):
    path = tmp_path / "faq.csv"
    lines = ("exported today", '1|5" pipe|Q|\\N|A', "||||", "2|\\N|Q|c|A", "3|Größe|Q|c|A, B")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="cp1252")
    formats = ("delimiter=|", "quotechar=", "skip_lines=1", "null_texts=\\N")
    options = ("--encoding", "cp1252", *(word for one in formats for word in ("--csv-option", one)))
    header = ("--csv-option", "header=id,title,question,category,answer")
    command = ("load", path, *options, *header, "--key", "id", "-o", "json")
    for night in range(2):
        ran = cli(*command)
        assert ran.code == 1, ran.err
        assert counts(ran, "created", "unchanged", "rejected", "stale") == (2 - 2 * night, 2 * night, 1, 0)
        assert ran.json["left_out"] == 1
    documents = {document["title"]: document for document in service.documents("acme-docs")}
    assert {title: document["content"] for title, document in documents.items()} == {'5" pipe': "A", "Größe": "A, B"}
    assert documents['5" pipe']["category"] is None
    numbered = ("--column", "title=2", "--column", "question=3", "--column", "answer=5", "--column", "category=4")
    ran = cli("load", path, *options, "--csv-option", "header=none", *numbered, "--key", "1", "--dry-run", "-o", "json")
    assert counts(ran, "rows", "unchanged") == (3, 2)


def test_a_file_without_rows_may_be_allowed(cli, tmp_path):
    file = rows(tmp_path / "faq.csv")
    refused = cli("load", file)
    assert refused.code == 2
    assert "--allow-empty" in refused.err
    ran = cli("load", file, "--allow-empty", "-o", "json")
    assert (ran.code, counts(ran, "rows", "stale")) == (0, (0, None))


def test_a_dry_run_for_people(cli, faq):
    ran = cli("load", faq, "--key", "id", "--dry-run")
    assert ran.out == ("would send\n1\n2\n3\nDry run, nothing was sent; a load of site acme-docs: 3 rows: 3 created\n")


def test_rows_that_want_attention_are_listed(cli, tmp_path, ledger_home):
    file = rows(tmp_path / "faq.csv", ("1", "Refunds", "In five days."), ("2", "Hours", ""))
    ran = cli("load", file, "--key", "id")
    assert ran.code == 1
    assert ["rejected", "2", "2", f"{file}, line 3: column 'answer' is empty"] in ran.lines
    (path,) = (ledger_home / "assistant_loads").rglob("*.parquet")
    assert str(path) in ran.err
    assert pq.read_table(path)["kind"].to_pylist() == ["rejected"]
    there = cli("load", file, "--key", "id", "--findings", tmp_path / "findings.parquet", "-o", "json")
    assert there.json["findings"] == str(tmp_path / "findings.parquet")
    assert pq.read_table(tmp_path / "findings.parquet").num_rows == 1


def test_bad_rows_may_be_allowed(cli, tmp_path):
    file = rows(tmp_path / "faq.csv", ("1", "Refunds", "In five days."), ("2", "", "Nothing."))
    assert [cli("load", file, "--max-rejected", allowed).code for allowed in ("0.4", "0.5")] == [1, 0]


def test_names_that_differ_and_fields_for_all_rows(cli, tmp_path, service):
    (tmp_path / "faq.csv").write_text("headline,question,answer\nRefunds,When?,In five days.\n")
    ran = cli("load", tmp_path / "faq.csv", "--column", "title=headline", "--constant", "category=a=b")
    assert ran.code == 0
    assert service.documents("acme-docs")[0]["category"] == "a=b"


def test_texts(cli, tmp_path, service):
    (tmp_path / "a.jsonl").write_text('{"title": "T", "content": "C", "category": "c"}\n')
    assert cli("load", tmp_path / "a.jsonl", "--kind", "text").code == 0
    assert service.posts("/documents/text$") == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--column", "title"], "--column must look like NAME=VALUE"),
        (["--constant", "=x"], "--constant must look like NAME=VALUE"),
        (["--column", "title=a", "--column", "title=b"], "names title twice"),
        (["--column", "nonsense=a"], "nonsense"),
        (["--key", "nowhere"], "faq.csv' has no column nowhere"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_sent(cli, faq, service, wrong, said):
    ran = cli("load", faq, *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert service.posts() == 0


def test_a_wrong_key_stops_it_and_the_counts_still_add_up(cli, connect, faq):
    connect(key="wrong-key-123")
    ran = cli("load", faq, "-o", "json")
    assert ran.code == 3
    assert counts(ran, "rows", "created", "failed") == (3, 0, 3)
    assert ran.json["error"]
    _limits, safe, error = ran.err.splitlines()
    assert safe.startswith("This try created 0 of 3 rows. 3 rows are left")
    assert error.startswith("error: ")


def test_rows_in_doubt_are_an_exit_code(cli, faq, service):
    service.behave(allow_duplicates=True)
    service.answer("store-then-status:503", path=QA)
    ran = cli("load", faq, "--key", "id", "-o", "json")
    assert ran.code == 1
    assert counts(ran, "created", "ambiguous") == (2, 1)
    assert cli("load", faq, "--key", "id", "--on-ambiguous", "skip").code == 0
    again = cli("load", faq, "--key", "id", "-o", "json")
    assert again.code == 0
    assert counts(again, "created", "possibly_duplicated") == (1, 1)
    assert len(service.documents("acme-docs")) == 4


def test_a_few_rows_at_a_service_that_fails_have_its_reason_and_exit_code(cli, faq, service, tmp_path, monkeypatch):
    # The first load ends with nothing created, the second one with two of three rows.
    for times, code in ((None, 4), (1, 1)):
        service.server.service.faults.rules.clear()
        service.answer("status:503", path=QA, times=times)
        ran = cli("load", faq, "--key", "id", "-o", "json")
        assert ran.code == code
        assert "503" in ran.err
    with refusing_port() as port:
        settings = json.loads(os.environ["AIRFLOW_CONN_ASSISTANT_DEFAULT"])
        settings.update(host=f"http://127.0.0.1:{port}", port=None)
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(settings))
        other = rows(tmp_path / "other.csv", ("1", "A", "a"), ("2", "B", "b"), ("3", "C", "c"))
        ran = cli("load", other, "-o", "json")
        assert (ran.code, counts(ran, "rows", "failed")) == (4, (3, 3))
        assert "Connection refused" in ran.err
        assert "the base URL in the Airflow connection, with its port" in ran.err


def test_another_site(cli, faq, service):
    cli("load", faq, "--site", "acme-shop")
    assert len(service.documents("acme-shop")) == 3


def test_files_of_the_same_name_are_two_sources(cli, tmp_path, service, monkeypatch):
    service.behave(allow_duplicates=True)
    german, english = tmp_path / "de" / "faq.csv", tmp_path / "en" / "faq.csv"
    for file in (german, english):
        file.parent.mkdir()
        name = file.parent.name
        rows(file, *((f"{name}{number}", f"T{number}", f"In {name}.") for number in range(3)))
    monkeypatch.chdir(tmp_path)
    names = [cli("load", f"{file}/faq.csv", "--key", "id", "-o", "json").json["source"] for file in ("de", "./en")]
    assert names == [str(german), str(english)]
    for file in (german, f"file://{german}", "de/../de/faq.csv"):
        last = cli("load", file, "--key", "id", "-o", "json")
        assert counts(last, "unchanged", "stale") == (3, 0)
    monkeypatch.chdir(english.parent)
    rows(english, ("en1", "T1", "In en."))
    last = cli("load", "faq.csv", "--key", "id", "-o", "json")
    assert counts(last, "unchanged", "stale") == (1, 2)
    assert cli("ledger", "list", "--state", "stale").code == 1
    assert service.posts() == 6


def test_a_file_that_was_moved_does_not_create_its_documents_again(cli, faq, service):
    """Its documents are those of both names, until its content changes: then it must have one name."""
    cli("load", faq, "--key", "id", "--source-name", "faq.csv")
    ran = cli("load", faq, "--key", "id", "-o", "json")
    assert counts(ran, "unchanged", "stale") == (3, 0)
    assert "If this load was renamed, set source_name='faq.csv'" in ran.err
    assert "renamed" not in cli("load", faq, "--key", "id").err


def test_changed_rows_of_a_file_that_was_moved_are_refused(cli, faq, service):
    cli("load", faq, "--key", "id", "--source-name", "faq.csv")
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."))
    ran = cli("load", faq, "--key", "id")
    assert (ran.code, service.posts()) == (2, 3)
    assert "1 key of another source" in ran.err
    assert "source_name='faq.csv' (--source-name)" in ran.err


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
