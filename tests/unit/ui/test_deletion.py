"""Deleting superseded documents at the service: what may be deleted, who may, and the audit log."""

from __future__ import annotations

import json
import threading

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.schema import document_changes, documents
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.ui import deletion
from tests.document_site import DocumentSite

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
ROWS = [{"title": "T", "question": f"Q {n}?", "answer": f"Answer {n}.", "category": "faq"} for n in range(3)]
KEY = "key-of-a-test-0123456789"


@pytest.fixture(autouse=True)
def _no_lines(_airflow_database):
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        session.execute(sa.delete(Log).where(Log.event == deletion.EVENT))


@pytest.fixture(autouse=True)
def _quick(monkeypatch, ledger_home):
    monkeypatch.setattr(deletion, "VISIBLE_SECONDS", 0.0)


@pytest.fixture
def connected(monkeypatch):
    def connect(site, manage=True, **extra):
        monkeypatch.setenv(CONN, site.connection(manage_documents=manage, retries=0, **extra))

    return connect


@pytest.fixture
def load(run_operator, run_stored):
    """Load three rows twice, so that each has a superseded document. Airflow has stored only the last run."""

    def loaded(versions=("", " New."), rows=ROWS):
        for version in versions:
            source = [{**row, "answer": row["answer"] + version} for row in rows]
            run_task = run_stored if version == versions[-1] else run_operator
            run = run_task(AssistantLoadQAOperator, source=source, key_columns="question", source_name="kb")
            assert run.state == "success", run.errors
        return run

    return loaded


def superseded(client):
    return client.get("/api/superseded").json()["rows"]


def delete(client, rows, *, preview=False):
    path = "/api/delete/preview" if preview else "/api/delete"
    reply = client.post(path, json={"ids": [row["id"] for row in rows]})
    assert KEY not in reply.text
    return reply


def audit_lines():
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.scalars(sa.select(Log).where(Log.event == deletion.EVENT).order_by(Log.id))
        return [(line.owner, line.dag_id, json.loads(line.extra)) for line in found]


def test_superseded_documents_are_deactivated_deleted_and_forgotten(connected, load, admin, ledger):
    with DocumentSite() as site:
        connected(site)
        run = load()
        rows = superseded(admin)
        site.changes.clear()
        requests = len(site.requests)
        preview = delete(admin, rows[:2], preview=True).json()
        assert len(site.requests) == requests
        assert (preview["is_preview"], preview["settled"], preview["refused"]) == (True, 2, 0)
        assert "'assistant_default'" in preview["items"][0]["text"]
        done = delete(admin, rows[:2]).json()
        assert (done["is_preview"], done["settled"], done["refused"]) == (False, 2, 0)
        old = sorted(one for row in rows[:2] for one in row["document_ids"])
        changes = [(change.action, change.document_id) for change in site.changes]
        expected = [(action, one) for action in ("deactivate", "delete") for one in old]
        assert sorted(changes) == expected
        assert changes.index(("delete", old[0])) > changes.index(("deactivate", old[1]))
        assert len(site.documents) == 4
    assert [row["id"] for row in superseded(admin)] == [rows[2]["id"]]
    deleted = [row["document_ids"][0] for row in rows[:2]]
    facts = {"ledger": "assistant_ledger.db", "deleted": deleted, "not_deleted": []}
    assert audit_lines() == [("admin", run.dag_id, facts)]
    with ledger.engine.connect() as connection:
        recorded = connection.execute(sa.select(document_changes.c.change, document_changes.c.outcome)).all()
    assert sorted(recorded) == [("deactivate", "done")] * 2 + [("delete", "done")] * 2


@pytest.mark.parametrize("manage", [None, {"delete": None}])
def test_a_connection_must_manage_documents(manage, connected, load, admin):
    with DocumentSite() as site:
        connected(site, manage=manage)
        load()
        before = list(site.requests)
        for preview in (True, False):
            done = delete(admin, superseded(admin), preview=preview).json()
            assert (done["settled"], done["refused"]) == (0, 3)
            assert "'assistant_default' does not manage documents" in done["items"][0]["text"]
        assert site.requests == before
    assert audit_lines() == []


@pytest.mark.promise("pages", "The page deletes documents only at the site that they belong to.")
def test_another_site_is_never_changed(connected, load, admin):
    with DocumentSite() as site, DocumentSite() as other:
        connected(site)
        load()
        connected(other)
        done = delete(admin, superseded(admin)).json()
        assert (done["settled"], done["refused"]) == (0, 3)
        assert "no connection to this site" in done["items"][0]["text"]
        assert not other.requests
        assert len(site.documents) == 6


def test_a_connection_of_another_name_is_found_by_its_site(connected, load, admin, monkeypatch):
    with DocumentSite() as site:
        connected(site)
        load()
        monkeypatch.delenv(CONN)
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", site.connection(manage_documents=True))
        done = delete(admin, superseded(admin)).json()
    assert done["settled"] == 3


def test_a_connection_in_the_database_is_found(connected, load, admin, monkeypatch):
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with DocumentSite() as site:
        connected(site)
        load()
        monkeypatch.delenv(CONN)
        stored = {**json.loads(site.connection(manage_documents=True)), "conn_id": "stored_site"}
        stored["extra"] = json.dumps(stored["extra"])
        # A connection that cannot be used does not hide the others.
        broken = Connection(conn_id="a_broken_site", conn_type="assistant", extra='{"unknown": 1}')
        with create_session() as session:
            session.add_all([broken, Connection(**stored)])
        try:
            done = delete(admin, superseded(admin)).json()
        finally:
            with create_session() as session:
                names = Connection.conn_id.in_(["a_broken_site", "stored_site"])
                session.execute(sa.delete(Connection).where(names))
    assert done["settled"] == 3, done


def test_a_document_is_kept_while_its_newer_one_is_not_in_use(connected, load, admin):
    with DocumentSite(draft=True) as site:
        connected(site)
        load()
        names = list(site.documents)
        newer = site.documents[names[3]]
        newer.active = True
        # The service creates the documents of a load in any order.
        (older,) = [name for name in names[:3] if site.documents[name].question == newer.question]
        done = delete(admin, superseded(admin)).json()
        assert (done["settled"], done["refused"]) == (1, 2)
        assert {item["accepted"] for item in done["items"] if "is not in use: draft" in item["text"]} == {False}
        assert set(names) - set(site.documents) == {older}
    assert len(superseded(admin)) == 2


def test_a_document_that_another_row_needs_is_kept(connected, load, admin, ledger):
    with DocumentSite() as site:
        connected(site)
        load()
        (old,) = superseded(admin)[0]["document_ids"]
        with ledger.engine.begin() as connection:
            key = connection.scalar(sa.select(sa.func.max(documents.c.key)))
            connection.execute(sa.update(documents).where(documents.c.key == key).values(document_id=old))
        done = delete(admin, superseded(admin)[:1]).json()
        assert (done["settled"], done["refused"]) == (0, 1)
        assert old in site.documents


def test_refusals_of_the_service_are_shown_and_recorded(connected, load, admin, ledger):
    with DocumentSite(missing={"delete": 405}) as site:
        connected(site)
        load()
        done = delete(admin, superseded(admin)).json()
        assert (done["settled"], done["refused"], len(site.documents)) == (0, 3, 6)
    assert "does not have a route" in done["items"][0]["text"]
    assert len(superseded(admin)) == 3
    ((_, _, facts),) = audit_lines()
    assert (facts["deleted"], len(facts["not_deleted"])) == ([], 3)
    with ledger.engine.connect() as connection:
        recorded = set(connection.execute(sa.select(document_changes.c.change, document_changes.c.outcome)).all())
    assert recorded == {("deactivate", "done"), ("delete", "failed")}


def test_documents_that_are_gone_count_as_deleted(connected, load, admin):
    with DocumentSite(unknown="reject") as site:
        connected(site)
        load()
        rows = superseded(admin)
        for row in rows[:2]:
            del site.documents[row["document_ids"][0]]
        assert delete(admin, rows).json()["settled"] == 3
    assert superseded(admin) == []


def test_a_service_that_hangs_ends_with_the_time(connected, load, admin, monkeypatch):
    release = threading.Event()
    hold = []

    def before(_, method, path):
        if hold and method != "GET":
            release.wait(60)

    with DocumentSite(before=before) as site:
        connected(site)
        load()
        hold.append(True)
        monkeypatch.setattr(deletion, "SECONDS", 0.5)
        done = delete(admin, superseded(admin)).json()
        release.set()
    assert (done["settled"], done["refused"]) == (0, 3)
    assert "The time was over" in done["items"][0]["text"]
    ((_, _, facts),) = audit_lines()
    assert (facts["deleted"], len(facts["not_deleted"])) == ([], 3)
    assert len(superseded(admin)) == 3


def test_a_ledger_that_fails_midway_is_said_and_logged(connected, load, admin, monkeypatch):
    def fails(*_):
        raise AssistantLedgerError("the ledger is locked")

    with DocumentSite() as site:
        connected(site)
        load()
        monkeypatch.setattr(deletion.DocumentChanges, "record_removed", fails)
        done = delete(admin, superseded(admin)).json()
        assert (done["settled"], done["refused"], len(site.documents)) == (0, 3, 3)
        assert "the ledger is locked" in done["items"][0]["text"]
        ((_, _, facts),) = audit_lines()
        assert len(facts["not_deleted"]) == 3


def test_one_request_deletes_a_bounded_number(connected, load, admin, monkeypatch):
    monkeypatch.setattr(deletion, "MOST_DELETED", 2)
    with DocumentSite() as site:
        connected(site)
        load()
        done = delete(admin, superseded(admin)).json()
        assert (done["settled"], done["refused"], len(site.documents)) == (2, 1, 4)
    assert "Repeat it" in done["items"][0]["text"]


@pytest.mark.parametrize("preview", [True, False])
def test_only_who_may_settle_may_delete(preview, connected, load, as_user, admin):
    with DocumentSite() as site:
        connected(site)
        load()
        rows = superseded(admin)
        for user in (as_user("viewer"), as_user("mine", "ADMIN")):
            assert delete(user, rows, preview=preview).status_code == 403
        assert as_user().post("/api/delete", json={"ids": [rows[0]["id"]]}).status_code == 401
        assert len(site.documents) == 6


@pytest.mark.parametrize("ids", [[], ["a"], ["WyJ4Il0="]])
def test_other_requests_are_invalid(ids, admin, ledger):
    assert admin.post("/api/delete", json={"ids": ids}).status_code == 422


def test_ambiguous_entries_cannot_be_deleted(fill, admin, known_dags):
    fill.documents("ambiguous")
    (row,) = admin.get("/api/ambiguous").json()["rows"]
    assert delete(admin, [row]).status_code == 422


def test_what_changed_since_is_refused(connected, load, admin):
    with DocumentSite() as site:
        connected(site)
        load()
        rows = superseded(admin)
        load(versions=(" Newest.",))
        done = delete(admin, rows).json()
        assert (done["settled"], done["refused"], len(site.documents)) == (0, 3, 9)
    assert "changed since" in done["items"][0]["text"]
