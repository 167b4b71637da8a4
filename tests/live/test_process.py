"""Processes of the tests: they can be stopped and started again, and none outlives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.fork_server import NUMBER, ForkedGuard, ForkedProcess, ForkServer
from tests.live.process import WAIT, NotReadyError, Process, free_port, processes_in, wait_for

FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
orphan = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(["sh", "-c", "setsid \\"$@\\" & exit", "sh", *orphan]).wait()
print("ready", flush=True)
time.sleep(600)
"""

OWNER = """
import os, sys, time
from pathlib import Path
from tests.live.process import Process, running
place = Path(sys.argv[1])
family = Process(
    "family", [sys.executable, "-c", sys.argv[2]],
    env=dict(os.environ), cwd=place, log=place / "log", grace=0.5,
)
with running([family]):
    time.sleep(600)
"""


FORKING = """
import sys
from tests.live.fork_server import serve
serve(sys.argv[1], lambda arguments: exec(arguments[0], {}))
"""

OWNER_OF_FORKS = """
import os, sys, time
from pathlib import Path
from tests.live.fork_server import ForkedProcess, ForkServer
from tests.live.process import running
place = Path(sys.argv[1])
command = [sys.executable, "-c", sys.argv[3]]
with ForkServer(command, env=dict(os.environ), cwd=place, log=place / "server.log") as server:
    family = ForkedProcess("family", [sys.argv[2]], server, place / "log")
    family.grace = 0.5
    with running([family]):
        time.sleep(600)
"""


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[ForkServer]:
    """A server whose commands are Python code."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", FORKING]
    with ForkServer(command, env=env, cwd=tmp_path, log=tmp_path / "server.log") as server:
        yield server


@pytest.mark.parametrize(
    ("owned", "end"),
    [
        (OWNER, signal.SIGINT),
        (OWNER, signal.SIGTERM),
        (OWNER, signal.SIGKILL),
        (OWNER_OF_FORKS, signal.SIGINT),
        (OWNER_OF_FORKS, signal.SIGKILL),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL", "forks, SIGINT", "forks, SIGKILL"],
)
def test_no_process_outlives_its_owner(tmp_path: Path, owned: str, end: signal.Signals) -> None:
    """Processes that ignore SIGTERM or have started a new session are ended as well."""
    owner = subprocess.Popen(
        [sys.executable, "-c", owned, str(tmp_path), FAMILY, FORKING],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.DEVNULL,
    )
    log = tmp_path / "log"
    wait_for("the family", lambda: log.exists() and "ready" in log.read_text(), timeout=WAIT)
    assert len(processes_in(tmp_path)) >= 4  # owner, guard, command, orphan

    owner.send_signal(end)
    owner.wait(timeout=WAIT)
    wait_for("the end of all", lambda: not processes_in(tmp_path), timeout=WAIT)


def test_a_forked_process_can_be_stopped_and_started_again(forks: ForkServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = ForkedProcess("family", [FAMILY.replace("SIG_IGN", "SIG_DFL")], forks, log)
    for count, kill in enumerate([False, True], 1):
        process.start()
        wait_for("the family", lambda count=count: log.read_text().count("ready") == count, timeout=WAIT)  # type: ignore[misc]
        process.check()
        command, orphan = process.tree()
        process.stop(kill=kill)
        assert not command.is_running()
        assert not orphan.is_running()
        process.check()


def test_a_forked_process_that_dies_is_told_with_its_log(forks: ForkServer, tmp_path: Path) -> None:
    process = ForkedProcess("mouse", ["raise SystemExit('out of cheese')"], forks, tmp_path / "log")
    with pytest.raises(NotReadyError, match=r"mouse ended with exit code 1:\nout of cheese"):
        process.run(timeout=WAIT)
    ForkedProcess("cat", ["print('fed')"], forks, tmp_path / "log").run(timeout=WAIT)


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_guard_that_ends_before_its_owner_reads_the_process_id(tmp_path: Path, code: int) -> None:
    owner, guard = socket.socketpair()
    guard.sendall(NUMBER.pack(1234))
    guard.sendall(NUMBER.pack(code))
    with guard, owner, (tmp_path / "log").open("wb") as log:
        process = ForkedGuard(owner, ["fed"], 5, log)
        with process.stdin:
            assert (process.pid, process.wait(timeout=WAIT)) == (1234, code)


def test_a_process_that_dies_is_told_with_its_log(tmp_path: Path) -> None:
    script = "import sys; sys.exit('out of cheese')"
    process = Process(
        "mouse",
        [sys.executable, "-c", script],
        env=dict(os.environ),
        cwd=tmp_path,
        log=tmp_path / "log",
    )
    process.start()

    def died() -> bool:
        try:
            process.check()
        except NotReadyError as error:
            return "exit code 1" in str(error) and "out of cheese" in str(error)
        return False

    wait_for("the death", died, timeout=WAIT)
    process.stop()


def test_a_reserved_port_is_for_the_server_that_specifies_it() -> None:
    port = free_port()
    for _ in range(2):  # also for its restart
        socket.create_server(("127.0.0.1", port)).close()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
