"""What the page of errors says of a status is what an operator and a command say: one line, with what to do now."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from tests.docs.pages import codes, section, table
from tests.servers import LocalServer, body_of, send
from tests.task_runs.context import execute_operator
from tests.unit.test_counts_in_texts import problems
from tests.wire import error_of

ROWS = table(section("docs/reference/errors.md", "By HTTP status"))
STATUSES = {"5xx": 503, "other 4xx": 418, "other": 199}


def check(text: str, *fragments: str) -> None:
    """Check that a text for people has these parts, and none that people cannot use."""
    for fragment in fragments:
        assert fragment in text
    assert not problems(text), text
    assert "Traceback" not in text


@pytest.mark.promise(
    "replies and errors",
    "An operator and a command say the same about each HTTP status as the reference, with what to do.",
)
def test_each_status_of_the_page(cli, connection, service):
    for row in ROWS:
        status = STATUSES.get(row["Status"]) or int(row["Status"])
        error_class = getattr(exceptions, codes(row["Exception"])[0])
        error = error_of(endpoints.get_limits("acme"), Response(status, {}, b""))
        assert error.todo
        said = (f"{status} ", row["Condition"], error.todo)
        if status < 200:
            # No server can send it as the status of a reply.
            check(str(error), *said[1:])
            continue
        service.answer(f"status:{status}", times=None)
        with pytest.raises(error_class) as raised:
            execute_operator(AssistantLimitsOperator(task_id="limits"))
        check(str(raised.value), *said)
        ran = cli("read", "limits")
        assert (ran.code, ran.out) == (2, "")
        line, *others = ran.err.splitlines()
        assert not others
        check(line, "error: ", *said)
        service.server.service.faults.rules.clear()


JSON, PLAIN, HTML = "application/json", "text/plain", "text/html"
# What other programs than the service answer to its requests: status, type and body.
FOREIGN = [
    (404, HTML, "<html><title>Acme</title></html>"), (404, PLAIN, "Not Found"), (404, JSON, '{"detail": "Not Found"}'),
    (404, PLAIN, ""), (405, PLAIN, "Method Not Allowed"), (405, JSON, '{"detail": "Method Not Allowed"}'),
    (405, HTML, "<!DOCTYPE html><h1>405</h1>"), (501, HTML, "<html><title>Unsupported method</title></html>"),
    (403, "application/xml", "<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"),
    (200, HTML, "<html><title>Acme</title></html>"), (400, JSON, '{"error": "no handler found for uri"}'),
    (400, PLAIN, "Bad Request"),
]  # fmt: skip


def test_every_reply_of_another_program_leads_to_the_base_url(cli, connect, faq, monkeypatch, service):
    for status, kind, body in FOREIGN:
        with _Foreign(status, kind, body) as server:
            settings = {**json.loads(service.server.conn_json(retries=0)), "host": f"http://{server.host}/api/v1"}
            monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(settings))
            ran = cli("load", faq, "--key", "id")
        last = ran.err.splitlines()[-1]
        check(last, "error: ", "base URL")
        assert "Fix the payload" not in last
        assert " created" in ran.out
        assert ran.code != 0


def test_without_a_protocol_https_is_assumed(cli, monkeypatch, service):
    settings = json.loads(service.server.conn_json(retries=0))
    settings["host"] = settings["host"].removeprefix("http://")
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(settings))
    check(cli("read", "limits").err, "http:// (without a protocol, https is assumed)")


class _Foreign(LocalServer):
    """A server that sends the same to every request."""

    def __init__(self, status, kind, body):
        super().__init__()
        self._reply = (status, body.encode(), {"Content-Type": kind})

    def answer(self, request):
        body_of(request)
        send(request, *self._reply)


@pytest.mark.parametrize(
    ("columns", "arguments", "fragments"),
    [
        ("faq_id,title,question,answer", ["--key", "id"], ["no column id", "set key_columns (--key)"]),
        ("heading,question,answer", ["--key", "title"], ["no column title", "columns={field: column} (--column"]),
        ("id,title,frage,answer", ["--key", "id"], ["no column question", "columns={field: column} (--column"]),
        ("id;title;question;answer", ["--key", "id"], ["csv_options={'delimiter': ';'}"]),
    ],
)
def test_a_message_about_columns_names_the_parameter(columns, arguments, fragments, cli, connection, service, tmp_path):
    path = tmp_path / "faq.csv"
    path.write_text(f"{columns}\n1,a,b,c\n")
    ran = cli("load", path, *arguments)
    assert ran.code == 2
    check(ran.err.splitlines()[-1], *fragments)
    assert service.posts() == 0
