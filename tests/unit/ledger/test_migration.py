"""A ledger of an older version is migrated without loss of entries."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import (
    SCHEMA_VERSION,
    Claim,
    ClaimOutcome,
    DocumentScope,
    Ledger,
    QuestionScope,
    RequestEnd,
    RunRef,
    document_group,
    ratings,
    requests_between,
    sqlite_engine,
    submissions,
)
from airflow_provider_assistant.ledger.database import is_transient
from airflow_provider_assistant.ledger.queries import ambiguous_entries
from airflow_provider_assistant.ledger.schema import documents, questions
from airflow_provider_assistant.loading.fingerprints import encoded, hash_of
from tests.threads import at_once
from tests.unit.ledger.versions import (
    FORMER_CLAIM,
    VERSION_1,
    VERSION_2,
    VERSION_3,
    VERSION_4,
    VERSION_5,
    VERSION_6,
    VERSION_7,
    VERSION_8,
)

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
    added = {
        "assistant_documents": {
            "site_url": "s",
            "endpoint": "documents/qa",
            "namespace": None,
            "sent_hash": None,
            "group_key": None,
            "group_label": None,
        },
        "assistant_questions": {
            "site_url": "https://h/m2m/sites/docs",
            "mode": "async",
            "batch": "b",
            "sent_hash": None,
        },
    }
    renamed = {"intended_at": "claimed_at", "settled_at": "recorded_at"}
    assert after == {
        name: [
            {renamed.get(column, column): "created" if value == "done" else value for column, value in row.items()}
            | {"region": None, **added.get(name, {})}
            for row in rows
        ]
        for name, rows in before.items()
    }
    with Ledger(sqlite_engine(path)) as ledger:
        assert ledger.submission_of("s", "request").state == "complete"


def test_version_2_gets_questions_and_keeps_the_rest(second):
    with Ledger(sqlite_engine(second)) as ledger:
        assert ledger.find(ratings, "s", "k").rating == "good"
        with ledger.documents(scope=DocumentScope("s", "documents/qa"), site_id="docs", source="kb", run=RUN) as memory:
            assert (memory.entries(["old"])["old"].state, memory.entries(["old"])["old"].created_id) == (
                "created",
                "id",
            )
        with ledger.questions(scope=QuestionScope("s", "async", "b"), site_id="docs", source="ask", run=RUN) as memory:
            claim = Claim("old", "label", None)
            assert memory.commit_and_claim((), [claim]) == {"old"}
            memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", "request")], ())
            assert [(one.key, one.created_id) for one in memory.created_entries()] == [("old", "request")]
    for _ in range(2):
        with Ledger(sqlite_engine(second)) as ledger, ledger.engine.connect() as connection:
            found = connection.scalars(sa.text("SELECT version FROM assistant_ledger_schema")).all()
            assert sorted(found) == [1, 2, SCHEMA_VERSION]


@pytest.mark.parametrize(
    "version",
    [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8],
    ids=list("12345678"),
)
def test_a_migrated_ledger_has_the_tables_of_a_new_one(version, tmp_path):
    migrated, new = ledger_of(tmp_path / "migrated.db", version), tmp_path / "new.db"
    for path in (migrated, new):
        Ledger(sqlite_engine(path)).close()
    assert columns(migrated) == columns(new)
    assert indexes(migrated) == indexes(new)
    assert set(columns(new)) == {
        "assistant_ledger_schema", "assistant_submissions", "assistant_ratings", "assistant_documents",
        "assistant_questions", "assistant_loads", "assistant_leases",
    }  # fmt: skip


SCOPE = QuestionScope("https://h/m2m/sites/docs", "async", "b")
DAY = (datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))


@pytest.fixture
def third(tmp_path):
    return ledger_of(tmp_path / "ledger.db", VERSION_3)


def test_version_3_learns_how_questions_end_and_keeps_the_rest(third):
    with Ledger(sqlite_engine(third)) as ledger:
        (row,) = requests_between(ledger.engine, *DAY)
        assert (row["request_id"], row["state"], row["completed_at"]) == ("req", "open", None)
        with ledger.questions(scope=SCOPE, site_id="docs", source="dag.task", run=RUN) as memory:
            memory.record_ends({"req": RequestEnd("complete", datetime(2026, 11, 21, 8, 1, 1, tzinfo=UTC), "s")})
        (row,) = requests_between(ledger.engine, *DAY)
        assert (row["state"], row["seconds"], row["session_id"]) == ("complete", 60.0, "s")


def test_a_worker_of_an_older_package_stops_before_it_sends(third):
    """Its next claim fails for good, and the ledger has no outcome that this package does not know."""
    with Ledger(sqlite_engine(third)) as ledger:
        with pytest.raises(sa.exc.OperationalError, match="intended_at") as caught, ledger.engine.begin() as connection:
            connection.exec_driver_sql(FORMER_CLAIM)
        assert not is_transient(caught.value)
        with ledger.questions(scope=SCOPE, site_id="docs", source="dag.task", run=RUN) as memory:
            assert memory.entries(["old", "new"]).keys() == {"old"}


@pytest.fixture
def fifth(tmp_path):
    return ledger_of(tmp_path / "ledger.db", VERSION_5)


def test_version_5_gets_the_current_outcomes(fifth):
    with Ledger(sqlite_engine(fifth)) as ledger:
        for table, refused in (
            (submissions, "failed"),
            (ratings, "failed"),
            (documents, "failed"),
            (questions, "rejected"),
        ):
            names = {"done": "created", "intended": "claimed", "ambiguous": "ambiguous", "refused": refused}
            query = sa.select(table.c.key, table.c.outcome).where(table.c.key.in_(names))
            with ledger.engine.connect() as connection:
                assert dict(connection.execute(query).all()) == names


def test_version_5_gets_the_parts_of_its_scopes(fifth):
    with sqlite3.connect(fifth) as raw:
        raw.execute("UPDATE assistant_documents SET scope = 'https://h/cut' WHERE key = 'refused'")
    with Ledger(sqlite_engine(fifth)) as ledger, ledger.engine.connect() as connection:
        c = documents.c
        found = connection.execute(sa.select(c.key, c.site_url, c.endpoint, c.namespace)).all()
        here = ("https://h/m2m/sites/a%20b", "documents/text", "x/documents/qa")
        assert {key: tuple(parts) for key, *parts in found} == {
            "old": ("s", "documents/qa", None), **dict.fromkeys(("done", "intended", "ambiguous"), here),
            "refused": (None, None, None),
        }  # fmt: skip
        c = questions.c
        found = connection.execute(sa.select(c.site_url, c.mode, c.batch).where(c.key == "done")).one()
        assert tuple(found) == ("https://h/m2m/sites/docs", "sync", "c?async=d")


def test_after_version_5_nothing_is_sent_again_that_was_created(fifth):
    scope = DocumentScope("https://h/m2m/sites/a%20b", "documents/text", "x/documents/qa")
    keys = ("done", "intended", "ambiguous", "refused")
    with Ledger(sqlite_engine(fifth)) as ledger:
        with ledger.documents(scope=scope, site_id="docs", source="kb", run=RUN) as memory:
            found = memory.entries([*keys, "new"])
            assert {key: entry.state for key, entry in found.items()} == {
                "done": "created", "intended": "ambiguous", "ambiguous": "ambiguous", "refused": "none",
            }  # fmt: skip
            assert found["done"][1:3] == ("hash", "id")
            assert memory.commit_and_claim((), [Claim("refused", "label", found["refused"])]) == {"refused"}
        facts = {"site_id": "docs", "session_id": "s", "request_id": "r", "rating": "good"}
        sent = {key: ledger.run_once(ratings, "site", key, RUN, dict, **facts)[1] for key in keys}
    assert sent == {"done": False, "intended": True, "ambiguous": True, "refused": True}


def test_a_migration_of_version_5_that_was_killed_midway_is_finished(fifth, tmp_path):
    with sqlite3.connect(fifth) as raw:
        raw.execute("ALTER TABLE assistant_ratings RENAME COLUMN intended_at TO claimed_at")
        raw.execute("ALTER TABLE assistant_documents ADD COLUMN site_url VARCHAR(400)")
        raw.execute("UPDATE assistant_ratings SET outcome = 'created' WHERE outcome = 'done'")
    at_once(4, lambda: Ledger(sqlite_engine(fifth)).close())
    Ledger(sqlite_engine(tmp_path / "new.db")).close()
    assert columns(fifth) == columns(tmp_path / "new.db")
    with sqlite3.connect(fifth) as raw:
        for name in ("submissions", "ratings", "documents", "questions"):
            found = {outcome for (outcome,) in raw.execute(f"SELECT outcome FROM assistant_{name}")}
            assert found == {"created", "claimed", "ambiguous", "rejected" if name == "questions" else "failed"}


@pytest.mark.parametrize("run_id", ["run", "other"])
def test_version_6_gets_leases_and_its_claims_have_none(tmp_path, run_id):
    """Whichever run finds the claim of an older package, the row is ambiguous at once."""
    scope = DocumentScope("https://h/m2m/sites/a%20b", "documents/text", "x/documents/qa")
    path, run = ledger_of(tmp_path / "ledger.db", VERSION_6), RunRef("dag", run_id, "task", -1)
    with (
        Ledger(sqlite_engine(path)) as ledger,
        ledger.documents(scope=scope, site_id="docs", source="kb", run=run) as memory,
    ):
        found = memory.entries(["done", "intended", "ambiguous", "refused"])
        assert {key: entry.state for key, entry in found.items()} == {
            "done": "created", "intended": "ambiguous", "ambiguous": "ambiguous", "refused": "none",
        }  # fmt: skip
        claims = [Claim(key, "label", found[key]) for key in ("intended", "refused")]
        assert memory.commit_and_claim((), claims) == {"intended", "refused"}
        assert memory.entries(["intended"])["intended"].state == "leased"


def test_version_7_gets_the_content_of_documents_that_become_ambiguous(tmp_path):
    scope = DocumentScope("https://h/m2m/sites/a%20b", "documents/text", "x/documents/qa")
    path = ledger_of(tmp_path / "ledger.db", VERSION_7)
    with (
        Ledger(sqlite_engine(path)) as ledger,
        ledger.documents(scope=scope, site_id="docs", source="kb", run=RUN) as memory,
    ):
        claims = [Claim(key, "label", entry) for key, entry in memory.entries(["done", "refused"]).items()]
        assert memory.commit_and_claim((), claims) == {"done", "refused"}
        memory.commit_and_claim([ClaimOutcome(claim, "ambiguous", f"new {claim.key}") for claim in claims], ())
        found = {entry.key: entry.sent_hash for entry in ambiguous_entries(ledger) if entry.kind == "document"}
        assert found == {"done": "new done", "refused": "new refused", "intended": None, "ambiguous": None}


def test_the_documents_of_version_8_get_their_groups_when_they_are_seen_again(tmp_path):
    scope = DocumentScope("https://h/m2m/sites/docs", "documents/text")
    path = ledger_of(tmp_path / "ledger.db", VERSION_8)
    keys = {label: hash_of(encoded([label])) for label in ("a#1", "a#2", "b#1", "b#2")}
    group = document_group("a")
    with (
        Ledger(sqlite_engine(path)) as ledger,
        ledger.documents(scope=scope, site_id="docs", source="dag.load", run=RUN, has_groups=True) as memory,
    ):
        assert sorted(entry.created_id for entry in memory.entries(list(keys.values())).values()) == [
            "doc a#1 2",
            "doc a#2 1",
            "doc b#1 1",
            "doc b#2 1",
        ]
        assert list(memory.stale_in_groups([group.key], lambda _: False)) == []
        memory.set_groups({keys["a#1"]: group})
        assert list(memory.stale_in_groups([group.key], lambda _: False)) == [("a#1", "doc a#1 2", "a")]
        # Without a group, only a load of the whole source finds a document.
        found = {one.label for one in memory.stale(lambda key: key == keys["a#1"])}
        assert found == {"a#2", "b#1", "b#2"}


def test_a_migration_that_was_killed_midway_is_finished(third):
    with sqlite3.connect(third) as raw:
        raw.execute("ALTER TABLE assistant_questions ADD COLUMN state VARCHAR(16)")
    Ledger(sqlite_engine(third)).close()
    assert [column[0] for column in columns(third)["assistant_questions"]][-8:] == [
        "state", "completed_at", "session_id", "region", "site_url", "mode", "batch", "sent_hash",
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
        _, made = ledger.run_once(
            ratings, "s", "k", RUN, dict, site_id="docs", session_id="session", request_id="request", rating="good"
        )
        assert not made
        with ledger.documents(scope=DocumentScope("s", "documents/qa"), site_id="docs", source="kb", run=RUN) as memory:
            claim = Claim("d", "label", None)
            assert memory.commit_and_claim((), [claim]) == {"d"}
            memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", "id")], ())
            assert memory.entries(["d"])["d"].state == "created"
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
            with ledger.documents(
                scope=DocumentScope("s", "documents/qa"), site_id="docs", source="kb", run=RUN
            ) as memory:
                claim = Claim("d", "label", memory.entries(["d"]).get("d"))
                memory.commit_and_claim((), [claim])
                memory.commit_and_claim([ClaimOutcome(claim, "created", content, f"id-{content}")], ())
        with ledger.documents(scope=DocumentScope("s", "documents/qa"), site_id="docs", source="kb", run=RUN) as memory:
            known = memory.entries(["d"])["d"]
    assert (known.created_id, known.content_hash, known.superseded) == ("id-c", "c", '["id-a", "id-b"]')


def test_a_key_is_won_by_one_of_two_claims(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        refs = [RunRef("dag", name, "task", -1) for name in "ab"]
        one, other = (
            ledger.documents(scope=DocumentScope("s", "documents/qa"), site_id="docs", source="kb", run=ref)
            for ref in refs
        )
        with one, other:
            wanted = [Claim(key, key, None) for key in ("x", "y")]
            assert one.commit_and_claim((), wanted[:1]) == {"x"}
            assert other.commit_and_claim((), wanted) == {"y"}
            assert other.entries(["x"])["x"].state == "leased"
            assert one.entries(["x", "y", "z"]).keys() == {"x", "y"}
            late = Claim("x", "x", other.entries(["x"])["x"])
            one.commit_and_claim([ClaimOutcome(wanted[0], "created", "h", "id")], ())
            assert other.entries(["x"])["x"].state == "created"
            assert late.entry.state == "leased"
