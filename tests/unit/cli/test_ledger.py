"""The ledger commands: listing entries, and recording the outcome of ambiguous ones."""

from __future__ import annotations

import contextlib
import os
from typing import get_args

import pytest

from airflow_provider_assistant.cli.arguments import LISTS
from airflow_provider_assistant.ledger import Claim, DocumentScope, Ledger, RunRef, service_of
from airflow_provider_assistant.ledger.settling import Which
from airflow_provider_assistant.loading.fingerprints import encoded, hash_of
from tests.sites import site_at
from tests.unit.cli.conftest import rows

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
LOAD = ("--key", "id")


@pytest.fixture
def in_doubt(connection, cli, faq, service):
    """One of three rows is ambiguous, and its document exists on the site."""
    service.answer("store-then-status:503", path="/documents/qa$")
    assert cli("load", faq, *LOAD).code == 1
    (entry,) = cli("ledger", "ambiguous", "-o", "json").json
    return entry


@contextlib.contextmanager
def claimed(service, key="9"):
    """Claim a row; the task lives until the end of the block, and does not record the outcome."""
    with (
        Ledger.open() as ledger,
        ledger.documents(
            scope=DocumentScope(site_at(f"{service.url}/m2m/sites/acme-docs", "acme-docs"), "documents/qa"),
            source="d.t",
            run=RunRef("d", "r", "t", -1),
        ) as memory,
    ):
        assert memory.commit_and_claim((), [Claim(hash_of(encoded((key,))), key, None)])
        yield


def test_an_empty_ledger(cli):
    assert cli("ledger", "status", "-o", "json").json["counts"] == []
    assert cli("ledger", "ambiguous").out == "Nothing is ambiguous.\n"
    assert cli("ledger", "superseded").out == "Nothing is superseded.\n"


def test_status_counts_by_kind_site_and_outcome(cli, in_doubt, ledger_home):
    status = cli("ledger", "status", "-o", "json").json
    assert status["ledger"] == f"sqlite:///{ledger_home}/assistant_ledger.db"
    assert {(one["kind"], one["site_id"], one["outcome"], one["entries"]) for one in status["counts"]} == {
        ("document", "acme-docs", "created", 2),
        ("document", "acme-docs", "ambiguous", 1),
        ("load", "acme-docs", "failed", 1),
    }
    assert cli("ledger", "status", "--site", "acme-shop", "-o", "json").json["counts"] == []


def test_a_service_gets_another_name(cli, connection, faq, service, monkeypatch):
    """The load stops at the other address, the command of its message moves the entries, and nothing is sent twice."""
    cli("load", faq, *LOAD)
    other = service.url.replace("127.0.0.1", "localhost")
    at_other = os.environ[CONN].replace(service.url, other)
    monkeypatch.setenv(CONN, at_other)
    stopped = cli("load", faq, *LOAD)
    assert (stopped.code, service.posts()) == (2, 3)
    command = f"ledger move {service_of(service.url)} {service_of(other)}"
    assert command in stopped.err
    would_move = f"Would move to service {service_of(other)!r}: 3 documents, 1 load.\n"
    assert would_move in cli(*command.split(), "--dry-run").out
    assert cli(*command.split(), "-o", "json").json["document"] == 3
    assert cli("load", faq, *LOAD).code == 0
    assert service.posts() == 3
    (site,) = cli("ledger", "status", "-o", "json").json["sites"]
    assert site["service"] == service_of(other)
    assert len(site["addresses"]) == 2
    assert cli(*command.split()).code == 2
    assert cli("ledger", "move", "a", " ").code == 2


def test_a_ledger_on_a_server_does_not_show_its_password(cli, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "ledger_db")
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER_DB", "postgresql://me:sesame-1234@127.0.0.1:1/none")
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    ran = cli("ledger", "status")
    assert (ran.code, ran.out) == (5, "")
    assert "sesame" not in ran.err


def test_what_is_in_doubt_is_listed(cli, in_doubt, faq):
    ran = cli("ledger", "ambiguous")
    assert ran.code == 1
    assert ran.lines[1][:6] == [
        in_doubt["key"][:12],
        "document",
        "acme-docs",
        str(faq),
        in_doubt["label"],
        "ambiguous",
    ]
    assert "503" in in_doubt["error"]
    assert cli("ledger", "ambiguous", "--site", "acme-shop").code == 0


@pytest.mark.promise(
    "command line",
    "A list is settled as a whole only after it was shown, and only if it has not changed.",
)
def test_all_of_a_list_are_settled_after_one_look(cli, connection, faq, service):
    service.answer("store-then-status:503", path="/documents/qa$", times=3)
    cli("load", faq, *LOAD)
    assert len(cli("ledger", "ambiguous", "-o", "json").json) == 3
    assert len(cli("ledger", "ambiguous", "--contains", "2", "-o", "json").json) == 1
    command = ("ledger", "resolve", "--all", "ambiguous", "--as", "created", "--source-name", faq)
    shown = cli(*command, "-o", "json")
    assert (shown.code, shown.json["entries"], shown.json["changed"]) == (1, 3, False)
    assert len(cli("ledger", "ambiguous", "-o", "json").json) == 3
    assert cli(*command, "--contains", "2", "--confirm", shown.json["confirm"]).code == 2
    text = cli(*command)
    assert "3 entries would be settled as created on site 'acme-docs'" in text.out
    done = cli(*command, "--confirm", text.err.split()[-1])
    assert (done.code, "3 entries were settled" in done.out) == (0, True)
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 3
    assert cli(*command).code == 0
    # The ledger does not know the document of the first content, so that it lists that of the second one.
    for days in ("six", "seven"):
        rows(faq, ("1", "Refunds", f"In {days} days."), ("3", "A", "B"))
        cli("load", faq, *LOAD)
    for which in ("superseded", "stale"):
        settled = ("ledger", "resolve", "--all", which, "--as", "deleted", "-o", "json")
        shown = cli(*settled).json
        assert (shown["entries"], shown["labels"]) == (1, ["1" if which == "superseded" else "2"])
        assert cli(*settled, "--confirm", shown["confirm"]).json["changed"] is True
        assert cli(*settled).json["entries"] == 0
    assert cli("ledger", "resolve", "1", "--all", "stale", "--as", "deleted").code == 2
    assert cli("ledger", "resolve", "--all", "stale", "--as", "created").code == 2


def test_the_lists_are_those_that_can_be_settled():
    assert get_args(Which) == LISTS


@pytest.mark.promise("command line", "A row that a person settles as created is not sent again.")
def test_done_by_hand_is_not_sent_again(cli, in_doubt, faq, service):
    sent = service.posts()
    ran = cli("ledger", "resolve", in_doubt["key"][:8], "--as", "created", "--id", "doc_1", "--file", faq, *LOAD)
    assert ran.code == 0, ran.err
    assert cli("ledger", "ambiguous").code == 0
    loaded = cli("load", faq, *LOAD, "-o", "json")
    assert (loaded.code, loaded.json["unchanged"], service.posts()) == (0, 3, sent)


def test_a_refused_change_leaves_the_older_document(cli, connection, faq, service):
    cli("load", faq, *LOAD)
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."), ("3", "A", "B"))
    service.answer("status:503", path="/documents/qa$")
    cli("load", faq, *LOAD)
    cli("ledger", "resolve", hash_of(encoded(("1",))), "--as", "not-created")
    rows(faq, ("1", "Refunds", "In five days."), ("2", "Hours", "Nine to five."), ("3", "A", "B"))
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 3


def test_a_change_that_is_done_supersedes_the_older_document(cli, connection, faq, service):
    cli("load", faq, *LOAD)
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."), ("3", "A", "B"))
    service.answer("store-then-status:503", path="/documents/qa$")
    cli("load", faq, *LOAD)
    cli("ledger", "resolve", hash_of(encoded(("1",))), "--as", "created", "--id", "doc_new", "--file", faq, *LOAD)
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 3
    (found,) = cli("ledger", "superseded", "-o", "json").json
    assert found["label"] == "1"
    assert found["document_id"] in {document["id"] for document in service.documents("acme-docs")}


def test_the_ledger_knows_the_content_that_was_sent(cli, in_doubt, faq):
    ran = cli("ledger", "resolve", in_doubt["key"], "--as", "created", "--id", "doc_1")
    assert ran.code == 0, ran.err
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 3
    rows(faq, ("1", "Refunds", "In six days."), ("2", "Hours", "Nine to five."), ("3", "A", "B"))
    assert cli("load", faq, *LOAD, "-o", "json").json["changed"] == 1


def test_a_claim_of_a_killed_task_needs_the_content(cli, connection, service):
    with claimed(service):
        (entry,) = cli("ledger", "ambiguous", "-o", "json").json
    without = cli("ledger", "resolve", entry["key"], "--as", "created")
    assert without.code == 2
    assert "--file" in without.err
    assert cli("ledger", "ambiguous").code == 1


def test_done_needs_a_row_of_the_file(cli, in_doubt, faq):
    other = cli("ledger", "resolve", in_doubt["key"], "--as", "created", "--file", faq, "--key", "title")
    assert other.code == 2
    assert "no row with the key" in other.err
    assert cli("ledger", "ambiguous").code == 1


def test_an_uploaded_file_is_done_by_its_content(cli, connection, tmp_path, run_operator, service):
    from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator

    (tmp_path / "guide.txt").write_text("# Guide")
    service.answer("store-then-status:503", path="/documents$")
    run_operator(AssistantUploadFilesOperator, files=str(tmp_path / "guide.txt"))
    (entry,) = cli("ledger", "ambiguous", "-o", "json").json
    ran = cli("ledger", "resolve", entry["key"], "--as", "created", "--file", tmp_path / "guide.txt")
    assert ran.code == 0, ran.err
    again = run_operator(AssistantUploadFilesOperator, files=str(tmp_path / "guide.txt"))
    assert again.xcom()["unchanged"] == 1


def test_a_key_that_fits_none_or_several_entries(cli, in_doubt, service):
    with claimed(service):
        pass
    none = cli("ledger", "resolve", "zz", "--as", "not-created")
    assert (none.code, "no entry" in none.err) == (2, True)
    # An id is that of one document.
    assert cli("ledger", "resolve", in_doubt["key"], "zz", "--as", "created", "--id", "x").code == 2
    several = cli("ledger", "resolve", "", "--as", "not-created")
    assert (several.code, "2 entries" in several.err) == (2, True)


def test_what_may_be_under_way_is_left_alone(cli, connection, service):
    with claimed(service):
        (entry,) = cli("ledger", "ambiguous", "-o", "json").json
        assert (entry["outcome"], entry["may_be_under_way"]) == ("claimed", True)
        assert cli("ledger", "ambiguous").lines[1][5] == "under way?"
        ran = cli("ledger", "resolve", entry["key"], "--as", "not-created")
        assert ran.code == 2
        assert "--force" in ran.err
        assert cli("ledger", "resolve", entry["key"], "--as", "not-created", "--force").code == 0


def test_rows_that_the_file_no_longer_has_are_stale(cli, connection, faq):
    cli("load", faq, *LOAD)
    rows(faq, ("1", "Refunds", "In five days."))
    ran = cli("ledger", "stale", faq, *LOAD, "-o", "json")
    assert ran.code == 1
    assert {(one["label"], one["group"]) for one in ran.json} == {("2", None), ("3", None)}
    other = cli("ledger", "stale", faq, *LOAD, "--source-name", "other")
    assert (other.code, "no documents of source 'other'" in other.err) == (2, True)
    assert cli("ledger", "superseded").code == 0


def test_a_file_with_unreadable_rows_does_not_say_what_is_stale(cli, connection, faq):
    cli("load", faq, *LOAD)
    rows(faq, ("1", "Refunds", "In five days."), (" ", "Hours", "?"), ("\t", "Hours", "!"))
    ran = cli("ledger", "stale", faq, *LOAD)
    assert (ran.code, "2 rows without a key" in ran.err) == (2, True)
    rows(faq, ("1", "Refunds", "In five days."), (" ", " ", "?"))
    ran = cli("ledger", "stale", faq, *LOAD, "--group", "title")
    assert (ran.code, "1 row without a key" in ran.err) == (2, True)


GROUPED = (*LOAD, "--group", "title")


def test_stale_rows_of_the_groups_in_the_file(cli, connection, faq):
    before = (("1", "Refunds", "In five days."), ("2", "Refunds", "In cash."), ("3", "Hours", "Nine to five."))
    rows(faq, *before)
    assert cli("load", faq, *GROUPED).code == 0
    rows(faq, before[0])
    (ran,) = cli("ledger", "stale", faq, *GROUPED, "-o", "json").json
    assert (ran["label"], ran["group"], ran["source"]) == ("2", "Refunds", str(faq))
    assert cli("ledger", "stale", faq, *GROUPED).lines[0] == ["site", "source", "label", "document", "group"]
    assert {one["label"]: one["group"] for one in cli("ledger", "stale", faq, *LOAD, "-o", "json").json} == {
        "2": "Refunds",
        "3": "Hours",
    }
    done = cli("load", faq, *GROUPED, "--on-missing", "group", "-o", "json").json
    assert [(one["kind"], one["key"], one["group"]) for one in done["listed"]] == [("stale", "2", "Refunds")]
    assert cli("findings", done["findings"]).lines[-1][-1] == "Refunds"


def test_all_documents_of_groups_that_are_gone(cli, connection, faq, tmp_path):
    """Also one whose key is the name of its group."""
    rows(faq, ("1", "Refunds", "In five days."), ("Hours", "Hours", "Nine to five."), ("3", "Hours", "On Sundays."))
    cli("load", faq, *GROUPED)
    gone = tmp_path / "gone.csv"
    gone.write_text("title\nHours\nUnknown\n")
    gone.write_text("title\nHours\nUnknown\n\xff\n", encoding="latin-1")
    ran = cli("ledger", "stale", gone, *GROUPED, "--gone", "--source-name", str(faq), "-o", "json")
    assert (ran.code, "line 4: column 'title' is not text" in ran.err) == (2, True)
    gone.write_text("title\nHours\nUnknown\n")
    ran = cli("ledger", "stale", gone, *GROUPED, "--gone", "--source-name", str(faq), "-o", "json")
    assert {one["label"] for one in ran.json} == {"3", "Hours"}


@pytest.mark.parametrize("command", [("load", "--on-missing", "group"), ("ledger", "stale", "--gone")])
def test_groups_need_a_column(command, cli, connection, faq):
    ran = cli(*command, faq, *LOAD)
    assert (ran.code, "needs --group COLUMN" in ran.err) == (2, True)
