"""
Import Airflow once, and fork its components from this process: each would take 3 s of processor time to import it.

A :class:`ForkServer` starts this module. Every line of its standard input is a command in JSON, ``["start", log,
arguments]`` or ``["exit_code", pid]``, and gets one line as its reply. When the input ends, because the owner closes it
or was killed, or this process is terminated, every process below it is ended. The execution API of the components has
only its newest version.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from tests.live.process import Process

PR_SET_CHILD_SUBREAPER = 36
# What at least two components import. An import must not start threads, because they do not survive a fork.
PRELOADED = (
    "airflow.api_fastapi.app",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.db_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
    "alembic.command",
)


class ForkServer(Process):
    """The process from which components are forked; ``env`` is the environment of all of them."""

    def ask(self, *command: Any) -> Any:
        """Send a command, and return the reply."""
        assert self.popen.stdin
        assert self.popen.stdout
        self.popen.stdin.write(json.dumps(command).encode() + b"\n")
        self.popen.stdin.flush()
        reply = self.popen.stdout.readline()
        if not reply:
            self.popen.wait()
            self.check()
        return json.loads(reply)

    def stop(self, *, kill: bool = False) -> None:
        """End this process and all that it has forked."""
        if self.pid and self.popen.stdin:
            self._is_wanted = False
            self.popen.stdin.close()
            self.popen.wait(30)
        super().stop(kill=kill)


class ForkedProcess(Process):
    """A command of Airflow that a server forks."""

    def __init__(self, name: str, arguments: tuple[str, ...], server: ForkServer, log: Path) -> None:
        super().__init__(name, arguments, env=server.env, cwd=server.cwd, log=log)
        self._server = server
        self._code: int | None = None

    def _spawn(self, _: IO[bytes]) -> None:
        self._code = None
        self.pid = self._server.ask("start", str(self.log), self.command)

    def exit_code(self) -> int | None:
        """Return the exit code of the command, or None while it is running."""
        if self._code is None and self._server.exit_code() is not None:
            self._code = -signal.SIGKILL
        if self._code is None:
            self._code = self._server.ask("exit_code", self.pid)
        return self._code


def _preload() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    from airflow.models import import_all_models
    from sqlalchemy.orm import configure_mappers

    from tests.task_runs.execution_api import keep_newest_version

    import_all_models()
    configure_mappers()
    keep_newest_version()
    # Airflow makes a million long-lived objects, among which no component needs to look for garbage.
    gc.freeze()


def _serve(replies: IO[str]) -> None:
    codes: dict[int, int] = {}
    for line in sys.stdin:
        command, *rest = json.loads(line)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
        reply = _fork(replies, *rest) if command == "start" else codes.get(rest[0])
        print(json.dumps(reply), file=replies, flush=True)


def _fork(replies: IO[str], log: str, arguments: list[str]) -> int:
    """Fork a command of Airflow, which never returns, and return its process id."""
    if pid := os.fork():
        return pid
    # Otherwise the owner would not see the end of the server.
    replies.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from airflow.__main__ import main
    from setproctitle import setproctitle

    files = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, file in zip((0, 1, 2), (*files, files[1]), strict=True):
        os.dup2(file, number)
    sys.argv = ["airflow", *arguments]
    setproctitle(" ".join(sys.argv))
    main()
    sys.exit()


def _end(*_: object) -> NoReturn:
    """End every process below this one, then this one."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = psutil.Process().children()
    for child in children:
        child.terminate()
    psutil.wait_procs(children, timeout=5)
    while remaining := psutil.Process().children(recursive=True):
        for process in remaining:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(remaining, timeout=1)
    os._exit(0)


if __name__ == "__main__":
    gc.set_threshold(50_000)
    # Orphans of a component become children of this process.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    # Some versions of Airflow write to standard output when they are imported.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as opened:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _preload()
        _serve(opened)
    _end()
