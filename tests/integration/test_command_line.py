"""
Run both commands as processes: ``airflow assistant …`` and ``python -m airflow_provider_assistant …``.

A new process needs three seconds to import Airflow. What does not depend on this start runs in a forked process.
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import airflow.configuration
import pytest

from airflow_provider_assistant.__main__ import main
from airflow_provider_assistant.ledger import Filter, Ledger
from airflow_provider_assistant.ledger.location import sqlite_engine
from airflow_provider_assistant.ledger.queries import counts as count_lists
from airflow_provider_assistant.sending import sender
from tests.conftest import RunningService
from tests.live.clients import local_request
from tests.live.process import WAIT, wait_for
from tests.processes import preload, processes
from tests.unit.cli.conftest import _as_before, rows
from tests.versions import AIRFLOW, needs

__all__ = ["_as_before"]

preload("airflow_provider_assistant.__main__", "airflow_provider_assistant.cli.load", "pandas")

ROOT = Path(__file__).parents[2]
AIRFLOW_ASSISTANT = [sys.executable, "-m", "airflow", "assistant"]
MODULE = [sys.executable, "-m", "airflow_provider_assistant"]
PROMPT = re.compile(rb"> (\x1b\[[?0-9;]*[a-z])*$", re.IGNORECASE)
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9](;5;\d+)?m")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment without terminal settings, and with a separate AIRFLOW_HOME."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    # In its unit test mode, Airflow logs to standard output as soon as it is imported.
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_", "AIRFLOW__CORE__UNIT_TEST_MODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"AIRFLOW_HOME": str(home), "TERM": "xterm-256color"}


@pytest.fixture
def run(environment: dict[str, str], connect: Callable[..., None]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command whose output goes to pipes."""
    connect()

    def ran(*command: str, **options: str) -> subprocess.CompletedProcess[str]:
        connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment | connections,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            stdin=subprocess.DEVNULL,
            **options,
        )

    return ran


def forked(environment: dict[str, str], arguments: Sequence[str], *streams: int) -> BaseProcess:
    """Run a command in a forked process with these standard streams."""
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    passed = [Connection(os.dup(stream)) for stream in streams]
    process = processes.Process(target=_run_here, args=(arguments, environment | connections, passed))
    process.start()
    for stream in passed:
        stream.close()
    return process


def _run_here(arguments: Sequence[str], environment: dict[str, str], streams: Sequence[Connection]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(environment)
    airflow.configuration.AIRFLOW_HOME = environment["AIRFLOW_HOME"]
    sys.argv[1:] = arguments
    sender.GRACE = 60.0  # an interrupted load waits for its requests, however slow the machine is
    main()


def to_files(environment: dict[str, str], folder: Path, *arguments: str) -> tuple[BaseProcess, Path, Path]:
    """Run a command in a forked process; return the process and the files of its standard output and error."""
    out, err = folder / "stdout", folder / "stderr"
    with Path(os.devnull).open() as nothing, out.open("w") as stdout, err.open("w") as stderr:
        process = forked(environment, arguments, nothing.fileno(), stdout.fileno(), stderr.fileno())
    return process, out, err


def on_terminal(environment: dict[str, str], *arguments: str, typed: Sequence[str] = ()) -> tuple[int | None, str]:
    """
    Run a command on a pseudo-terminal, and type one text whenever it waits at a prompt.

    The last text is typed again if it had no effect: Ctrl-D is lost while the prompt is being drawn.
    """
    ours, theirs = pty.openpty()
    process = forked(environment, arguments, theirs, theirs, theirs)
    os.close(theirs)
    seen, left = b"", itertools.chain(typed, itertools.repeat(typed[-1] if typed else ""))
    with suppress(OSError):  # the terminal closes when the process ends
        while True:
            if select.select([ours], [], [], 0.5)[0]:
                seen += os.read(ours, 4096)
            elif PROMPT.search(seen):
                os.write(ours, next(left).encode())
    os.close(ours)
    process.join(60)
    return process.exitcode, seen.decode()


def own_lines(stderr: str) -> list[str]:
    """Return the command's own standard error; before Airflow 3.2, it also has Airflow's warnings."""
    lines = stderr.splitlines()
    return lines if AIRFLOW >= (3, 2) else [line for line in lines if line.startswith(("error: ", "warning: "))]


def own_output(stdout: str) -> str:
    """Return the output of the command itself; on Python 3.14, ``airflow`` begins it with warnings about itself."""
    return "".join(line for line in stdout.splitlines(keepends=True) if "FileType is deprecated" not in line)


@needs("command line of providers")
def test_standard_output_has_only_the_result(run):
    ran = run(*AIRFLOW_ASSISTANT, "read", "limits", "--output", "json")
    assert (ran.returncode, own_lines(ran.stderr)) == (0, [])
    assert json.loads(own_output(ran.stdout))["plan"] == "business"


@needs("command line of providers")
@pytest.mark.usefixtures("_as_before", "connection")
def test_airflow_exits_with_the_code_of_an_error(service, monkeypatch, capsys):
    from airflow.__main__ import main as airflow_main

    service.answer("status:404", path="/limits")
    monkeypatch.setattr(sys, "argv", ["airflow", "assistant", "read", "limits"])
    with pytest.raises(SystemExit) as end:
        airflow_main()
    assert end.value.code == 2
    said = capsys.readouterr()
    assert own_output(said.out) == ""
    assert own_lines(said.err)[-1].startswith("error: ")


@pytest.mark.usefixtures("_airflow_database")
def test_a_connection_in_airflow_s_database(run, environment, service, monkeypatch):
    from airflow.configuration import conf
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    stored = json.loads(service.server.conn_json(retries=0))
    stored["extra"] = json.dumps(stored["extra"])
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == "stored"))
        session.add(Connection(conn_id="stored", **stored))
    monkeypatch.delenv("AIRFLOW_CONN_ASSISTANT_DEFAULT")
    environment["AIRFLOW__CORE__FERNET_KEY"] = conf.get("core", "fernet_key")
    ran = run(*MODULE, "read", "limits", "--conn-id", "stored", "-o", "json")
    assert (ran.returncode, own_lines(ran.stderr)) == (0, [])
    assert json.loads(ran.stdout)["tenant_id"] == "acme-inc"


class TestTerminal:
    def test_a_load_shows_a_bar_in_colours(self, connection, environment, tmp_path):
        file = rows(tmp_path / "faq.csv", *((str(n), f"T{n}", "A") for n in range(3)))
        code, seen = on_terminal(environment, "load", str(file))
        assert code == 0
        assert "loading" in seen
        assert "━" in seen
        assert "3 rows: 3 created" in seen
        assert COLOUR.search(seen)

    def test_a_chat_goes_on_until_ctrl_d_and_never_shows_the_key(self, environment, canary, service):
        code, seen = on_terminal(environment, "chat", "--session", canary, typed=("Hello?\n", "\x04"))
        assert code == 0
        assert "I don't know" in seen
        assert "Go on later with --session ***" in seen
        assert canary not in seen
        assert service.posts("/chat$") == 1


@pytest.mark.promise(
    "command line",
    "Ctrl-C ends a load with counts that add up, and leaves nothing ambiguous that was answered.",
)
def test_ctrl_c_records_what_is_in_flight(environment, connect, service: RunningService, tmp_path):
    connect(max_concurrency=4)
    service.behave(latency=0.02)
    file = rows(tmp_path / "faq.csv", *((str(n), f"T{n}", "A") for n in range(2000)))
    process, out, err = to_files(environment, tmp_path, "load", str(file), "--key", "id", "-o", "json")
    wait_for("ten documents", lambda: service.posts() >= 10, timeout=120)
    os.kill(process.pid, signal.SIGINT)
    process.join(120)
    assert (process.exitcode, "Traceback" in err.read_text()) == (130, False), err.read_text()
    counts = json.loads(out.read_text())
    assert counts["rows"] == 2000 == counts["created"] + counts["failed"]
    assert counts["created"] == len(service.documents("acme-docs")) >= 10
    with Ledger(sqlite_engine(Path(environment["AIRFLOW_HOME"]) / "assistant_ledger.db")) as ledger:
        assert ledger.read(count_lists, Filter(), ("unresolved",)) == {"unresolved": 0}


@pytest.mark.promise("command line", "The embedded service runs until a signal, and prints its connection.")
def test_the_embedded_service(environment, tmp_path):
    process, out, _ = to_files(environment, tmp_path, "sandbox", "--port", "0", "--", "--max-documents", "7")
    line = wait_for("the connection", out.read_text, timeout=60)
    name, _, value = shlex.split(line)[0].partition("=")
    assert name == "AIRFLOW_CONN_ASSISTANT_DEFAULT"
    connection = json.loads(value)
    url = f"{connection['host']}/m2m/tenants/{connection['extra']['tenant_id']}/limits"
    limits = local_request("GET", url, headers={"X-API-Key": connection["password"]}).json()
    assert limits["limits"]["documents"]["limit"] == 7
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 0


def test_a_wrong_flag_of_the_embedded_service(environment, tmp_path):
    process, _, err = to_files(environment, tmp_path, "sandbox", "--", "--nonsense")
    process.join(60)
    assert (process.exitcode, "--nonsense" in err.read_text()) == (2, True)
