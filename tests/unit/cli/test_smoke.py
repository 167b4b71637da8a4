"""The smoke command."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.sandbox import SandboxServer

STEPS = [
    "read limits",
    "upload document",
    "sync chat",
    "submit async chat",
    "poll async chat",
    "send feedback",
    "read statistics",
]
SITE = "/m2m/sites/acme-docs"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.cli.smoke.POLL_INTERVAL", 0.0)


def verdicts(ran):
    return {step["step"]: step["verdict"] for step in ran.json["steps"]}


def test_every_step_of_the_specification_in_its_order(cli, connection, service):
    ran = cli("smoke")
    assert ran.code == 0
    assert [line[:2] for line in ran.lines[:7]] == [["ok", step] for step in STEPS]
    assert all(line[2].endswith(" s") and line[3] for line in ran.lines[:7])
    (document,) = service.documents()
    assert document["title"].startswith("assistant-smoke-test-")
    assert document["title"].endswith(".txt")
    assert "status 'active'" in ran.lines[1][3]
    left, closed, rated = ran.lines[7:]
    assert left[:3] == ["left", "document", document["id"]]
    assert "manage_documents" in left[3]
    assert closed[:2] == ["closed", "session"]
    request_id = service.seen()[4][1].rpartition("/")[2]
    assert rated[:3] == ["left", "rating", request_id]
    assert service.seen()[:4] == [
        ("GET", "/m2m/tenants/acme-inc/limits"),
        ("POST", f"{SITE}/documents"),
        ("POST", f"{SITE}/chat"),
        ("POST", f"{SITE}/chat/async"),
    ]
    assert ("GET", f"{SITE}/chat/requests/{request_id}") in service.seen()
    assert service.seen()[-3:] == [
        ("POST", f"{SITE}/chat/feedback"),
        ("GET", f"{SITE}/statistics"),
        ("POST", f"{SITE}/chat/session/close"),
    ]


@pytest.mark.promise("command line", "A smoke test succeeds each time, also if the service refuses duplicates.")
def test_twice_against_a_service_that_refuses_duplicates(cli, monkeypatch, ledger_home):
    with SandboxServer() as server:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", server.conn_json(retries=0))
        runs = [cli("smoke", "-o", "json") for _ in range(2)]
    assert [ran.code for ran in runs] == [0, 0]
    uploaded = [ran.json["cleanup"][0] for ran in runs]
    assert [document["kind"] for document in uploaded] == ["document"] * 2
    assert uploaded[0]["id"] != uploaded[1]["id"]


def test_a_document_that_is_there_already_is_a_success(cli, connection, service):
    service.answer("status:409", path="/documents$")
    ran = cli("smoke", "-o", "json")
    assert (ran.code, service.documents()) == (0, [])
    assert "409" in ran.json["steps"][1]["detail"]
    assert {left["kind"] for left in ran.json["cleanup"]} == {"session", "rating"}


def test_the_document_is_removed_where_documents_are_managed(cli, connect, service):
    connect(manage_documents=True)
    document, session, rating = cli("smoke", "-o", "json").json["cleanup"]
    assert (document["kind"], document["action"], document["reason"]) == ("document", "removed", "")
    assert (session["action"], rating["action"]) == ("closed", "left")
    assert service.documents() == []


def test_what_could_not_be_removed_is_left(cli, connect, service):
    connect(manage_documents=True)
    service.answer("status:500", path="bulk-delete$")
    service.answer("status:404", path="session/close$")
    result = cli("smoke", "-o", "json").json
    assert result["passed"] is True
    document, session, rating = result["cleanup"]
    assert (document["action"], session["action"], rating["action"]) == ("left", "left", "left")
    assert "500" in document["reason"]
    assert "404" in session["reason"]
    (stored,) = service.documents()
    assert document["id"] == stored["id"]


def test_a_draft_is_shown(cli, connection, service):
    service.behave(document_status="draft")
    ran = cli("smoke")
    assert ran.code == 0
    assert "created with the status 'draft': the service stored it and does not use it" in ran.lines[1][3]


@pytest.mark.parametrize("loss", ["store-then-status:503", "status:502"])
def test_a_document_whose_reply_was_lost_is_named(cli, connection, service, loss):
    service.answer(loss, path="/documents$")
    result = cli("smoke", "-o", "json").json
    assert result["cleanup"][0] == {
        "kind": "document",
        "id": None,
        "action": "left",
        "reason": "the reply to its upload was lost: it may exist",
    }


def test_a_file_and_a_question_of_one_s_own(cli, connection, tmp_path, service):
    (tmp_path / "opening.txt").write_text("The shop opens at nine.")
    ran = cli("smoke", "--document", tmp_path / "opening.txt", "--question", "When does the shop open?", "-o", "json")
    assert ran.code == 0
    assert "opening.txt" in ran.json["steps"][1]["detail"]
    assert ran.json["cleanup"][0]["reason"] == "it is your file"
    assert ran.json["steps"][2]["detail"] == "The shop opens at nine."


def test_a_step_that_fails_does_not_hide_the_others(cli, connection, service):
    service.answer("status:403", path="/chat$")
    ran = cli("smoke", "-o", "json")
    assert (ran.code, ran.json["passed"], ran.json["base_url"]) == (1, False, service.url)
    assert verdicts(ran) == {step: "failed" if step == "sync chat" else "ok" for step in STEPS}


def test_what_needs_a_failed_step_is_skipped(cli, connection, service):
    service.answer("status:403", path="chat/async$", reply={"error": "async_chat_not_available_on_plan"})
    ran = cli("smoke", "-o", "json")
    assert ran.code == 1
    skipped = {"poll async chat": "skipped", "send feedback": "skipped"}
    assert verdicts(ran) == dict.fromkeys(STEPS, "ok") | {"submit async chat": "failed"} | skipped


def test_a_wrong_key_ends_it(cli, connect, service):
    connect(key="wrong-key-123")
    ran = cli("smoke", "-o", "json")
    assert ran.code == 1
    assert verdicts(ran) == dict.fromkeys(STEPS, "skipped") | {"read limits": "failed"}
    assert len(service.seen()) == 1
    assert ran.json["cleanup"] == []


def test_an_answer_that_fails_is_a_failed_step(cli, connection, service):
    service.answer("status:503", path="/chat$")
    service.behave(fail_messages="smoke")
    ran = cli("smoke", "-o", "json")
    assert verdicts(ran)["poll async chat"] == "failed"
    assert verdicts(ran)["send feedback"] == "skipped"


def test_an_answer_that_never_comes_is_a_failed_step(cli, connection, service):
    service.behave(processing_seconds=1000)
    ran = cli("smoke", "--timeout", "0", "-o", "json")
    assert verdicts(ran)["poll async chat"] == "failed"
    assert "did not end within" in ran.json["steps"][4]["detail"]


def test_another_site_and_tenant(cli, connection, service):
    ran = cli("smoke", "--site", "acme-shop", "--tenant", "nobody", "-o", "json")
    assert verdicts(ran) == dict.fromkeys(STEPS, "ok") | {"read limits": "failed"}
    assert service.documents("acme-shop")
