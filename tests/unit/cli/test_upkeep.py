"""The commands forget, loads, prune and findings."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import ClaimOutcome, Ledger, rating_claim
from airflow_provider_assistant.ledger.schema import TABLES, documents, loads, metadata, ratings
from tests.unit.cli.conftest import rows
from tests.unit.ledger.single import chat_claim, chats, rated

LOAD = ("--key", "id")
CHANGED = ("1", "Refunds", "In six days.")


@pytest.fixture
def changed(connection, cli, faq):
    """Load twice: row 1 has superseded its document, rows 2 and 3 are stale. Return the findings file."""
    cli("load", faq, *LOAD)
    rows(faq, CHANGED)
    ran = cli("load", faq, *LOAD, "-o", "json")
    assert (ran.json["changed"], ran.json["stale"]) == (1, 2)
    return ran.json["findings"]


def listed(cli, faq):
    """Return the keys of the superseded documents and of the stale ones."""
    older = [one["label"] for one in cli("ledger", "superseded", "-o", "json").json]
    return older, sorted(one["label"] for one in cli("ledger", "stale", faq, *LOAD, "-o", "json").json)


def test_what_a_findings_file_lists_is_forgotten(cli, changed, faq, service):
    dry = cli("ledger", "forget", "--findings", changed, "--dry-run", "-o", "json")
    assert dry.json == {"documents": 2, "superseded": 1, "unknown": [], "dry_run": True}
    assert listed(cli, faq) == (["1"], ["2", "3"])
    ran = cli("ledger", "forget", "--findings", changed, "-o", "json")
    assert (ran.code, ran.json) == (0, {**dry.json, "dry_run": False})
    assert listed(cli, faq) == ([], [])
    sent = service.posts()
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 1
    assert service.posts() == sent
    again = cli("ledger", "forget", "--findings", changed)
    assert again.code == 1
    assert "Not in the ledger" in again.out


def test_documents_are_forgotten_by_id_and_by_key(cli, changed, faq):
    (older,) = cli("ledger", "superseded", "-o", "json").json
    two, three = cli("ledger", "stale", faq, *LOAD, "-o", "json").json
    with Ledger.open() as ledger, ledger.engine.connect() as database:
        key = database.scalar(sa.select(documents.c.key).where(documents.c.label == three["label"]))
    ran = cli("ledger", "forget", older["document_id"], two["document_id"], key[:12], "-o", "json")
    assert (ran.json["documents"], ran.json["superseded"]) == (2, 1)
    assert listed(cli, faq) == ([], [])


def test_a_forgotten_document_whose_row_is_still_there_is_created_again(cli, connection, faq, service):
    service.behave(allow_duplicates=True)
    cli("load", faq, *LOAD)
    gone = service.documents("acme-docs")[0]["id"]
    assert cli("ledger", "resolve", gone, "--as", "deleted").code == 0
    loaded = cli("load", faq, *LOAD, "-o", "json").json
    assert (loaded["created"], loaded["changed"], loaded["unchanged"]) == (1, 0, 2)


def test_a_deleted_document_leaves_the_ones_it_superseded(cli, changed, faq, service):
    service.behave(allow_duplicates=True)
    with Ledger.open() as ledger, ledger.engine.connect() as database:
        current = database.scalar(sa.select(documents.c.document_id).where(documents.c.label == "1"))
    assert cli("ledger", "forget", current).code == 0
    assert listed(cli, faq)[0] == ["1"]
    assert cli("load", faq, *LOAD, "-o", "json").json["created"] == 1
    assert listed(cli, faq)[0] == ["1"]


@pytest.mark.parametrize("names", [(), ("zz",), ("no-such-id",)])
def test_what_the_ledger_does_not_know_changes_nothing(cli, changed, faq, names):
    assert cli("ledger", "forget", *names).code == (1 if names else 2)
    assert listed(cli, faq) == (["1"], ["2", "3"])


def test_many_in_doubt_are_settled_with_the_findings_of_their_load(cli, connection, faq, service, tmp_path):
    service.answer("store-then-status:503", path="/documents/qa$", times=3)
    loaded = cli("load", faq, *LOAD, "-o", "json").json
    doubt = loaded["ambiguous"]
    assert doubt >= 1
    arguments = ("--findings", loaded["findings"], "--file", faq, *LOAD)
    ran = cli("ledger", "resolve", "--as", "created", *arguments, "-o", "json")
    assert (ran.code, len(ran.json)) == (0, doubt), ran.err
    sent = service.posts()
    assert cli("load", faq, *LOAD, "-o", "json").json["unchanged"] == 3
    assert service.posts() == sent


def test_findings_are_shown(cli, changed, tmp_path):
    ran = cli("findings", changed)
    assert ran.lines[0] == ["finding", "row", "key", "reason", "documents", "group"]
    assert sorted(line[0] for line in ran.lines[1:]) == ["stale", "stale", "superseded"]
    (only,) = cli("findings", changed, "--finding", "superseded", "-o", "json").json
    assert (only["key"], len(only["document_ids"])) == ("1", 1)
    (tmp_path / "letter.parquet").write_text("Dear aunt")
    for path in (tmp_path / "letter.parquet", tmp_path / "missing.parquet"):
        none = cli("findings", path)
        assert (none.code, "is not a findings file" in none.err) == (2, True)


def test_loads_of_the_command_line_are_listed_with_how_they_ended(cli, changed, connect, faq, service):
    cli("load", faq, *LOAD, "--dry-run")
    service.answer("status:400", path="/documents/qa$")
    rows(faq, CHANGED, ("4", "A", "B"))
    cli("load", faq, *LOAD)
    found = cli("ledger", "loads", "-o", "json").json
    assert [(one["outcome"], one["rows"], one["created"], one["stale"]) for one in found] == [
        ("failed", 2, 0, 2), ("succeeded", 1, 1, 2), ("succeeded", 3, 3, 0),
    ]  # fmt: skip
    assert "rejected" in found[0]["error"]
    assert {(one["dag_id"], one["source"]) for one in found} == {("airflow assistant", str(faq))}
    assert len(cli("ledger", "loads", "--limit", "1").lines) == 2
    assert cli("ledger", "loads", "--site", "acme-shop", "-o", "json").json == []


def age(days):
    """Move all entries of the ledger into the past."""
    then = datetime.now(UTC) - timedelta(days=days)
    with Ledger.open() as ledger, ledger.engine.begin() as database:
        for table in TABLES.values():
            database.execute(sa.update(table).values(claimed_at=then, recorded_at=then))
        database.execute(sa.update(loads).values(started_at=then))


@pytest.mark.usefixtures("connection")
def test_old_findings_are_pruned_in_the_configured_folder(cli, faq, tmp_path, monkeypatch):
    folder = tmp_path / "findings"
    monkeypatch.setenv("AIRFLOW__ASSISTANT__FINDINGS_FOLDER", folder.as_uri())
    cli("load", faq, *LOAD)
    rows(faq, CHANGED)
    written = cli("load", faq, *LOAD, "-o", "json").json["findings"]
    assert written.startswith(f"{folder.as_uri()}/command_line/")
    (file,) = folder.rglob("*.parquet")
    os.utime(file, (0, 0))
    (folder / "recent.parquet").touch()
    assert cli("ledger", "prune", "--older-than", "90", "-o", "json").json["findings_files"] == 1
    assert [path.name for path in folder.rglob("*.parquet")] == ["recent.parquet"]


def test_what_is_old_and_no_longer_stands_is_pruned(cli, changed, faq, service, ledger_home):
    with Ledger.open() as ledger, chats(ledger) as chat, rated(ledger) as rating:
        for outcome in ("created", "failed", "ambiguous"):
            claim = chat_claim(chat, outcome)
            chat.commit_and_claim([ClaimOutcome(claim, outcome, outcome)], ())
            claim = rating_claim("s", outcome, "good", None)
            rating.commit_and_claim([ClaimOutcome(claim, outcome, claim.key)], ())
    service.answer("status:400", path="/documents/qa$")
    rows(faq, CHANGED, ("4", "A", "B"))
    cli("load", faq, *LOAD)
    age(100)
    files = list((ledger_home / "assistant_loads").rglob("*.parquet"))
    for file in files:
        os.utime(file, (0, 0))
    (ledger_home / "assistant_loads" / "recent.parquet").touch()
    old = {"loads": 3, "chat_requests": 2, "ratings": 1, "documents": 1, "ids_of_ratings": 1}
    later = cli("ledger", "prune", "--older-than", "101", "--dry-run", "-o", "json").json
    assert {later[kind] for kind in old} == {0}
    for flags in (("--dry-run",), ()):
        ran = cli("ledger", "prune", "--older-than", "99", *flags, "-o", "json").json
        assert {kind: ran[kind] for kind in (*old, "findings_files")} == {**old, "findings_files": len(files)}
    assert not any(file.exists() for file in files)
    assert (ledger_home / "assistant_loads" / "recent.parquet").exists()
    rest = [(one["kind"], one["outcome"]) for one in cli("ledger", "status", "-o", "json").json["counts"]]
    assert rest == [
        ("document", "created"), ("chat_request", "ambiguous"), ("rating", "ambiguous"), ("rating", "created"),
        ("document", "superseded"),
    ]  # fmt: skip
    # The rating that was sent is known, and only its ids are gone.
    with Ledger.open() as ledger, rated(ledger) as rating:
        key = rating_claim("s", "created", "good", None).key
        assert rating.entries([key])[key].state == "created"
        row = ledger.read(lambda connection: connection.execute(sa.select(ratings).where(ratings.c.key == key)).one())
        assert (row.session_id, row.label) == ("", "")
        assert "created" not in row.request_id
    assert cli("ledger", "prune", "--older-than", "1", "-o", "json").json["ids_of_ratings"] == 0
    assert cli("ledger", "prune", "--older-than", "0").code == 2


@pytest.mark.promise("ledger", "A backup of the ledger is a private copy, and never replaces a file.")
def test_a_backup_is_a_private_copy_that_replaces_nothing(connection, cli, faq, tmp_path, monkeypatch):
    cli("load", faq, *LOAD)
    copy = tmp_path / "copy.db"
    ran = cli("ledger", "backup", copy, "-o", "json")
    assert (ran.code, ran.json["file"], ran.json["bytes"]) == (0, str(copy), copy.stat().st_size)
    assert not copy.stat().st_mode & 0o077
    assert list(tmp_path.glob("copy.db?*")) == []
    content = copy.read_bytes()
    again = cli("ledger", "backup", copy)
    assert (again.code, copy.read_bytes()) == (2, content)
    assert f"{copy} exists" in again.err
    monkeypatch.setenv("AIRFLOW_CONN_COPY", f"sqlite:///{copy}")
    counted = [
        cli("ledger", "status", "-o", "json", *named).json["counts"] for named in ((), ("--ledger-conn-id=copy",))
    ]
    assert counted[0] == counted[1] != []


def test_the_statements_that_create_the_tables_are_printed(cli):
    statements = cli("ledger", "ddl", "-o", "json").json
    assert cli("ledger", "ddl").out == "".join(f"{statement};\n" for statement in statements)
    for table in metadata.tables:
        assert any(statement.startswith(f"CREATE TABLE {table} (") for statement in statements)
