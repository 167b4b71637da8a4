"""The lists of the page: tries, what needs a person, and documents over time."""

from __future__ import annotations

import sqlite3
from urllib.parse import quote

import pytest

from airflow_provider_assistant.ledger import Site
from tests.unit.ui.conftest import HOSTILE

LISTS = ("unresolved", "doubled", "superseded", "stale", "draft", "open")
PAGES = ("context", "tries", "documents", "entries", "tasks/mine.kb/r/t/-1", "tasks/mine.kb/r/t/-1/findings")
SHOP = Site("b.example", "shop")


def rows(client, which, query="", search=""):
    headers = {"Assistant-Search": quote(search)} if search else {}
    return client.get(f"/api/entries?which={which}&{query}", headers=headers).json()["rows"]


def tries(client, query=""):
    return client.get(f"/api/tries?{query}").json()


def test_the_context_has_sites_and_sources(admin, fill, known_dags):
    fill.load(hours=2)
    fill.load("other.kb", site=SHOP)
    fill.load(hours=3, task_kind="evaluation", source="golden")
    found = admin.get("/api/context").json()
    assert found["sites"] == [
        {"site_id": "shop", "service": "b.example", "sources": ["other.kb.load"]},
        {"site_id": "help", "service": "h.example", "sources": ["mine.kb.load", "golden"]},
    ]
    assert (found["problem"], found["may_settle"]) == (None, True)


@pytest.mark.promise("pages", "The page lists the tries of all kinds of tasks, and filters them.")
def test_tries_are_listed_and_filtered(admin, fill, known_dags):
    fill.load(hours=5)
    fill.load(hours=4, outcome="failed", error=HOSTILE, site=SHOP)
    fill.load(hours=3, outcome="succeeded with findings", ambiguous=1)
    fill.load(hours=2, outcome=None)
    fill.load(hours=1, task_kind="evaluation", source="golden", counts={"pass_rate": 0.5}, report="/x/report.html")
    found = tries(admin)
    assert (found["total"], [row["task_kind"] for row in found["rows"]]) == (5, ["evaluation", *["load"] * 4])
    outcomes = ["succeeded", "unfinished", "succeeded with findings", "failed", "succeeded"]
    assert [row["outcome"] for row in found["rows"]] == outcomes
    golden, _, _, failed, _ = found["rows"]
    assert (golden["counts"], golden["report"]) == ({"pass_rate": 0.5}, "/assistant/reports/mine.kb/run%201/load/-1")
    assert (failed["error"], failed["counts"]["created"], failed["seconds"]) == (HOSTILE, 9, 300)
    filters = {
        "kind=load": 4,
        "kind=evaluation": 1,
        "kind=export": 0,
        "outcome=failed": 1,
        "outcome=succeeded": 2,
        "outcome=succeeded%20with%20findings": 1,
        "outcome=unfinished&kind=load": 1,
        "source=golden": 1,
        "site=shop": 1,
        "site=shop&service=b.example": 1,
        "site=shop&service=h.example": 0,
    }
    assert {query: tries(admin, query)["total"] for query in filters} == filters
    assert [row["token"] for row in tries(admin, "limit=2&offset=1")["rows"]] == [
        row["token"] for row in found["rows"][1:3]
    ]


def test_a_try_without_an_end_is_running_only_while_its_task_is(admin, fill, run_stored):
    import sqlalchemy as sa
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk import task
    from airflow.utils.session import create_session

    @task(task_id="load")
    def load():
        """Do nothing."""

    run = run_stored(load)
    fill.load(run.dag_id, run_id=run.run_id, hours=0, outcome=None)

    def outcomes(state):
        with create_session() as session:
            session.execute(sa.update(TaskInstance).filter_by(dag_id=run.dag_id).values(state=state))
        return [row["outcome"] for row in tries(admin)["rows"]]

    assert outcomes("running") == ["running"]
    assert outcomes("failed") == ["unfinished"]
    # A try that started before the task instance that runs now was killed.
    fill.load(run.dag_id, run_id=run.run_id, hours=1, outcome=None)
    assert outcomes("running") == ["running", "unfinished"]


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
    assert admin.get("/api/documents?days=30&site=shop").json()["days"] == []


def test_entries_are_listed_with_what_they_can_become(admin, fill, known_dags):
    fill.attempt(f"{HOSTILE} 1", "ambiguous", hours=3, error="503")
    fill.attempt(f"{HOSTILE} 2", "claimed", hours=2)
    fill.attempt("fine", "created")
    fill.attempt("session", "claimed", kind="chat", namespace="batch", hours=0)
    fill.attempt("old session", "claimed", kind="chat", namespace="batch", hours=4)
    found = rows(admin, "unresolved")
    assert [(row["kind"], row["state"], row["outcomes"], row["is_alive"], row["is_batch"]) for row in found] == [
        ("chat", "claimed", [], True, True),
        ("qa", "claimed", ["created", "not-created"], False, False),
        ("qa", "ambiguous", ["created", "not-created"], False, False),
        ("chat", "claimed", ["not-created"], False, True),
    ]
    assert all(HOSTILE in row["label"] for row in found[1:3])
    assert [row["id"] for row in rows(admin, "unresolved", "limit=2&offset=1")] == [row["id"] for row in found[1:3]]


@pytest.mark.promise("pages", "The page lists everything that needs a person, and how much of each kind there is.")
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
    first = admin.get("/api/entries").json()
    assert first["lists"] == {which: len(one) for which, one in found.items()}
    # Without a name, the first list that has entries.
    assert (first["which"], [row["label"] for row in first["rows"]]) == ("doubled", ["twice"])


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
    assert admin.get("/api/entries", headers={"Assistant-Search": "x" * 2001}).status_code == 422


@pytest.mark.promise("pages", "A user sees only the tries and entries of DAGs that Airflow lets the user read.")
def test_users_see_the_rows_of_their_dags(as_user, fill, known_dags):
    dag_ids = ("mine.kb", "other.kb", "airflow assistant", "deleted.kb")
    for dag_id in dag_ids:
        fill.load(dag_id)
        fill.attempt(dag_id, "ambiguous", dag_id=dag_id)
    mine, viewer = as_user("mine", "ADMIN"), as_user("viewer")
    assert {row["task"]["dag_id"] for row in tries(mine)["rows"]} == {"mine.kb"}
    assert {row["task"]["dag_id"] for row in rows(mine, "unresolved")} == {"mine.kb"}
    assert mine.get("/api/entries").json()["lists"]["unresolved"] == 1
    assert len(mine.get("/api/documents").json()["days"]) == 1
    assert mine.get("/api/context").json()["sites"][0]["sources"] == ["mine.kb.load"]
    seen = rows(viewer, "unresolved")
    assert {row["task"]["dag_id"] for row in seen} == set(dag_ids)
    assert {row["task"]["path"] for row in seen if row["task"]["dag_id"] not in known_dags} == {None}
    assert not any(row["outcomes"] for row in seen)
    assert viewer.get("/api/context").json()["may_settle"] is False
    assert all(row["outcomes"] for row in rows(as_user("user"), "unresolved"))


# -- ledgers that cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_without_a_ledger_there_is_a_sentence(page, admin, ledger_home, known_dags):
    reply = admin.get(f"/api/{page}")
    assert (reply.status_code, "[assistant] ledger_conn_id" in reply.json()["problem"]) == (200, True)
    # Looking for a ledger creates none.
    assert list(ledger_home.iterdir()) == []


PROBLEMS = {
    "no connection": ("", "AirflowNotFoundException"),
    "no SQL": ("http://localhost", "This API server cannot open"),
    "no file": ("sqlite:////nowhere/ledger.db", "does not exist on this API server"),
    "unreachable": ("postgres://sesame:sesame-1234@127.0.0.1:1/x", "OperationalError"),
}


@pytest.mark.parametrize(("uri", "text"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_ledger_that_cannot_be_read_is_a_sentence(uri, text, admin, ledger_home, monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "pages_ledger")
    if uri:
        monkeypatch.setenv("AIRFLOW_CONN_PAGES_LEDGER", uri)
    problem = admin.get("/api/tries").json()["problem"]
    assert text in problem
    assert "sesame" not in problem + caplog.text


def test_a_database_of_another_application_is_not_changed(admin, ledger_home, monkeypatch):
    file = ledger_home / "other.db"
    sqlite3.connect(file).execute("CREATE TABLE t (x)")
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "pages_ledger")
    monkeypatch.setenv("AIRFLOW_CONN_PAGES_LEDGER", f"sqlite:///{file}")
    assert admin.get("/api/tries").json()["problem"]
    assert sqlite3.connect(file).execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


@pytest.mark.parametrize("version", [0, 99])
def test_a_ledger_of_another_version_is_a_sentence(version, admin, ledger):
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE assistant_ledger SET version = {version}")
    assert "another version" in tries(admin)["problem"]


def test_an_invalid_option_is_a_sentence(admin, ledger, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", "1")
    assert "lease_seconds" in admin.get("/api/entries").json()["problem"]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "offset=-1", "offset=10001", "outcome=other", "kind=other"])
def test_other_positions_are_refused(query, admin, ledger):
    assert admin.get(f"/api/tries?{query}").status_code == 422
