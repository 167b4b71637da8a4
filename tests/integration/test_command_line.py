"""Run both commands as processes: ``airflow assistant …`` and ``python -m airflow_provider_assistant …``."""

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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningService
from tests.unit.cli.conftest import rows
from tests.versions import AIRFLOW, needs

ROOT = Path(__file__).parents[2]
ENTRIES = {
    "airflow": [sys.executable, "-m", "airflow", "assistant"],
    "module": [sys.executable, "-m", "airflow_provider_assistant"],
}
MODULE = ENTRIES["module"]
EACH_ENTRY = pytest.mark.parametrize(
    "entry", [pytest.param("airflow", marks=needs("command line of providers")), "module"]
)
PROMPT = re.compile(rb"> (\x1b\[[?0-9;]*[a-z])*$", re.IGNORECASE)
ESCAPE = "\x1b["
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
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            **options,
        )

    return ran


def on_terminal(environment: dict[str, str], *command: str, typed: Sequence[str] = ()) -> tuple[int, str]:
    """
    Run a command on a pseudo-terminal, and type one text whenever it waits at a prompt.

    The last text is typed again if it had no effect: Ctrl-D is lost while the prompt is being drawn.
    """
    ours, theirs = pty.openpty()
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment | connections,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, left = b"", itertools.chain(typed, itertools.repeat(typed[-1] if typed else ""))
    with suppress(OSError):  # the terminal closes when the process ends
        while True:
            if select.select([ours], [], [], 0.5)[0]:
                seen += os.read(ours, 4096)
            elif PROMPT.search(seen):
                os.write(ours, next(left).encode())
    os.close(ours)
    return process.wait(60), seen.decode()


def own_lines(stderr: str) -> list[str]:
    """Return the command's own standard error; before Airflow 3.2, it also has Airflow's warnings."""
    lines = stderr.splitlines()
    return lines if AIRFLOW >= (3, 2) else [line for line in lines if line.startswith(("error: ", "warning: "))]


def own_output(entry: str, stdout: str) -> str:
    """Return the command's own standard output; on Python 3.14, ``airflow`` begins it with warnings about itself."""
    lines = stdout.splitlines(keepends=True)
    return "".join(line for line in lines if entry == "module" or "FileType is deprecated" not in line)


@EACH_ENTRY
def test_standard_output_has_only_the_result(entry, run):
    ran = run(*ENTRIES[entry], "limits", "--output", "json")
    assert (ran.returncode, own_lines(ran.stderr)) == (0, [])
    assert json.loads(own_output(entry, ran.stdout))["limits"]["plan"] == "business"


@EACH_ENTRY
def test_an_error_is_a_line_and_an_exit_code(entry, run, service):
    service.answer("status:404", path="/limits")
    ran = run(*ENTRIES[entry], "limits")
    assert (ran.returncode, own_output(entry, ran.stdout)) == (3, "")
    (line,) = own_lines(ran.stderr)
    assert line.startswith("error: ")


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
    ran = run(*MODULE, "limits", "--conn-id", "stored", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["tenant_id"] == "acme-inc"


class TestTerminal:
    def test_colours_on_a_terminal_and_plain_lines_in_a_pipe(self, run, environment):
        code, seen = on_terminal(environment, *MODULE, "smoke")
        assert code == 0
        assert COLOUR.search(seen)
        ran = run(*MODULE, "smoke")
        assert ran.returncode == 0
        assert ESCAPE not in ran.stdout + ran.stderr
        assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == ["ok"] * 7

    def test_a_load_shows_a_bar(self, run, environment, tmp_path):
        file = rows(tmp_path / "faq.csv", *((str(n), f"T{n}", "A") for n in range(3)))
        code, seen = on_terminal(environment, *MODULE, "load", str(file))
        assert code == 0
        assert "loading" in seen
        assert "━" in seen
        assert "3 rows: 3 created" in seen

    def test_a_chat_goes_on_until_ctrl_d_and_never_shows_the_key(self, run, environment, canary, service):
        code, seen = on_terminal(environment, *MODULE, "chat", "--session", canary, typed=("Hello?\n", "\x04"))
        assert code == 0
        assert "I don't know" in seen
        assert "Go on later with --session ***" in seen
        assert canary not in seen
        assert service.posts("/chat$") == 1


def test_ctrl_c_records_what_is_in_flight(environment, connect, service: RunningService, tmp_path, run):
    connect(max_concurrency=4)
    service.behave(latency=0.02)
    file = rows(tmp_path / "faq.csv", *((str(n), f"T{n}", "A") for n in range(2000)))
    command = [*MODULE, "load", str(file), "--key", "id", "-o", "json"]
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment | connections, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while service.posts() < 10 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    counts = json.loads(out)
    assert counts["rows"] == 2000 == counts["created"] + counts["failed"]
    assert counts["created"] == len(service.documents("acme-docs")) >= 10
    ambiguous = run(*MODULE, "ledger", "ambiguous", "-o", "json")
    assert json.loads(ambiguous.stdout) == []


@pytest.fixture
def sandbox(environment) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started = []

    def start(*flags: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*MODULE, "sandbox", *flags],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=120)


def test_the_embedded_service(sandbox):
    process = sandbox("--port", "0", "--", "--documents-quota", "7")
    name, _, value = shlex.split(process.stdout.readline())[0].partition("=")
    assert name == "AIRFLOW_CONN_ASSISTANT_DEFAULT"
    connection = json.loads(value)
    url = f"{connection['host']}/m2m/tenants/{connection['extra']['tenant_id']}/limits"
    limits = httpx.get(url, headers={"X-API-Key": connection["password"]}).json()
    assert limits["limits"]["documents"]["limit"] == 7
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_the_embedded_service_for_a_program(sandbox):
    process = sandbox("--port", "0", "-o", "json")
    connection = json.loads(process.stdout.readline())["AIRFLOW_CONN_ASSISTANT_DEFAULT"]
    assert connection["conn_type"] == "assistant"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


def test_a_wrong_flag_of_the_embedded_service(sandbox):
    process = sandbox("--", "--nonsense")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "--nonsense" in said
