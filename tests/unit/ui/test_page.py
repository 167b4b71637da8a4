"""What the page gets about the ledger."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import ChatScope, Ledger, RunRef, service_of, sqlite_engine
from airflow_provider_assistant.ledger.claims import Claim, ClaimOutcome
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.provider_info import get_provider_info
from tests.sites import site_at
from tests.unit.ledger.single import accepted, chat_claim, chats, claim_rating, submit
from tests.unit.ui.conftest import HOSTILE, SITE_URL

PAGES = ("summary", "loads", "documents", "ambiguous", "superseded", "stale", "requests")


def test_the_context_has_sites_and_sources(admin, fill, known_dags):
    fill.load(hours=2)
    fill.load("other.kb", site_id="shop", service="b.example", tenant_id="acme")
    found = admin.get("/api/context").json()
    assert [(one["id"], one["name"]) for one in found["ledgers"]] == [("", "assistant_ledger.db")]
    assert found["sites"] == [
        {"site_id": "shop", "service": "b.example", "tenant_id": "acme", "sources": ["other.kb.load"]},
        {"site_id": "help", "service": "h.example", "tenant_id": None, "sources": ["mine.kb.load"]},
    ]
    assert (found["problem"], found["lake"], found["may_settle"]) == (None, None, True)


def test_loads_are_filtered_and_paged(admin, fill, known_dags):
    for hours in range(1, 6):
        fill.load(hours=hours, outcome="failed" if hours == 2 else "succeeded", error=HOSTILE)
    fill.load("other.kb", hours=9)
    found = admin.get("/api/loads?limit=2&offset=1").json()
    assert (found["total"], found["is_capped"], found["limit"], found["offset"]) == (6, False, 2, 1)
    first = found["rows"][0]
    assert (first["outcome"], first["error"], first["counts"]["created"]) == ("failed", HOSTILE, 9)
    assert first["task"]["path"] == "/dags/mine.kb/runs/run%202/tasks/load"
    assert admin.get("/api/loads?outcome=failed").json()["total"] == 1
    assert admin.get("/api/loads?source=other.kb.load").json()["total"] == 1
    assert admin.get("/api/loads?site=shop").json()["total"] == 0


def test_a_try_without_an_end_was_killed_unless_its_task_runs(admin, fill, run_stored):
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk import task
    from airflow.utils.session import create_session

    @task(task_id="load")
    def load():
        """Do nothing."""

    run = run_stored(load)
    facts = {"dag_id": run.dag_id, "run_id": run.run_id, "outcome": None, "ended_at": None}
    with create_session() as session:
        instance = session.scalars(sa.select(TaskInstance).filter_by(dag_id=run.dag_id)).one()
        instance.state = "running"
        instance.start_date = fill.now - timedelta(minutes=30)
    fill.load(**facts, load_id="killed", hours=1)
    fill.load(**facts, load_id="running", hours=0.4)
    outcomes = {row["load_id"]: row["outcome"] for row in admin.get("/api/loads").json()["rows"]}
    assert outcomes == {"killed": "unfinished", "running": "running"}


def test_the_summary_answers(admin, fill, known_dags):
    fill.load(hours=30, throttled=9)
    fill.load(hours=3, outcome="failed")
    fill.load("other.kb", hours=2)
    fill.documents("ambiguous", "claimed", "created")
    found = admin.get("/api/summary").json()
    assert [(one["load"]["source"], one["load"]["outcome"]) for one in found["sources"]] == [
        ("mine.kb.load", "failed"),
        ("other.kb.load", "succeeded"),
    ]
    numbers = ("loads_day", "failed_day", "created_day", "requests_day", "throttled_day")
    assert [found[name] for name in numbers] == [2, 1, 18, 24, 6]
    assert [found[name] for name in ("ambiguous", "superseded", "stale", "open_requests")] == [2, 0, 0, 0]
    assert datetime.fromisoformat(found["ambiguous_since"]) <= datetime.now(UTC)
    assert found["lake_problem"]["code"] == "no_lake"
    assert "lake_path" in found["lake_problem"]["text"]


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
        fill.load(load_id=str(index), map_index=index, outcome=outcome)
    fill.load(load_id="retry of another run", map_index=0, hours=30, outcome="failed")
    (source,) = admin.get("/api/summary").json()["sources"]
    assert (source["load"]["outcome"], source["load"]["task"]["map_index"]) == ("failed", 1)
    assert source["load"]["task"]["path"].endswith("/tasks/load/mapped/1")


def test_documents_add_up_over_days(admin, fill, known_dags):
    for number, days in enumerate((200, 3, 3, 1)):
        fill.load(hours=24 * days, load_id=str(number))
    days = admin.get("/api/documents?days=30").json()["days"]
    assert [(day["created"], day["changed"], day["documents"]) for day in days] == [(18, 2, 24), (9, 1, 32)]
    assert len(admin.get("/api/documents?days=366").json()["days"]) == 3


def test_ambiguous_entries_are_listed_with_what_they_can_become(admin, fill, ledger, known_dags):
    fill.documents("ambiguous", "claimed", "created")
    run = RunRef("mine.kb", "r", "t", -1)
    chat = chats(ledger, run=run, site_id="help")
    chat.commit_and_claim((), [chat_claim(chat)])
    found = admin.get("/api/ambiguous").json()
    assert found["total"] == 3
    assert [(row["kind"], row["outcome"], row["outcomes"]) for row in found["rows"]] == [
        ("document", "ambiguous", ["created", "not_created"]),
        ("document", "claimed", ["not_created"]),
        ("chat_request", "claimed", ["not_created"]),
    ]
    assert [row["may_be_under_way"] for row in found["rows"]] == [False, False, True]
    assert [row["may_settle"] for row in found["rows"]] == [True, True, False]
    assert all(HOSTILE in row["label"] for row in found["rows"][:2])
    assert [row["id"] for row in admin.get("/api/ambiguous?limit=2&offset=1").json()["rows"]] == [
        row["id"] for row in found["rows"][1:]
    ]


def test_entries_are_filtered_by_site_source_kind_and_key(admin, fill, ledger, known_dags):
    fill.documents("ambiguous", "claimed", "ambiguous")
    fill.documents("ambiguous", dag_id="other.kb", site_id="shop")
    claim_rating(ledger, run=RunRef("mine.kb", "r", "t", -1))
    with ledger.engine.begin() as connection:
        connection.execute(sa.insert(documents).from_select(documents.c.keys(), _at_other_service()))

    def found(query="", search=""):
        reply = admin.get(f"/api/ambiguous?{query}", headers={"Assistant-Search": quote(search)} if search else {})
        return reply.json()["total"]

    service = service_of(SITE_URL)
    assert found() == 6
    assert [found(f"kind={kind}") for kind in ("document", "rating", "chat_request")] == [5, 1, 0]
    assert [found(f"site={site}") for site in ("help", "shop", "docs", "none")] == [3, 2, 1, 0]
    assert [found(f"site=shop&service={one}") for one in (service, "b.example", "c")] == [1, 1, 0]
    assert [found(f"site=shop&service=b.example&tenant={one}") for one in ("acme", "other")] == [0, 0]
    assert [found(f"source={one}") for one in ("mine.kb.load", "other.kb.load", "x")] == [3, 2, 0]
    assert [found(search=one) for one in ("MBIGUOUS-0", "%", "<script>", "\x07=cmd()", "é")] == [3, 0, 5, 5, 0]
    assert found("kind=document&site=help&source=mine.kb.load", "ambiguous-2") == 1
    assert admin.get("/api/ambiguous", headers={"Assistant-Search": "x" * 2001}).status_code == 422


def _at_other_service():
    """The entries of site shop once more, at a service of another name."""
    changed = {"scope": documents.c.scope + "'", "service": "b.example"}
    columns = [sa.literal(changed[c.key]) if c.key == "service" else changed.get(c.key, c) for c in documents.c]
    return sa.select(*columns).where(documents.c.site_id == "shop")


def test_what_a_living_task_sends_is_under_way(admin, fill, known_dags):
    fill.documents("claimed", release=False)
    (row,) = admin.get("/api/ambiguous").json()["rows"]
    assert (row["may_be_under_way"], row["may_settle"]) == (True, False)


def test_superseded_documents_have_their_older_ids(admin, fill, ledger, known_dags):
    fill.documents("created", "created")
    with ledger.engine.begin() as connection:
        key = documents.c.key == "mine.kb-created-1"
        connection.execute(sa.update(documents).where(key).values(superseded='["old-1", "old-2"]'))
    found = admin.get("/api/superseded").json()
    assert (found["total"], found["rows"][0]["document_ids"]) == (1, ["old-1", "old-2"])


def test_open_requests_of_batches_and_single_chats(admin, ledger, known_dags):
    run = RunRef("mine.kb", "r", "ask", -1)
    submit(ledger, lambda: accepted("req \ud83d"), run=run)
    scope = ChatScope(site_at(SITE_URL), "async", "b")
    with ledger.chat_requests(scope=scope, run=run) as memory:
        claim = Claim("k", "label", None)
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([ClaimOutcome(claim, "created", "hash", "req-2")], ())
    found = admin.get("/api/requests").json()
    assert found["total"] == 2
    assert {(row["request_id"], row["is_batch"]) for row in found["rows"]} == {("req \\ud83d", False), ("req-2", True)}
    assert admin.get("/api/summary").json()["open_requests"] == 2


@pytest.mark.promise("pages", "A user sees only the loads and entries of DAGs that Airflow lets the user read.")
def test_users_see_the_rows_of_their_dags(as_user, fill, known_dags):
    for dag_id in ("mine.kb", "other.kb", "airflow assistant", "deleted.kb"):
        fill.load(dag_id)
        fill.documents("ambiguous", dag_id=dag_id)
    mine, viewer = as_user("mine", "ADMIN"), as_user("viewer")
    assert {row["task"]["dag_id"] for row in mine.get("/api/loads").json()["rows"]} == {"mine.kb"}
    assert {row["task"]["dag_id"] for row in mine.get("/api/ambiguous").json()["rows"]} == {"mine.kb"}
    assert mine.get("/api/summary").json()["ambiguous"] == 1
    assert mine.get("/api/context").json()["sites"][0]["sources"] == ["mine.kb.load"]
    seen = viewer.get("/api/ambiguous").json()["rows"]
    assert {row["task"]["dag_id"] for row in seen} == {"mine.kb", "other.kb", "airflow assistant", "deleted.kb"}
    assert {row["task"]["path"] for row in seen if row["task"]["dag_id"] not in known_dags} == {None}
    assert not any(row["may_settle"] for row in seen)
    assert viewer.get("/api/context").json()["may_settle"] is False
    rows = as_user("user").get("/api/ambiguous").json()["rows"]
    assert all(row["may_settle"] for row in rows)


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
@pytest.mark.parametrize("page", ["summary", "ambiguous"])
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
        connection.exec_driver_sql(f"UPDATE assistant_ledger_schema SET version = {version}")
    problem = admin.get("/api/loads").json()["problem"]
    assert problem["code"] == "ledger_version"
    assert "another version" in problem["text"]


def test_an_invalid_option_is_a_sentence(admin, ledger, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", "1")
    assert "lease_seconds must be" in admin.get("/api/loads").json()["problem"]["text"]


def test_ledgers_of_connections_can_be_selected_and_no_others(admin, ledger_home, monkeypatch):
    for name in ("team", "secret"):
        Ledger(sqlite_engine(ledger_home / f"{name}.db")).close()
        monkeypatch.setenv(f"AIRFLOW_CONN_LEDGER_{name.upper()}", f"sqlite:///{ledger_home / name}.db")
    monkeypatch.setenv(
        "AIRFLOW_CONN_ASSISTANT_TEAM", '{"conn_type": "assistant", "extra": {"ledger_conn_id": "ledger_team"}}'
    )
    found = admin.get("/api/context").json()
    # The default file does not exist here.
    assert ([one["id"] for one in found["ledgers"]], found["problem"]) == (["ledger_team"], None)
    assert admin.get("/api/loads?ledger=ledger_team").json()["problem"] is None
    refused = admin.get("/api/loads?ledger=ledger_secret")
    assert (refused.status_code, refused.json()) == (
        404,
        {"detail": "There is no ledger with this id. Reload the page."},
    )


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "offset=-1", "offset=10001", "outcome=other"])
def test_other_positions_are_refused(query, admin, ledger):
    assert admin.get(f"/api/loads?{query}").status_code == 422


def test_the_option_of_the_lake_is_declared():
    assert "lake_path" in get_provider_info()["config"]["assistant"]["options"]
