"""The smoke command."""

from __future__ import annotations

import pytest

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
    assert [line[:2] for line in ran.lines] == [["ok", step] for step in STEPS]
    assert all(line[2].endswith(" s") and line[3] for line in ran.lines)
    request_id = service.seen()[4][1].rpartition("/")[2]
    assert service.seen()[:4] == [
        ("GET", "/m2m/tenants/acme-inc/limits"),
        ("POST", f"{SITE}/documents"),
        ("POST", f"{SITE}/chat"),
        ("POST", f"{SITE}/chat/async"),
    ]
    assert ("GET", f"{SITE}/chat/requests/{request_id}") in service.seen()
    assert service.seen()[-2:] == [("POST", f"{SITE}/chat/feedback"), ("GET", f"{SITE}/statistics")]


def test_the_result_for_a_program(cli, connection, service):
    result = cli("smoke", "-o", "json").json
    assert (result["passed"], result["base_url"]) == (True, service.url)
    assert [step["step"] for step in result["steps"]] == STEPS
    assert all(set(step) == {"step", "verdict", "seconds", "detail"} for step in result["steps"])


def test_a_file_and_a_question_of_one_s_own(cli, connection, tmp_path, service):
    (tmp_path / "opening.md").write_text("The shop opens at nine.")
    ran = cli("smoke", "--document", tmp_path / "opening.md", "--question", "When does the shop open?", "-o", "json")
    assert ran.code == 0
    assert "opening.md" in ran.json["steps"][1]["detail"]
    assert ran.json["steps"][2]["detail"] == "The shop opens at nine."


def test_a_step_that_fails_does_not_hide_the_others(cli, connection, service):
    service.answer("status:403", path="/chat$")
    ran = cli("smoke", "-o", "json")
    assert ran.code == 1
    assert ran.json["passed"] is False
    assert verdicts(ran) == {step: "failed" if step == "sync chat" else "ok" for step in STEPS}


def test_what_needs_a_failed_step_is_skipped(cli, connect):
    connect(key="dev-acme-basic")
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
