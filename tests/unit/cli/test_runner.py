"""Errors become exit codes."""

from __future__ import annotations

import argparse
import json
import os
import socket
import time

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.cli import runner
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import command, exit_code, open_hook

CODES = {
    "AssistantError": 4,
    "AssistantInputError": 2,
    "AssistantAPIError": 3,
    "AssistantBadRequestError": 3,
    "AssistantAuthenticationError": 3,
    "AssistantPermissionError": 3,
    "AssistantNotFoundError": 3,
    "AssistantRateLimitError": 4,
    "AssistantServerError": 4,
    "AssistantGatewayError": 4,
    "AssistantResponseError": 4,
    "AssistantConnectionError": 4,
    "AssistantTimeoutError": 4,
    "AssistantAmbiguousError": 4,
    "AssistantLedgerError": 5,
}
ARGS = argparse.Namespace(output="text", verbose=False)


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_every_error_has_its_exit_code(name, code):
    assert exit_code(getattr(exceptions, name)("what happened")) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AirflowNotFoundException("no connection"), 2),
        (AirflowException("cannot be decoded"), 2),
        (PermissionError(13, "Permission denied"), 2),
        (sa.exc.OperationalError("SELECT", {}, Exception("locked")), 5),
        (KeyError("x"), 70),
    ],
)
def test_other_errors_have_one_too(error, code):
    assert exit_code(error) == code


@pytest.mark.usefixtures("_as_before")
class TestCommand:
    def ran(self, error, args=ARGS):
        @command
        def fails(out, args):
            out.hide("sesame-1234")
            raise error

        with pytest.raises(SystemExit) as end:
            fails(args)
        return end.value.code

    def test_an_error_is_one_line_without_a_traceback(self, capsys):
        assert self.ran(exceptions.AssistantInputError("wrong: sesame-1234")) == 2
        assert capsys.readouterr() == ("", "error: wrong: ***\n")

    def test_a_bug_says_so_and_v_shows_where(self, capsys):
        assert self.ran(KeyError("sesame-1234")) == runner.BUG
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert "KeyError" in said
        assert self.ran(KeyError("sesame-1234"), argparse.Namespace(output="text", verbose=True)) == runner.BUG
        said = capsys.readouterr().err
        assert "Traceback" in said
        assert "sesame" not in said

    def test_ctrl_c_is_no_error(self, capsys):
        assert self.ran(KeyboardInterrupt()) == runner.INTERRUPTED
        assert capsys.readouterr() == ("", "")

    def test_a_connection_in_airflow_s_database_is_looked_for(self):
        assert "_AIRFLOW_PROCESS_CONTEXT" not in os.environ
        self.ran(KeyboardInterrupt())
        assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "server"

    def test_a_missing_connection_says_how_to_make_it(self, cli):
        ran = cli("read", "limits", "--conn-id", "no_such")
        assert (ran.code, ran.out) == (2, "")
        assert "AIRFLOW_CONN_NO_SUCH" in ran.err
        assert "Traceback" not in ran.err

    def test_a_connection_that_cannot_be_used_does_not_show_its_key(self, cli, monkeypatch):
        monkeypatch.setenv(
            "AIRFLOW_CONN_BAD", '{"conn_type":"assistant","host":"x","password":"sesame-12","extra":{"retries":"x"}}'
        )
        ran = cli("read", "limits", "--conn-id", "bad")
        assert ran.code == 2
        assert "invalid extra: retries" in ran.err
        assert "sesame" not in ran.err


@pytest.mark.promise("command line", "Standard output has the result of a command and nothing else.")
@pytest.mark.usefixtures("_as_before")
def test_standard_output_has_what_the_command_says_and_nothing_else(capsys):
    @command
    def talkative(out, args):
        print("Airflow's log, which begins with its database")
        out.line("the result")
        return 0

    with pytest.raises(SystemExit):
        talkative(ARGS)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("the result\n", "Airflow's log, which begins with its database\n")


@pytest.mark.promise("command line", "A person is told within ten seconds that nothing answers.")
@pytest.mark.parametrize("argv", [("read", "limits"), ("chat", "-m", "Anything?"), ("documents", "list")], ids=str)
def test_a_person_is_told_within_ten_seconds_that_nothing_listens(argv, cli, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    fields = {"conn_type": "assistant", "host": f"http://127.0.0.1:{port}", "password": "key-of-a-test"}
    fields["extra"] = {"tenant_id": "acme", "site_id": "docs", "manage_documents": True}
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
    started = time.monotonic()
    ran = cli(*argv)
    assert time.monotonic() - started < 10
    assert ran.code == 4
    assert f"127.0.0.1:{port}" in ran.err


def test_a_load_waits_for_the_end_of_an_outage_as_tasks_do(connect):
    connect(retries=4)
    args = argparse.Namespace(conn_id="assistant_default")
    out = Console(as_json=False)
    assert open_hook(out, args, waits=True).settings.client.retry.outage_seconds == 80
    assert open_hook(out, args).settings.client.retry.outage_seconds < 10
