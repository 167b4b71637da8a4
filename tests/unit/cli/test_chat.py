"""The chat command."""

from __future__ import annotations

import io
import json

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook


@pytest.fixture(autouse=True)
def _knowledge(connection):
    AssistantHook().create_qa_document("Refunds", "When are refunds paid?", "In five days.", "faq")
    AssistantHook().create_qa_document("Hours", "When are you open?", "Nine to five.", "faq")


@pytest.fixture
def type_lines(monkeypatch):
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_one_message_is_one_answer(cli):
    ran = cli("chat", "-m", "When are refunds paid?")
    assert (ran.code, ran.out, ran.err) == (0, "In five days.\n", "")


def test_the_answer_for_a_program(cli):
    answer = cli("chat", "-m", "When are refunds paid?", "--session", "s-1", "-o", "json").json
    assert {"text": "In five days.", "session_id": "s-1", "site_id": "acme-docs"}.items() <= answer.items()
    assert answer["raw"]["answer"] == "In five days."


def test_lines_are_messages_of_one_session(cli, service, type_lines):
    type_lines("When are refunds paid?\n\nWhen are you open?\n")
    ran = cli("chat")
    assert (ran.code, ran.out) == (0, "In five days.\nNine to five.\n")
    assert len(service.journal("POST", "/chat$")) == 2


def test_every_answer_is_a_line_of_json_in_the_same_session(cli, type_lines):
    type_lines("When are refunds paid?\nWhen are you open?\n")
    answers = [json.loads(line) for line in cli("chat", "-o", "json").out.splitlines()]
    assert [answer["text"] for answer in answers] == ["In five days.", "Nine to five."]
    assert len({answer["session_id"] for answer in answers}) == 1
    assert answers[0]["session_id"].startswith("cli-")


def test_input_that_is_not_text_is_refused(cli, monkeypatch, service):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"))
    ran = cli("chat")
    assert (ran.code, "standard input is not utf-8 text" in ran.err) == (2, True)
    assert not service.journal("POST", "/chat$")


def test_a_script_stops_at_the_first_missing_answer(cli, service, type_lines):
    service.answer("status:503", path="/chat$")
    type_lines("When are refunds paid?\nWhen are you open?\n")
    ran = cli("chat")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("wrong", [["--email", "nobody"], ["--language", "English, please"], ["--session", " "]])
def test_what_cannot_be_sent_is_not_sent(cli, service, wrong):
    ran = cli("chat", "-m", "Hi", *wrong)
    assert ran.code == 2
    assert not service.journal("POST", "/chat$")


def test_a_reply_without_a_text_says_where_to_look(cli, service):
    service.answer("empty", path="/chat$")
    ran = cli("chat", "-m", "Hi")
    assert (ran.code, ran.out) == (0, "")
    assert "--output json" in ran.err
