"""What the page gets about the ledger."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import Site
from tests.unit.ui.conftest import HOSTILE

LISTS = ("unresolved", "doubled", "superseded", "stale", "draft", "open")
PAGES = ("summary", "loads", "documents", *(f"entries/{name}" for name in LISTS))
SHOP = Site("b.example", "shop")


def rows(client, which, query="", search=""):
    headers = {"Assistant-Search": quote(search)} if search else {}
    return client.get(f"/api/entries/{which}?{query}", headers=headers).json()["rows"]


def test_the_context_has_sites_and_sources(admin, fill, known_dags):
    fill.load(hours=2)
    fill.load("other.kb", site=SHOP)
    found = admin.get("/api/context").json()
    assert found["sites"] == [
        {"site_id": "shop", "service": "b.example", "sources": ["other.kb.load"]},
        {"site_id": "help", "service": "h.example", "sources": ["mine.kb.load"]},
    ]
    assert (found["problem"], found["may_settle"]) == (None, True)


def test_loads_are_filtered_and_paged(admin, fill, known_dags):
    for hours in range(1, 6):
        fill.load(hours=hours, outcome="failed" if hours == 2 else "succeeded", error=HOSTILE)
    fill.load("other.kb", hours=9)
    found = admin.get("/api/loads?limit=2&offset=1").json()
    assert (found["total"], found["is_capped"], found["limit"], found["offset"]) == (6, False, 2, 1)
    first = found["rows"][0]
    assert (first["outcome"], first["error"], first["counts"]["created"]) == ("failed", HOSTILE, 9)
    assert first["task"]["path"] == "/dags/mine.kb/runs/run%202/tasks/load"
    for query, total in {"outcome=failed": 1, "source=other.kb.load": 1, "site=shop": 0}.items():
        assert admin.get(f"/api/loads?{query}").json()["total"] == total


def test_a_try_without_an_end_was_killed_unless_its_task_runs(admin, fill, run_stored):
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk import task
    from airflow.utils.session import create_session

    @task(task_id="load")
    def load():
        """Do nothing."""

    run = run_stored(load)
    with create_session() as session:
        instance = session.scalars(sa.select(TaskInstance).filter_by(dag_id=run.dag_id)).one()
        instance.state = "running"
        instance.start_date = fill.now - timedelta(minutes=30)
    killed = fill.load(run.dag_id, run_id=run.run_id, outcome=None, hours=1)
    running = fill.load(run.dag_id, run_id=run.run_id, outcome=None, hours=0.4)
    outcomes = {row["token"]: row["outcome"] for row in admin.get("/api/loads").json()["rows"]}
    assert outcomes == {killed: "unfinished", running: "running"}


def test_the_summary_answers(admin, fill, known_dags):
    fill.load(hours=30)
    fill.load(hours=3, outcome="failed")
    fill.load("other.kb", hours=2)
    fill.attempt("a", "ambiguous", hours=7)
    fill.attempt("b", "claimed")
    fill.attempt("c", "created")
    found = admin.get("/api/summary").json()
    assert [(one["load"]["source"], one["load"]["outcome"]) for one in found["sources"]] == [
        ("mine.kb.load", "failed"),
        ("other.kb.load", "succeeded"),
    ]
    assert found["created_day"] == 18
    assert found["lists"] == {"unresolved": 2, "doubled": 0, "superseded": 0, "stale": 0, "draft": 0, "open": 0}
    assert found["unresolved_since"] == (fill.now - timedelta(hours=7)).isoformat().replace("+00:00", "Z")
    assert found["lake_problem"]["code"] == "no_lake"
    assert "lake_path" in found["lake_problem"]["text"]


@pytest.mark.promise(
    "pages", "A load that left rows to look at is shown as one with findings, and not as a plain success."
)
def test_a_load_that_left_something_to_look_at_is_shown_so(admin, fill, known_dags):
    fill.load(outcome="succeeded with findings", ambiguous=1)
    (source,) = admin.get("/api/summary").json()["sources"]
    assert source["load"]["outcome"] == "succeeded with findings"
    assert admin.get("/api/loads?outcome=succeeded").json()["total"] == 0
    assert admin.get("/api/loads?outcome=succeeded%20with%20findings").json()["total"] == 1


def test_a_task_that_failed_before_its_load_began_is_named(admin, fill, run_stored):
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk import task
    from airflow.utils.session import create_session

    @task(task_id="load")
    def load():
        """Do nothing."""

    run = run_stored(load)
    fill.load(run.dag_id, hours=3)

    def failed_since(state, hours):
        with create_session() as session:
            instance = session.scalars(sa.select(TaskInstance).filter_by(dag_id=run.dag_id)).one()
            instance.state, instance.end_date = state, fill.now - timedelta(hours=hours)
        (source,) = admin.get("/api/summary").json()["sources"]
        return source["failed_since"]

    for state in ("failed", "upstream_failed"):
        assert failed_since(state, 1)["run_id"] == run.run_id
    assert failed_since("failed", 1)["path"].endswith("/tasks/load")
    assert failed_since("failed", 4) is None
    assert failed_since("success", 1) is None


def test_a_load_that_does_not_run_any_more_is_due(admin, fill, known_dags):
    for hours in (60, 84, 108):
        fill.load(hours=hours)
    for hours in (20, 44, 68):
        fill.load("other.kb", hours=hours)
    assert [(one["load"]["source"], one["due"]) for one in admin.get("/api/summary").json()["sources"]] == [
        ("mine.kb.load", True),
        ("other.kb.load", False),
    ]


def test_a_source_in_shards_is_as_bad_as_its_worst_one(admin, fill, known_dags):
    for index, outcome in enumerate(("succeeded", "failed", "succeeded")):
        fill.load(map_index=index, outcome=outcome)
    fill.load(map_index=0, hours=30, outcome="failed")
    (source,) = admin.get("/api/summary").json()["sources"]
    assert (source["load"]["outcome"], source["load"]["task"]["map_index"]) == ("failed", 1)
    assert source["load"]["task"]["path"].endswith("/tasks/load/mapped/1")


@pytest.mark.promise(
    "pages", "Documents over time are those at the end of each day: their number falls if some are removed."
)
def test_documents_over_time_rise_and_fall(admin, fill, known_dags):
    for days, documents in ((200, 100), (5, 120), (3, 130), (1, 40)):
        fill.load(hours=24 * days, documents=documents)
    fill.load("other.kb", hours=24 * 3, documents=7)
    days = admin.get("/api/documents?days=30").json()["days"]
    # The first day also has what was there before.
    assert [day["documents"] for day in days[-3:]] == [120, 137, 47]
    assert [day["documents"] for day in admin.get("/api/documents?days=30&site=shop").json()["days"]] == []


def test_entries_are_listed_with_what_they_can_become(admin, fill, known_dags):
    fill.attempt(f"{HOSTILE} 1", "ambiguous", hours=3, error="503")
    fill.attempt(f"{HOSTILE} 2", "claimed", hours=2)
    fill.attempt("fine", "created")
    fill.attempt("session", "claimed", kind="chat", namespace="batch", hours=0)
    found = rows(admin, "unresolved")
    assert [(row["kind"], row["state"], row["outcomes"]) for row in found] == [
        ("chat", "claimed", ["not-created"]),
        ("qa", "claimed", ["created", "not-created"]),
        ("qa", "ambiguous", ["created", "not-created"]),
    ]
    assert [(row["is_alive"], row["may_settle"], row["is_batch"]) for row in found] == [
        (True, False, True),
        (False, True, False),
        (False, True, False),
    ]
    assert all(HOSTILE in row["label"] for row in found[1:])
    assert [row["id"] for row in rows(admin, "unresolved", "limit=2&offset=1")] == [row["id"] for row in found[1:]]


def test_each_list_has_its_entries(admin, fill, known_dags):
    fill.attempt("changed", "created", remote_id="old", hours=3)
    fill.attempt("changed", "created", content="2", remote_id="new")
    fill.attempt("gone", "created", gone=True)
    fill.attempt("draft", "created", status="Draft")
    fill.attempt("twice", "created", ambiguous=1)
    details = {"mode": "async", "session_id": "s"}
    fill.attempt("s", "created", kind="chat", remote_id="req \ud83d", details=details)
    found = {which: [(row["label"], row["document_id"]) for row in rows(admin, which)] for which in LISTS}
    assert found == {
        "unresolved": [],
        "doubled": [("twice", "id of twice 1")],
        "superseded": [("changed", "old")],
        "stale": [("gone", "id of gone 1")],
        "draft": [("draft", "id of draft 1")],
        "open": [("s", "req \\ud83d")],
    }
    lists = admin.get("/api/summary").json()["lists"]
    assert lists == {which: len(one) for which, one in found.items()}


def test_entries_are_filtered_by_site_source_and_key(admin, fill, known_dags):
    for number in range(3):
        fill.attempt(f"{HOSTILE} row-{number}", "ambiguous")
    fill.attempt("row-0", "ambiguous", dag_id="other.kb", site=SHOP)
    fill.attempt("row-9", "ambiguous", dag_id="other.kb", site=Site("c.example", "shop"))

    def found(query="", search=""):
        return len(rows(admin, "unresolved", query, search))

    assert found() == 5
    assert [found(f"site={site}") for site in ("help", "shop", "none")] == [3, 2, 0]
    assert [found(f"site=shop&service={one}") for one in ("b.example", "c.example", "d")] == [1, 1, 0]
    assert [found(f"source={one}") for one in ("mine.kb.load", "other.kb.load", "x")] == [3, 2, 0]
    assert [found(search=one) for one in ("ROW-0", "%", "<script>", "\x07=cmd()", "é")] == [2, 0, 3, 3, 0]
    assert found("site=help&source=mine.kb.load", "row-2") == 1
    assert admin.get("/api/entries/unresolved", headers={"Assistant-Search": "x" * 2001}).status_code == 422


@pytest.mark.promise("pages", "A user sees only the loads and entries of DAGs that Airflow lets the user read.")
def test_users_see_the_rows_of_their_dags(as_user, fill, known_dags):
    dag_ids = ("mine.kb", "other.kb", "airflow assistant", "deleted.kb")
    for dag_id in dag_ids:
        fill.load(dag_id)
        fill.attempt(dag_id, "ambiguous", dag_id=dag_id)
    mine, viewer = as_user("mine", "ADMIN"), as_user("viewer")
    assert {row["task"]["dag_id"] for row in mine.get("/api/loads").json()["rows"]} == {"mine.kb"}
    assert {row["task"]["dag_id"] for row in rows(mine, "unresolved")} == {"mine.kb"}
    assert mine.get("/api/summary").json()["lists"]["unresolved"] == 1
    assert mine.get("/api/context").json()["sites"][0]["sources"] == ["mine.kb.load"]
    seen = rows(viewer, "unresolved")
    assert {row["task"]["dag_id"] for row in seen} == set(dag_ids)
    assert {row["task"]["path"] for row in seen if row["task"]["dag_id"] not in known_dags} == {None}
    assert not any(row["may_settle"] for row in seen)
    assert viewer.get("/api/context").json()["may_settle"] is False
    assert all(row["may_settle"] for row in rows(as_user("user"), "unresolved"))


@pytest.mark.parametrize("page", PAGES)
def test_without_a_ledger_there_is_a_sentence(page, admin, ledger_home):
    reply = admin.get(f"/api/{page}")
    assert (reply.status_code, reply.json()["problem"]["code"]) == (200, "no_ledger")
    assert "[assistant] ledger_conn_id" in reply.json()["problem"]["text"]
    # Looking for a ledger creates none.
    assert list(ledger_home.iterdir()) == []


PROBLEMS = {
    "no connection": ("", "no_ledger", "AirflowNotFoundException"),
    "no SQL": ("http://localhost", "no_ledger", "This API server cannot open"),
    "no file": ("sqlite:////nowhere/ledger.db", "no_ledger", "does not exist on this API server"),
    "unreachable": ("postgres://sesame:sesame-1234@127.0.0.1:1/x", "ledger_unreachable", "OperationalError"),
}


@pytest.mark.parametrize(("uri", "code", "text"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("page", ["summary", "entries/stale"])
def test_a_ledger_that_cannot_be_read_is_a_sentence(page, uri, code, text, admin, ledger_home, monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "pages_ledger")
    if uri:
        monkeypatch.setenv("AIRFLOW_CONN_PAGES_LEDGER", uri)
    problem = admin.get(f"/api/{page}").json()["problem"]
    assert problem["code"] == code
    assert text in problem["text"]
    assert "sesame" not in str(problem) + caplog.text


def test_a_database_of_another_application_is_not_changed(admin, ledger_home, monkeypatch):
    file = ledger_home / "other.db"
    sqlite3.connect(file).execute("CREATE TABLE t (x)")
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "pages_ledger")
    monkeypatch.setenv("AIRFLOW_CONN_PAGES_LEDGER", f"sqlite:///{file}")
    assert admin.get("/api/loads").json()["problem"]["code"] == "ledger_unreachable"
    assert sqlite3.connect(file).execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


@pytest.mark.parametrize("version", [0, 99])
def test_a_ledger_of_another_version_is_a_sentence(version, admin, ledger):
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE assistant_ledger SET version = {version}")
    problem = admin.get("/api/loads").json()["problem"]
    assert problem["code"] == "ledger_version"
    assert "another version" in problem["text"]


def test_an_invalid_option_is_a_sentence(admin, ledger, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", "1")
    assert "lease_seconds" in admin.get("/api/entries/unresolved").json()["problem"]["text"]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "offset=-1", "offset=10001", "outcome=other"])
def test_other_positions_are_refused(query, admin, ledger):
    assert admin.get(f"/api/loads?{query}").status_code == 422
