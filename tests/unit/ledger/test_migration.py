"""A ledger of an older version is migrated without loss of entries."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import (
    SCHEMA_VERSION,
    BatchLedger,
    Claim,
    End,
    Ledger,
    RunRef,
    Settlement,
    ratings,
    requests_between,
    sqlite_engine,
)
from tests.threads import at_once
from tests.unit.ledger.versions import VERSION_1, VERSION_2, VERSION_3, VERSION_4, version_3_questions

RUN = RunRef("dag", "run", "task", -1)


def ledger_of(path, script):
    with sqlite3.connect(path) as raw:
        raw.executescript(script)
    return path


@pytest.fixture
def old(tmp_path):
    return ledger_of(tmp_path / "ledger.db", VERSION_1)


@pytest.fixture
def second(tmp_path):
    return ledger_of(tmp_path / "ledger.db", VERSION_2)


def columns(path):
    """Return the columns of every table in SQLite."""
    with sqlite3.connect(path) as raw:
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [column[1:] for column in raw.execute(f"PRAGMA table_info({name})")] for name in tables}


def indexes(path):
    """Return the indexes other than those of primary keys."""
    with sqlite3.connect(path) as raw:
        found = raw.execute("SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        return sorted(found.fetchall())


def test_version_4_keeps_all_that_it_has(tmp_path):
    path = ledger_of(tmp_path / "ledger.db", VERSION_4)
    with sqlite3.connect(path) as raw:
        raw.row_factory = sqlite3.Row
        names = [name for name in columns(path) if name != "assistant_ledger_schema"]
        before = {name: [dict(row) for row in raw.execute(f"SELECT * FROM {name}")] for name in names}
        assert all(before.values())
        Ledger(sqlite_engine(path)).close()
        after = {name: [dict(row) for row in raw.execute(f"SELECT * FROM {name}")] for name in names}
    assert after == {name: [{**row, "region": None} for row in rows] for name, rows in before.items()}
    with Ledger(sqlite_engine(path)) as ledger:
        assert ledger.submission_of("s", "request").state == "complete"


def test_version_2_gets_questions_and_keeps_the_rest(second):
    with Ledger(sqlite_engine(second)) as ledger:
        assert ledger.find(ratings, "s", "k").rating == "good"
        with ledger.documents(scope="s", site_id="docs", source="kb", run=RUN) as memory:
            assert (memory.known(["old"])["old"].state, memory.known(["old"])["old"].document_id) == ("done", "id")
        with ledger.questions(scope="s", site_id="docs", source="ask", run=RUN) as memory:
            claim = Claim("old", "label", None)
            assert memory.commit_and_claim((), [claim]) == {"old"}
            memory.commit_and_claim([Settlement(claim, "done", "hash", "request")], ())
            assert [(one.key, one.document_id) for one in memory.standing()] == [("old", "request")]
    for _ in range(2):
        with Ledger(sqlite_engine(second)) as ledger, ledger.engine.connect() as connection:
            found = connection.scalars(sa.text("SELECT version FROM assistant_ledger_schema")).all()
            assert sorted(found) == [1, 2, SCHEMA_VERSION]


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2, VERSION_3, VERSION_4], ids=["1", "2", "3", "4"])
def test_a_migrated_ledger_has_the_tables_of_a_new_one(version, tmp_path):
    migrated, new = ledger_of(tmp_path / "migrated.db", version), tmp_path / "new.db"
    for path in (migrated, new):
        Ledger(sqlite_engine(path)).close()
    assert columns(migrated) == columns(new)
    assert indexes(migrated) == indexes(new)
    assert set(columns(new)) == {
        "assistant_ledger_schema", "assistant_submissions", "assistant_ratings", "assistant_documents",
        "assistant_questions", "assistant_loads",
    }  # fmt: skip


SCOPE = "https://h/m2m/sites/docs/chat?async=b"
DAY = (datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))


@pytest.fixture
def third(tmp_path):
    return ledger_of(tmp_path / "ledger.db", VERSION_3)


def test_version_3_learns_how_questions_end_and_keeps_the_rest(third):
    with Ledger(sqlite_engine(third)) as ledger:
        (row,) = requests_between(ledger.engine, *DAY)
        assert (row["request_id"], row["state"], row["completed_at"]) == ("req", "open", None)
        with ledger.questions(scope=SCOPE, site_id="docs", source="dag.task", run=RUN) as memory:
            memory.ended({"req": End("complete", datetime(2026, 11, 21, 8, 1, 1, tzinfo=UTC), "s")})
        (row,) = requests_between(ledger.engine, *DAY)
        assert (row["state"], row["seconds"], row["session_id"]) == ("complete", 60.0, "s")


def test_a_worker_that_opened_version_3_goes_on(third):
    """The older package does not know the columns that were added while it was running."""
    older = version_3_questions()
    with Ledger(sqlite_engine(third)) as ledger:
        facts = {"scope": SCOPE, "site_id": "docs", "source": "dag.task", "run": RUN}
        with BatchLedger(ledger.engine, older, **facts) as memory:
            known = memory.known(["old", "new"])
            claims = [Claim("old", "o", known["old"]), Claim("new", "n", None)]
            assert memory.commit_and_claim((), claims) == {"old", "new"}
            memory.commit_and_claim([Settlement(claim, "done", "h", f"r-{claim.key}") for claim in claims], ())
            assert {one.key: one.document_id for one in memory.standing()} == {"old": "r-old", "new": "r-new"}
            memory.withdraw(["new"], "its request was lost")


def test_a_migration_that_was_killed_midway_is_finished(third):
    with sqlite3.connect(third) as raw:
        raw.execute("ALTER TABLE assistant_questions ADD COLUMN state VARCHAR(16)")
    Ledger(sqlite_engine(third)).close()
    assert [column[0] for column in columns(third)["assistant_questions"]][-4:] == [
        "state", "completed_at", "session_id", "region",
    ]  # fmt: skip


def test_many_migrate_at_once(third, tmp_path):
    at_once(6, lambda: Ledger(sqlite_engine(third)).close())
    Ledger(sqlite_engine(tmp_path / "new.db")).close()
    assert columns(third) == columns(tmp_path / "new.db")


def test_the_request_of_a_question_is_called_so_in_the_database(tmp_path):
    Ledger(sqlite_engine(tmp_path / "new.db")).close()
    names = [column[0] for column in columns(tmp_path / "new.db")["assistant_questions"]]
    assert "request_id" in names
    assert "document_id" not in names


def test_version_1_gets_documents_and_keeps_the_rest(old):
    with Ledger(sqlite_engine(old)) as ledger:
        assert ledger.find(ratings, "s", "k").rating == "good"
        _, made = ledger.once(
            ratings, "s", "k", RUN, dict, site_id="docs", session_id="session", request_id="request", rating="good"
        )
        assert not made
        with ledger.documents(scope="s", site_id="docs", source="kb", run=RUN) as memory:
            claim = Claim("d", "label", None)
            assert memory.commit_and_claim((), [claim]) == {"d"}
            memory.commit_and_claim([Settlement(claim, "done", "hash", "id")], ())
            assert memory.known(["d"])["d"].state == "done"
    for _ in range(2):
        with Ledger(sqlite_engine(old)) as ledger, ledger.engine.connect() as connection:
            versions = sa.text("SELECT max(version), count(*) FROM assistant_ledger_schema")
            assert connection.execute(versions).one() == (SCHEMA_VERSION, 2)


def test_a_migrated_ledger_is_too_new_for_the_old_package(old, monkeypatch):
    Ledger(sqlite_engine(old)).close()
    for module in ("migrate", "store"):
        monkeypatch.setattr(f"airflow_provider_assistant.ledger.{module}.SCHEMA_VERSION", 1)
    with pytest.raises(AssistantLedgerError, match=rf"{SCHEMA_VERSION}.*Upgrade"):
        Ledger(sqlite_engine(old))


def test_a_superseded_document_is_remembered(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        for content in "abc":
            with ledger.documents(scope="s", site_id="docs", source="kb", run=RUN) as memory:
                claim = Claim("d", "label", memory.known(["d"]).get("d"))
                memory.commit_and_claim((), [claim])
                memory.commit_and_claim([Settlement(claim, "done", content, f"id-{content}")], ())
        with ledger.documents(scope="s", site_id="docs", source="kb", run=RUN) as memory:
            known = memory.known(["d"])["d"]
    assert (known.document_id, known.content_hash, known.superseded) == ("id-c", "c", '["id-a", "id-b"]')


def test_a_key_is_won_by_one_of_two_claims(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        refs = [RunRef("dag", name, "task", -1) for name in "ab"]
        one, other = (ledger.documents(scope="s", site_id="docs", source="kb", run=ref) for ref in refs)
        with one, other:
            wanted = [Claim(key, key, None) for key in ("x", "y")]
            assert one.commit_and_claim((), wanted[:1]) == {"x"}
            assert other.commit_and_claim((), wanted) == {"y"}
            assert other.known(["x"])["x"].state == "elsewhere"
            assert one.known(["x", "y", "z"]).keys() == {"x", "y"}
            late = Claim("x", "x", other.known(["x"])["x"])
            one.commit_and_claim([Settlement(wanted[0], "done", "h", "id")], ())
            assert other.known(["x"])["x"].state == "done"
            assert late.known.state == "elsewhere"
