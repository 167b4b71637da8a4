"""What holds for every command: exit codes, errors, signals, and standard output."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import time

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.cli.interruptions import ending
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import command, open_hook
from tests.wire import refusing_port

ARGS = argparse.Namespace(output="table", verbose=False)
VERBOSE = argparse.Namespace(output="json", verbose=True)


@pytest.fixture
def ran(_as_before):
    """Return a function that runs a command, and returns its exit code."""

    def run(function, args=ARGS):
        def hiding(out, args):
            out.hide("sesame-1234")
            return function()

        with pytest.raises(SystemExit) as end:
            command(hiding)(args)
        return end.value.code

    return run


def raising(error):
    def function():
        raise error

    return function


@pytest.mark.promise("command line", "An error is one line without a traceback, and the exit code is 2.")
def test_an_error_is_one_line_without_a_traceback(ran, capsys):
    for error in (
        exceptions.AssistantInputError("wrong: sesame-1234"),
        exceptions.AssistantServerError("wrong: sesame-1234"),
        AirflowException("wrong: sesame-1234"),
        PermissionError(13, "wrong: sesame-1234"),
        sa.exc.OperationalError("SELECT", {}, Exception("wrong: sesame-1234")),
    ):
        assert ran(raising(error)) == 2
        written = capsys.readouterr()
        assert (written.out, written.err.startswith("error: "), "wrong: ***" in written.err) == ("", True, True)
        assert "Traceback" not in written.err


def test_a_bug_says_so_and_v_shows_where(ran, capsys):
    assert ran(raising(KeyError("sesame-1234"))) == 2
    written = capsys.readouterr().err
    assert ("Traceback" in written, "This should not happen" in written) == (False, True)
    assert ran(raising(KeyError("sesame-1234")), VERBOSE) == 2
    written = capsys.readouterr().err
    assert ("Traceback" in written, "sesame" in written) == (True, False)


def interrupted(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
    return 0


@pytest.mark.promise("command line", "Ctrl-C and SIGTERM end every command in the same way, with exit code 130.")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_no_error(ran, capsys, number):
    before = signal.getsignal(number)
    assert ran(lambda: interrupted(number)) == 130
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(number) is before


def test_the_first_signal_ends_gently_and_the_second_one_at_once(ran, capsys):
    ended = []

    def gentle(*numbers, error=None):
        with ending(lambda: ended.append("gently")):
            interrupted(*numbers)
            ended.append("ran on")
            if error:
                raise error

    wrong = exceptions.AssistantInputError("wrong")
    assert ran(lambda: gentle(signal.SIGTERM)) == 130
    assert ran(lambda: gentle(signal.SIGINT, error=wrong)) == 130
    assert ended == ["gently", "ran on"] * 2
    assert ran(lambda: gentle(signal.SIGINT, signal.SIGTERM)) == 130
    assert ended == ["gently", "ran on"] * 2 + ["gently"]
    assert capsys.readouterr() == ("", "")
    assert ran(lambda: gentle(error=wrong)) == 2


@pytest.mark.promise("command line", "Standard output has the result of a command and nothing else.")
@pytest.mark.usefixtures("_as_before")
def test_standard_output_has_the_result_and_nothing_else(capsys):
    @command
    def talkative(out, args):
        print("Airflow's log, which begins with its database")
        out.line("the result")
        return 0

    with pytest.raises(SystemExit):
        talkative(ARGS)
    assert capsys.readouterr() == ("the result\n", "Airflow's log, which begins with its database\n")


def test_a_connection_in_airflow_s_database_is_looked_for(ran):
    assert "_AIRFLOW_PROCESS_CONTEXT" not in os.environ
    ran(lambda: 0)
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "server"


def test_a_missing_connection_says_how_to_make_it(cli):
    ran = cli("read", "limits", "--conn-id", "no_such")
    assert (ran.code, ran.out, "AIRFLOW_CONN_NO_SUCH" in ran.err) == (2, "", True)


def test_an_error_about_a_long_name_is_short_and_keeps_its_beginning_and_its_end(cli):
    ran = cli("read", "limits", "--conn-id", "x" * 10_000)
    assert ran.err.startswith("error: there is no connection 'xxx")
    assert ran.err.endswith("select another one with --conn-id.\n")
    assert len(ran.err) < 1_000


@pytest.fixture
def silent_port():
    """A port at which nothing is accepted, and nothing refused: connections wait, as behind a firewall."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.promise("command line", "A person is told within ten seconds that nothing answers.")
@pytest.mark.parametrize(("argv", "is_silent"), [("smoke", False), ("documents list", True)])
def test_a_person_is_told_within_ten_seconds_that_nothing_answers(argv, is_silent, cli, silent_port, monkeypatch):
    with refusing_port() as refusing:
        port = silent_port if is_silent else refusing
        _is_told_in_time(argv.split(), port, cli, monkeypatch)


def _is_told_in_time(argv, port, cli, monkeypatch):
    fields = {"conn_type": "assistant", "host": f"http://127.0.0.1:{port}", "password": "key-of-a-test"}
    fields["extra"] = {"tenant_id": "acme", "site_id": "docs", "manage_documents": True}
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
    started = time.monotonic()
    ran = cli(*argv)
    assert time.monotonic() - started < 10
    assert ran.code == (1 if argv == ["smoke"] else 2)
    assert f"127.0.0.1:{port}" in ran.out + ran.err


def test_a_load_waits_for_the_end_of_an_outage_as_tasks_do(connect):
    connect(retries=4)
    args = argparse.Namespace(conn_id="assistant_default")
    assert open_hook(Console(), args, waits=True).settings.client.retry.outage_seconds == 80
    assert open_hook(Console(), args).settings.client.retry.outage_seconds < 10
