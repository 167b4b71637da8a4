"""The read command."""

from __future__ import annotations

import json

import pytest

from tests.wire import Answer, ScriptedService

BODY = b'{"used": {"documents": 7}, "rate": 1.10, "users": ["ada@example.com"]}'


@pytest.fixture
def wire(monkeypatch):
    with ScriptedService(Answer(200, BODY)) as scripted:
        fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test"}
        fields["extra"] = {"tenant_id": "acme", "site_id": "docs", "retries": 0}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        yield scripted


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        (["limits"], "tenants/acme/limits"),
        (["limits", "--tenant", "other"], "tenants/other/limits"),
        (["statistics", "--site", "shop", "--param", "page=2", "--param", "q=a=b"],
         "sites/shop/statistics?page=2&q=a%3Db"),
        (["/m2m/sites/docs/languages?x=1", "--param", "y=2"], "sites/docs/languages?x=1&y=2"),
    ],
)  # fmt: skip
def test_a_reply_is_shown_as_it_is(argv, path, wire, cli):
    ran = cli("read", *argv, "-o", "plain")
    assert wire.received[0].path == f"/api/v1/m2m/{path}"
    assert ran.code == 0
    assert ran.lines == [["field", "value"], ["used.documents", "7"], ["rate", "1.10"], ["users.0", "ada@example.com"]]
    assert cli("read", *argv, "-o", "json").json == json.loads(BODY)


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["usage"], "below the base URL"),
        (["//elsewhere.example/x"], "below the base URL"),
        (["limits", "--param", "page"], "--param"),
        (["limits", "--param", "=x"], "--param"),
    ],
)
def test_what_is_invalid_is_exit_code_2(argv, part, wire, cli):
    ran = cli("read", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert part in ran.err
    assert wire.received == []


def test_an_error_and_a_detailed_log_do_not_show_the_address(wire, cli):
    wire.answers = [Answer(404, {"error": "no user ada@example.com"})]
    ran = cli("read", "/m2m/sites/docs/users/ada@example.com/statistics", "-v")
    assert ran.code == 2
    assert "ada" not in ran.out + ran.err
    assert "user-" in ran.err
