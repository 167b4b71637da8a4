"""Settling entries: what may become what, who may, what the next load does, and the audit log."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.ui.settle import EVENT
from tests.unit.ledger.single import claim_chat, claim_rating

ROWS = [{"title": "T", "question": f"Q {n}?", "answer": f"Answer {n}.", "category": "faq"} for n in range(3)]


def rows(client, page="ambiguous"):
    return client.get(f"/api/{page}").json()["rows"]


def settle(client, outcome, *, preview=False, **request):
    path = "/api/settle/preview" if preview else "/api/settle"
    return client.post(path, json={"outcome": outcome, **request})


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


@pytest.fixture
def load(connection, run_stored, service):
    """Load three rows; the document of the first is stored, but its reply is lost."""

    def run(lost=True, answer=""):
        if lost:
            service.answer("store-then-status:503", path="/documents/qa$")
        source = [{**row, "answer": row["answer"] + answer} for row in ROWS]
        return run_stored(AssistantLoadQAOperator, source=source, key_columns="question", source_name="kb")

    return run


@pytest.mark.promise("pages", "A load sends an ambiguous row again only if a person has settled it as not created.")
@pytest.mark.parametrize(("outcome", "sent"), [("created", 0), ("not_created", 1)])
def test_the_next_load_respects_it(outcome, sent, load, admin, service):
    load()
    (row,) = rows(admin)
    before = service.posts("/documents/qa$")
    preview = settle(admin, outcome, preview=True, ids=[row["id"]]).json()
    assert (preview["is_preview"], preview["settled"], preview["refused"]) == (True, 1, 0)
    assert ("does not send" in preview["text"]) is (outcome == "created")
    assert rows(admin) == [{**row, "age_seconds": rows(admin)[0]["age_seconds"]}] or rows(admin)[0]["id"] == row["id"]
    assert audit_lines() == []
    done = settle(admin, outcome, ids=[row["id"]]).json()
    assert (done["is_preview"], done["settled"], done["items"][0]["accepted"]) == (False, 1, True)
    assert rows(admin) == []
    load(lost=False)
    assert service.posts("/documents/qa$") - before == sent


def test_it_is_in_the_audit_log(load, admin):
    run = load()
    (row,) = rows(admin)
    settle(admin, "created", ids=[row["id"]])
    facts = {"ledger": "assistant_ledger.db", "outcome": "created", "entries": 1, "names": [row["label"]]}
    assert audit_lines() == [("admin", run.dag_id, facts)]


def test_many_at_once_and_some_are_refused(fill, admin, known_dags):
    fill.documents("ambiguous", "ambiguous", "claimed")
    found = rows(admin)
    done = settle(admin, "created", ids=[row["id"] for row in found]).json()
    assert [(item["name"], item["accepted"]) for item in done["items"]] == [
        (row["label"], row["outcome"] == "ambiguous") for row in found
    ]
    assert (done["settled"], done["refused"]) == (2, 1)
    assert "killed" in done["items"][2]["text"]
    assert "1 cannot be settled" in done["text"]
    assert [row["outcome"] for row in rows(admin)] == ["claimed"]


def test_what_changed_since_is_refused(fill, admin, known_dags):
    fill.documents("ambiguous")
    (row,) = rows(admin)
    fill.documents("ambiguous")
    for preview in (True, False):
        (item,) = settle(admin, "created", ids=[row["id"]], preview=preview).json()["items"]
        assert (item["accepted"], "changed" in item["text"]) == (False, True)
    settle(admin, "created", ids=[rows(admin)[0]["id"]])
    (item,) = settle(admin, "created", ids=[row["id"]]).json()["items"]
    assert item["accepted"] is False


def test_what_a_task_is_sending_is_refused(fill, admin, known_dags):
    fill.documents("claimed", release=False)
    (row,) = rows(admin)
    (item,) = settle(admin, "not_created", ids=[row["id"]]).json()["items"]
    assert (item["accepted"], "Wait until its task has ended." in item["text"]) == (False, True)


@pytest.mark.parametrize("outcome", ["created", "not_created"])
def test_ratings_can_be_both_and_submissions_need_their_request(outcome, ledger, admin, known_dags):
    run = RunRef("mine.kb", "r", "t", -1)
    claim_rating(ledger, run=run)
    claim_chat(ledger, run=run)
    found = {row["kind"]: row for row in rows(admin)}
    assert set(found["rating"]["outcomes"]) == {"created", "not_created"}
    done = settle(admin, outcome, ids=[row["id"] for row in found.values()]).json()
    accepted = {item["text"] for item in done["items"] if item["accepted"]}
    assert len(accepted) == (1 if outcome == "created" else 2)
    assert [row["kind"] for row in rows(admin)] == (["chat_request"] if outcome == "created" else [])


def test_superseded_documents_are_settled_as_deleted(load, admin, service):
    load(lost=False)
    load(lost=False, answer=" New.")
    found = rows(admin, "superseded")
    assert len(found) == 3
    preview = settle(admin, "deleted", preview=True, ids=[row["id"] for row in found]).json()
    assert (preview["settled"], len(rows(admin, "superseded"))) == (3, 3)
    done = settle(admin, "deleted", ids=[row["id"] for row in found[:2]]).json()
    assert (done["settled"], done["refused"]) == (2, 0)
    (left,) = rows(admin, "superseded")
    assert left["id"] == found[2]["id"]
    (again,) = settle(admin, "deleted", ids=[found[0]["id"]]).json()["items"]
    assert again["accepted"] is False
    before = service.posts("/documents/qa$")
    load(lost=False, answer=" New.")
    assert service.posts("/documents/qa$") == before


def test_stale_documents_of_findings_are_settled_as_deleted(load, connection, run_stored, admin):
    load(lost=False)
    run = run_stored(AssistantLoadQAOperator, source=ROWS[:1], key_columns="question", source_name="kb")
    place = f"/api/tasks/{run.dag_id}/{run.run_id.replace('+', '%2B')}/task/-1/findings?kind=stale"
    ids = [one for row in admin.get(place).json()["rows"] for one in row["document_ids"]]
    assert len(ids) == 2
    done = settle(admin, "deleted", document_ids=[*ids, "doc_unknown"], dag_id=run.dag_id, site_id="acme-docs").json()
    assert [item["accepted"] for item in done["items"]] == [True, True, False]
    again = run_stored(AssistantLoadQAOperator, source=ROWS[:1], key_columns="question", source_name="kb")
    assert again.xcom()["stale"] == 0


def test_stale_documents_are_counted_and_listed_until_they_are_settled(fill, ledger, admin, known_dags):
    fill.documents("created", "created", "created")
    with ledger.engine.begin() as connection:
        is_gone = documents.c.key.in_(["mine.kb-created-0", "mine.kb-created-2"])
        connection.execute(sa.update(documents).where(is_gone).values(stale_at=fill.now + timedelta(minutes=1)))
        has_no_id = documents.c.key == "mine.kb-created-2"
        connection.execute(sa.update(documents).where(has_no_id).values(document_id=None))
    found = {row["label"][-1]: row for row in rows(admin, "stale")}
    assert {number: row["document_ids"] for number, row in found.items()} == {"0": ["doc mine.kb-created-0"], "2": []}
    assert admin.get("/api/summary").json()["stale"] == 2
    ids = [row["id"] for row in found.values()]
    shown = settle(admin, "deleted", preview=True, ids=ids).json()
    assert (shown["settled"], shown["sites"][0].partition(" at ")[0]) == (2, "site 'help'")
    assert settle(admin, "deleted", ids=ids[:1]).json()["settled"] == 1
    assert admin.get("/api/summary").json()["stale"] == len(rows(admin, "stale")) == 1
    assert [settle(admin, "deleted", ids=[one]).json()["items"][0]["accepted"] for one in ids] == [False, True]
    assert rows(admin, "stale") == []


@pytest.mark.promise(
    "pages",
    "All entries of a filter are settled in one step, which is refused if the list has changed.",
)
def test_all_that_match_are_settled_in_one_step_with_one_line(fill, admin, as_user, known_dags):
    fill.documents(*["ambiguous"] * 7, "claimed", "created")
    fill.documents(*["ambiguous"] * 5, dag_id="other.kb", site_id="shop")
    matching = {"which": "ambiguous", "label_part": "kb-ambiguous-"}

    def settled(client=admin, outcome="created", *, preview=False, confirmation=None, **changes):
        request = {"matching": {**matching, **changes}}
        if confirmation:
            request["confirmation"] = confirmation
        return settle(client, outcome, preview=preview, **request)

    shown = settled(preview=True).json()
    assert (shown["is_preview"], shown["settled"], shown["refused"], len(shown["items"])) == (True, 12, 0, 10)
    assert [site.partition(" at ")[0] for site in shown["sites"]] == ["site 'help'", "site 'shop'"]
    assert len(rows(admin)) == 13
    fill.documents("ambiguous", dag_id="mine.kb", site_id="late")
    refused = settled(confirmation=shown["confirmation"])
    assert (refused.status_code, "13 entries match now" in refused.json()["detail"]) == (409, True)
    assert settled().status_code == 422
    assert audit_lines() == []

    # A user who may change only one of two DAGs settles the entries of that one.
    mine = as_user("mine", "ADMIN")
    shown = settled(mine, preview=True, site_id="help").json()
    done = settled(mine, site_id="help", confirmation=shown["confirmation"]).json()
    assert (done["is_preview"], done["settled"], done["text"].startswith("7 entries were settled as created.")) == (
        False,
        7,
        True,
    )
    ((owner, dag_id, facts),) = audit_lines()
    assert (owner, dag_id, facts["entries"], facts["outcome"]) == ("mine", "mine.kb", 7, "created")
    assert facts["filter"] == {**matching, "site_id": "help"}
    assert len(rows(admin)) == 7
    shown = settled(preview=True, outcome="not_created", label_part="").json()
    assert settled(outcome="not_created", label_part="", confirmation=shown["confirmation"]).json()["settled"] == 7
    assert rows(admin) == []
    assert [(line[1], line[2]["dags"]) for line in audit_lines()[1:]] == [(None, ["mine.kb", "other.kb"])]


def test_a_viewer_settles_nothing_that_matches(fill, as_user, known_dags):
    fill.documents("ambiguous")
    shown = settle(as_user("viewer"), "created", preview=True, matching={"which": "ambiguous"}).json()
    assert (shown["settled"], shown["refused"]) == (0, 1)
    assert "You may not change its DAG." in shown["text"]
    again = {"matching": {"which": "ambiguous"}, "confirmation": shown["confirmation"]}
    assert settle(as_user("viewer"), "created", **again).json()["settled"] == 0
    assert audit_lines() == []


def test_documents_without_an_id_are_named_by_their_key(fill, ledger, admin, known_dags):
    fill.documents("created")
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(documents).values(document_id=None))
        label = connection.scalar(sa.select(documents.c.label))
    assert settle(admin, "deleted", labels=[label], dag_id="mine.kb").json()["settled"] == 1


def test_a_document_that_several_entries_have_is_refused(fill, ledger, admin, known_dags):
    fill.documents("created", "created")
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(documents).values(document_id="doc"))
    done = settle(admin, "deleted", document_ids=["doc"], dag_id="mine.kb").json()
    assert (done["settled"], done["refused"]) == (0, 1)
    assert "matches 2 documents" in done["items"][0]["text"]


@pytest.mark.promise("pages", "Nobody settles entries of DAGs that the user may not change.")
@pytest.mark.parametrize("preview", [True, False])
def test_the_entries_of_other_dags_are_refused_and_nothing_changes(preview, fill, as_user, admin, known_dags):
    fill.documents("ambiguous", "created")
    fill.documents("ambiguous", "created", dag_id="other.kb")
    ids = {row["task"]["dag_id"]: row["id"] for row in rows(admin)}
    mine = as_user("mine", "ADMIN")
    refused = settle(mine, "created", preview=preview, ids=[ids["mine.kb"], ids["other.kb"]])
    assert (refused.status_code, refused.json()) == (403, {"detail": "Forbidden"})
    # The name of a readable DAG does not open the documents of another one.
    theirs = {"document_ids": ["doc other.kb-created-1", "doc mine.kb-created-1"], "dag_id": "mine.kb"}
    assert settle(mine, "deleted", preview=preview, **theirs).status_code == 403
    assert len(rows(admin)) == 2
    assert settle(mine, "created", preview=preview, ids=[ids["mine.kb"]]).json()["settled"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"outcome": "created"},
        {"outcome": "gone", "ids": ["a"]},
        {"outcome": "created", "ids": ["a"]},
        {"outcome": "created", "ids": ["WyJ4Il0="]},
        {"outcome": "created", "ids": [base64.urlsafe_b64encode(b"[" * 70_000).decode()]},
        {"outcome": "created", "document_ids": ["a"]},
        {"outcome": "created", "ids": ["a"] * 501},
        {"outcome": "created", "ids": [], "more": 1},
        {"outcome": "created", "matching": {"which": "stale"}, "confirmation": "x"},
        {"outcome": "deleted", "matching": {"which": "other"}, "confirmation": "x"},
    ],
)
def test_other_requests_are_invalid(request_, admin, ledger):
    assert admin.post("/api/settle", json=request_).status_code == 422


def test_outcomes_are_for_their_kind_of_entry(load, admin):
    load(lost=False)
    load(lost=True, answer=" New.")
    (older, *_), (ambiguous,) = rows(admin, "superseded"), rows(admin)
    assert settle(admin, "created", ids=[older["id"]]).status_code == 422
    assert settle(admin, "deleted", ids=[ambiguous["id"]]).status_code == 422


def test_without_a_ledger_there_is_a_sentence(admin, ledger_home, fill, known_dags):
    fill.documents("ambiguous")
    (row,) = rows(admin)
    (ledger_home / "assistant_ledger.db").unlink()
    done = settle(admin, "created", ids=[row["id"]]).json()
    assert (done["settled"], "no ledger" in done["text"]) == (0, True)
    assert settle(admin, "created", ledger="other", ids=[row["id"]]).status_code == 404
