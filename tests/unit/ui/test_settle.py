"""Settling entries: what may become what, who may, and the audit log."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import Site
from airflow_provider_assistant.ui.settle import EVENT
from tests.unit.ui.test_lists import rows

SHOP = Site("b.example", "shop")


def preview(client, outcome, **request):
    return client.post("/api/settle/preview", json={"outcome": outcome, **request})


def settle(client, outcome, **request):
    """Confirm what the preview shows; return the reply."""
    shown = preview(client, outcome, **request)
    if shown.status_code != 200:
        return shown
    confirmed = {"confirmation": shown.json()["confirmation"]}
    return client.post("/api/settle", json={"outcome": outcome, **request, **confirmed})


def audit_lines():
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.scalars(sa.select(Log).where(Log.event == EVENT).order_by(Log.id))
        return [(line.owner, line.dag_id, json.loads(line.extra)) for line in found]


@pytest.fixture(autouse=True)
def _no_lines(_airflow_database):
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        session.execute(sa.delete(Log).where(Log.event == EVENT))


@pytest.mark.parametrize(("outcome", "state"), [("created", "created"), ("not-created", "failed")])
def test_an_entry_is_settled_after_its_preview(outcome, state, fill, admin, known_dags):
    fill.attempt("a", "ambiguous")
    (row,) = rows(admin, "unresolved")
    shown = preview(admin, outcome, ids=[row["id"]]).json()
    assert (shown["settled"], shown["labels"]) == (1, ["a"])
    assert ("do not send them again" in shown["text"]) is (outcome == "created")
    assert [one["id"] for one in rows(admin, "unresolved")] == [row["id"]]
    assert audit_lines() == []
    done = settle(admin, outcome, ids=[row["id"]]).json()
    assert (done["settled"], done["sites"]) == (1, ["site 'help' at service 'h.example'"])
    assert rows(admin, "unresolved") == []
    assert audit_lines() == [("admin", "mine.kb", {"outcome": outcome, "entries": 1, "names": ["a"]})]
    with fill.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT state FROM assistant_attempts").scalars().all() == [state]


def test_what_changed_since_is_refused(fill, admin, known_dags):
    fill.attempt("a", "ambiguous", hours=2)
    (row,) = rows(admin, "unresolved")
    fill.attempt("a", "ambiguous")
    refused = preview(admin, "created", ids=[row["id"]]).json()
    assert (refused["settled"], "1: Settled already, or changed since" in refused["text"]) == (0, True)
    assert settle(admin, "created", ids=[rows(admin, "unresolved")[0]["id"]]).json()["settled"] == 1


def test_what_a_task_is_sending_stays_as_it_is(fill, admin, known_dags):
    fill.attempt("a", "claimed", hours=0)
    fill.attempt("b", "claimed")
    done = settle(admin, "not-created", ids=[row["id"] for row in rows(admin, "unresolved")]).json()
    assert (done["settled"], "1: A task may be sending it right now." in done["text"]) == (1, True)
    assert [row["label"] for row in rows(admin, "unresolved")] == ["a"]


@pytest.mark.parametrize("outcome", ["created", "not-created"])
def test_ratings_can_be_both_and_submissions_need_their_request(outcome, fill, admin, known_dags):
    fill.attempt("s", "ambiguous", kind="chat", details={"mode": "async", "session_id": "s"})
    fill.attempt("r", "ambiguous", kind="rating", details={"rating": "good", "remote_id": "r"})
    done = settle(admin, outcome, ids=[row["id"] for row in rows(admin, "unresolved")]).json()
    assert done["settled"] == (1 if outcome == "created" else 2)
    assert [row["kind"] for row in rows(admin, "unresolved")] == (["chat"] if outcome == "created" else [])


@pytest.mark.parametrize("which", ["superseded", "stale", "draft"])
def test_outdated_documents_are_settled_as_removed(which, fill, admin, known_dags):
    for label in ("a", "b"):
        fill.attempt(label, "created", hours=3, status="draft", gone=which == "stale")
        if which == "superseded":
            fill.attempt(label, "created", content="2", status="active")
    first, second = rows(admin, which)
    done = settle(admin, "removed", ids=[first["id"]]).json()
    assert done["settled"] == 1
    assert [row["id"] for row in rows(admin, which)] == [second["id"]]
    assert settle(admin, "removed", ids=[first["id"]]).json()["settled"] == 0


def test_a_document_that_may_exist_twice_is_settled_as_existing_once(fill, admin, known_dags):
    fill.attempt("a", "ambiguous", hours=2)
    fill.attempt("a", "created")
    (row,) = rows(admin, "doubled")
    assert row["outcomes"] == ["not-created", "removed"]
    assert settle(admin, "not-created", ids=[row["id"]]).json()["settled"] == 1
    assert rows(admin, "doubled") == []


@pytest.mark.promise(
    "pages", "Documents are settled by a list of their ids, and an id that the ledger does not know changes nothing."
)
def test_documents_are_settled_as_removed_by_their_ids(fill, admin, known_dags):
    key = fill.attempt("a", "created", remote_id="doc-1", gone=True)
    fill.attempt("b", "created", remote_id="doc-2", site=SHOP)
    # The beginning of a key, and a document of another site, are not documents of this site.
    ids = ["doc-1", key[:6], "doc-2"]
    done = settle(admin, "removed", document_ids=ids, site_id="help", service="h.example").json()
    assert (done["settled"], done["labels"]) == (1, ["a"])
    assert "2: Not a document of this site in the ledger." in done["text"]
    assert rows(admin, "stale") == []
    assert preview(admin, "removed", document_ids=["doc-2"], site_id="shop", service="b.example").json()["settled"] == 1


@pytest.mark.promise("pages", "Entries are settled in one step, which is refused if the list has changed.")
def test_the_entries_of_a_list_are_settled_in_one_step_with_one_line(fill, admin, as_user, known_dags):
    for number in range(7):
        fill.attempt(f"kb {number}", "ambiguous")
    for number in range(5):
        fill.attempt(f"kb {number}", "ambiguous", dag_id="other.kb", site=SHOP)
    ids = [row["id"] for row in rows(admin, "unresolved")]

    shown = preview(admin, "created", ids=ids).json()
    assert (shown["settled"], len(shown["labels"])) == (12, 10)
    assert [site.partition(" at ")[0] for site in shown["sites"]] == ["site 'help'", "site 'shop'"]
    late = {"outcome": "created", "ids": ids[1:], "confirmation": shown["confirmation"]}
    refused = admin.post("/api/settle", json=late)
    assert (refused.status_code, "11 entries match now" in refused.json()["detail"]) == (409, True)
    assert admin.post("/api/settle", json={**late, "confirmation": None}).status_code == 422
    assert audit_lines() == []
    assert settle(admin, "not-created", ids=ids).json()["settled"] == 12
    assert rows(admin, "unresolved") == []
    ((owner, dag_id, facts),) = audit_lines()
    assert (owner, dag_id, facts["entries"], facts["outcome"]) == ("admin", None, 12, "not-created")
    assert facts["dags"] == ["mine.kb", "other.kb"]


@pytest.mark.promise("pages", "Nobody settles entries of DAGs that the user may not change.")
def test_the_entries_of_other_dags_are_refused_and_nothing_changes(fill, as_user, admin, known_dags):
    for dag_id in known_dags:
        fill.attempt(f"a of {dag_id}", "ambiguous", dag_id=dag_id)
        fill.attempt(f"b of {dag_id}", "created", dag_id=dag_id, remote_id=f"doc of {dag_id}")
    ids = {row["task"]["dag_id"]: row["id"] for row in rows(admin, "unresolved")}
    mine = as_user("mine", "ADMIN")
    theirs = {"document_ids": ["doc of other.kb", "doc of mine.kb"], "site_id": "help", "service": "h.example"}
    for path in ("/api/settle/preview", "/api/settle"):
        body = {"outcome": "created", "ids": [ids["mine.kb"], ids["other.kb"]], "confirmation": "x"}
        refused = mine.post(path, json=body)
        assert (refused.status_code, refused.json()) == (403, {"detail": "Forbidden"})
        assert mine.post(path, json={"outcome": "removed", **theirs, "confirmation": "x"}).status_code == 403
    assert len(rows(admin, "unresolved")) == 2
    assert settle(mine, "created", ids=[ids["mine.kb"]]).json()["settled"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"outcome": "created"},
        {"outcome": "gone", "ids": ["a"]},
        {"outcome": "created", "ids": ["a"]},
        {"outcome": "created", "ids": [["a", "b"]]},
        {"outcome": "created", "ids": [["a", "b", 1]], "document_ids": ["a"]},
        {"outcome": "created", "document_ids": ["a"], "site_id": "help", "service": "s"},
        {"outcome": "removed", "document_ids": ["a"], "site_id": "help"},
        {"outcome": "created", "ids": [["a", "b", 1]] * 501},
        {"outcome": "created", "ids": [], "more": 1},
    ],
)
def test_other_requests_are_invalid(request_, admin, ledger):
    assert admin.post("/api/settle", json={**request_, "confirmation": "x"}).status_code == 422


def test_without_a_ledger_there_is_a_sentence(admin, ledger_home, fill, known_dags):
    fill.attempt("a", "ambiguous")
    (row,) = rows(admin, "unresolved")
    (ledger_home / "assistant_ledger.db").unlink()
    shown = preview(admin, "created", ids=[row["id"]]).json()
    assert (shown["settled"], "no ledger" in shown["text"]) == (0, True)
