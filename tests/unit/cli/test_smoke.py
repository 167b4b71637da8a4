"""The smoke command."""

from __future__ import annotations

import os
import signal

import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from tests.unit.cli.conftest import when

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


@pytest.fixture
def smoke(cli, connection):
    return lambda *argv: cli("smoke", "-o", "json", *argv)


def verdicts(ran):
    return {step["step"]: step["verdict"] for step in ran.json["steps"]}


def cleanup(ran):
    return {one["kind"]: one for one in ran.json["cleanup"]}


@pytest.mark.promise("command line", "A smoke test tries the steps of the specification, and names what it leaves.")
def test_every_step_of_the_specification_in_its_order(smoke, cli, service):
    ran = smoke()
    assert (ran.code, ran.json["passed"], ran.json["base_url"]) == (0, True, service.url)
    assert list(verdicts(ran).items()) == [(step, "ok") for step in STEPS]
    assert all(step["seconds"] >= 0 and step["detail"] for step in ran.json["steps"])
    (document,) = service.documents()
    assert document["title"].startswith("assistant-smoke-test-")
    request_id = service.seen()[4][1].rpartition("/")[2]
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
    left = cleanup(ran)
    assert [(one["kind"], one["action"]) for one in left.values()] == [
        ("document", "left"),
        ("session", "closed"),
        ("rating", "left"),
    ]
    assert (left["document"]["id"], left["rating"]["id"]) == (document["id"], request_id)
    assert "manage_documents" in left["document"]["reason"]
    shown = cli("smoke", "-o", "plain")
    assert shown.lines[0] == ["step", "verdict", "seconds", "detail"]
    assert shown.lines[-1] == ["All steps work."]
    assert "which stays there" in shown.err


@pytest.mark.promise("command line", "A smoke test succeeds each time, also if the service refuses duplicates.")
def test_twice_against_a_service_that_refuses_duplicates(cli, monkeypatch, ledger_home):
    with SandboxServer() as server:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", server.conn_json(retries=0))
        runs = [cli("smoke", "-o", "json") for _ in range(2)]
    assert [ran.code for ran in runs] == [0, 0]
    assert len({cleanup(ran)["document"]["id"] for ran in runs}) == 2


def test_a_document_that_is_there_already_is_a_success(smoke, service):
    service.answer("status:409", path="/documents$")
    ran = smoke()
    assert (ran.code, service.documents(), set(cleanup(ran))) == (0, [], {"session", "rating"})
    assert "409" in ran.json["steps"][1]["detail"]


def test_the_document_is_removed_where_documents_are_managed(smoke, connect, service):
    connect(manage_documents=True)
    document = cleanup(smoke())["document"]
    assert (document["action"], document["reason"], service.documents()) == ("removed", "", [])
    service.answer("status:500", path="bulk-delete$")
    service.answer("status:404", path="session/close$")
    ran = smoke()
    left = cleanup(ran)
    assert (ran.code, [one["action"] for one in left.values()]) == (0, ["left"] * 3)
    assert ("500" in left["document"]["reason"], "404" in left["session"]["reason"]) == (True, True)
    (stored,) = service.documents()
    assert left["document"]["id"] == stored["id"]


@pytest.mark.parametrize("loss", ["store-then-status:503", "status:502"])
def test_a_document_whose_reply_was_lost_is_named(smoke, service, loss):
    service.answer(loss, path="/documents$")
    document = cleanup(smoke())["document"]
    assert (document["id"], document["action"]) == (None, "left")
    assert document["reason"] == "the reply to its upload was lost: it may exist"


def test_a_file_and_a_question_of_one_s_own_on_another_site(smoke, tmp_path, service):
    (tmp_path / "opening.txt").write_text("The shop opens at nine.")
    own = ("--document", tmp_path / "opening.txt", "--question", "When does the shop open?")
    ran = smoke(*own, "--site", "acme-shop", "--tenant", "nobody")
    assert verdicts(ran) == dict.fromkeys(STEPS, "ok") | {"read limits": "failed"}
    assert "opening.txt" in ran.json["steps"][1]["detail"]
    assert ran.json["steps"][2]["detail"] == "The shop opens at nine."
    assert cleanup(ran)["document"]["reason"] == "it is your file"
    assert len(service.documents("acme-shop")) == 1
    service.behave(document_status="draft")
    assert "created with the status 'draft': the service stored it" in smoke().json["steps"][1]["detail"]


@pytest.mark.promise("command line", "A step that fails hides no other, and what needs it is skipped.")
def test_a_step_that_fails_hides_no_other(smoke, service):
    service.answer("status:403", path="/chat$")
    ran = smoke()
    assert (ran.code, ran.json["passed"]) == (1, False)
    assert verdicts(ran) == dict.fromkeys(STEPS, "ok") | {"sync chat": "failed"}
    service.answer("status:403", path="chat/async$", reply={"error": "async_chat_not_available_on_plan"})
    skipped = {"poll async chat": "skipped", "send feedback": "skipped"}
    assert verdicts(smoke()) == dict.fromkeys(STEPS, "ok") | {"submit async chat": "failed"} | skipped
    service.behave(processing_seconds=1000)
    ran = smoke("--timeout", "0")
    assert verdicts(ran)["poll async chat"] == "failed"
    assert "did not end within" in ran.json["steps"][4]["detail"]
    service.behave(processing_seconds=0, fail_messages="smoke")
    assert verdicts(smoke())["poll async chat"] == "failed"


def test_a_wrong_key_ends_it(smoke, connect, service):
    connect(key="wrong-key-123")
    ran = smoke()
    assert (ran.code, len(service.seen()), ran.json["cleanup"]) == (1, 1, [])
    assert verdicts(ran) == dict.fromkeys(STEPS, "skipped") | {"read limits": "failed"}


def test_ctrl_c_names_what_it_leaves(smoke, service):
    service.behave(processing_seconds=1000)
    polled = f"{SITE}/chat/requests/"
    killer = when(lambda: service.journal("GET", polled), lambda: os.kill(os.getpid(), signal.SIGINT))
    ran = smoke()
    killer.join()
    assert (ran.code, ran.json["passed"], list(verdicts(ran))) == (130, False, STEPS[:4])
    assert set(cleanup(ran)) == {"document", "session"}
