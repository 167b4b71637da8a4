"""Run commands of the command line in the simulated environment of a night, and check the promises of all commands."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import logging
import re
import signal
import sys
import unicodedata
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock

from airflow_provider_assistant.__main__ import parser
from airflow_provider_assistant.cli import load, rows, upkeep
from airflow_provider_assistant.ledger import queries
from tests.adversary.request_service import Entry, Service, Try
from tests.adversary.service import SECRET
from tests.adversary.world import World

CALM = Try()
# The documented exit codes, without 70 for a bug.
CODES = {0, 1, 2, 3, 4, 5, 130}
ERRORS = {2, 3, 4, 5}
# Longest line of an error, in characters: a few lines of a terminal.
LONGEST = 1_000
OURS = "airflow_provider_assistant"
# What a load that failed has created, and what is recorded of it.
PROGRESS = re.compile(r"This try created \d+ of \d+ rows?\. |Nothing was sent\.$")
LOGGERS = ("", "airflow", OURS, f"{OURS}.loading.report", f"{OURS}.source_account")


@dataclass
class Ran:
    """
    The result of a command.

    :param argv: The arguments.
    :param code: Exit code; None if the process was killed.
    :param out: Standard output.
    :param err: Standard error.
    :param entries: Requests that the service received.
    :param seconds: Duration in virtual time.
    """

    argv: tuple[str, ...]
    code: int | None
    out: str
    err: str
    entries: list[Entry]
    seconds: float

    @property
    def values(self) -> list[Any]:
        """The JSON values in the output."""
        return [json.loads(line, parse_constant=_no_constant) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """The only JSON value in the output."""
        (value,) = self.values
        return value


class Terminal(World):
    """
    A simulated environment in which commands run.

    :param service: The service.
    :param retries: Maximum number of retries per request.
    :param max_concurrency: Maximum number of requests in flight.
    """

    def __init__(self, service: Service, *, retries: int = 2, max_concurrency: int = 4) -> None:
        super().__init__(service, retries=retries, max_concurrency=max_concurrency)
        self._numbers = itertools.count(1)
        self._interrupted_at: int | None = None

    def ran(self, *argv: str, attempt: Try = CALM, typed: bytes = b"", interrupted_at: int | None = None) -> Ran:
        """
        Run a command, and check the promises of all commands.

        :param argv: The arguments.
        :param attempt: Faults during the command. Default: none.
        :param typed: Standard input. Default: empty.
        :param interrupted_at: Number of the request, from 0, at which the user types Ctrl-C. Default: never.
        """
        stdin, stdout, stderr = io.BytesIO(typed), io.BytesIO(), io.BytesIO()
        streams = {
            "stdin": io.TextIOWrapper(stdin, "utf-8"),
            "stdout": io.TextIOWrapper(stdout, "utf-8", newline=""),
            "stderr": io.TextIOWrapper(stderr, "utf-8", errors="backslashreplace", newline=""),
        }
        number = next(self._numbers)
        self._interrupted_at = interrupted_at

        def execute(_context: dict[str, Any]) -> Any:
            with mock.patch.object(rows, "getpid", return_value=number), _restored_logging():
                with mock.patch.multiple(sys, **streams):
                    return _exit_code(argv)

        ended = self.tried(attempt, execute, number=number)
        self._interrupted_at = None
        for stream in streams.values():
            stream.flush()
        said = [stream.getvalue().decode() for stream in (stdout, stderr)]
        assert ended.error is None or ended.is_killed, repr(ended.error)
        result = Ran(argv, ended.result, *said, ended.entries, ended.seconds)
        _check(result)
        return result

    def receive(self, call: Any) -> Any:
        if self._requests == self._interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return super().receive(call)

    @contextlib.contextmanager
    def entered(self) -> Iterator[Terminal]:
        """Patch the package to use this environment."""
        clock = SimpleNamespace(now=lambda _zone: datetime.fromtimestamp(self.now(), UTC))
        with contextlib.ExitStack() as stack:
            stack.enter_context(super().entered())
            for module in (rows, upkeep, queries):
                stack.enter_context(mock.patch.object(module, "datetime", clock))
            # A day of progress bars would take long even on a virtual clock.
            stack.enter_context(mock.patch.object(load, "TICK", 3_600.0))
            yield self


@functools.cache
def _parser() -> ArgumentParser:
    return parser()


def _exit_code(argv: tuple[str, ...]) -> int:
    try:
        args = _parser().parse_args(list(argv))
        args.func(args)
    except SystemExit as end:
        if isinstance(end.code, int):
            return end.code
    raise AssertionError("a command ends with an exit code")


@contextlib.contextmanager
def _restored_logging() -> Iterator[None]:
    """Restore the configuration of logging, which a command changes for its process."""
    states = [
        (logger, logger.level, logger.propagate, logger.handlers[:]) for logger in map(logging.getLogger, LOGGERS)
    ]
    try:
        yield
    finally:
        for logger, level, propagate, handlers in states:
            logger.level, logger.propagate, logger.handlers[:] = level, propagate, handlers
        logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]


def _check(ran: Ran) -> None:
    """Check the promises of all commands."""
    if ran.code is None:
        return
    shown = f"{ran.argv} ended with {ran.code}: {ran.err[:3_000]}"
    assert ran.code in CODES, f"the exit code is documented: {shown}"
    is_verbose = {"-v", "--verbose"} & {*ran.argv}
    assert "Traceback" not in ran.err, f"no traceback: {shown}"
    is_json = "json" in ran.argv
    is_usage = ran.err.startswith("usage:")
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    if ran.code in ERRORS and not is_usage:
        # Before it, another error may say why what was created is not known.
        assert errors[-1:] == ran.err.splitlines()[-1:], f"the last line says what is wrong: {shown}"
        assert all(len(error) <= LONGEST for error in errors), f"a message is short: {shown}"
    elif not is_usage:
        # One line says why rows of a load failed that ran to its end.
        may_fail = ran.code == 1 and ran.argv[0] == "load"
        assert len(errors) <= may_fail, f"a command without an error reports none: {shown}"
    if not is_verbose and is_json and not is_usage:
        messages = [line for line in ran.err.splitlines() if not PROGRESS.match(line)]
        kinds = {message.partition(": ")[0] for message in messages}
        assert kinds <= {"error", "warning"}, f"nothing but messages on standard error: {shown}"
        assert len(ran.err.splitlines()) - len(messages) <= (ran.code in {*ERRORS, 130}), shown
    said = [ran.out, ran.err]
    if is_json:
        said += [json.dumps(value, ensure_ascii=False) for value in ran.values]
        if ran.code in {0, 1} and ran.argv[0] != "chat":
            assert ran.out, f"a command that ran has a result: {shown}"
    key_is_shown = any(SECRET in text for text in said)
    assert not key_is_shown, f"no secret in the output of {ran.argv}"
    controls = {char for char in ran.out + ran.err if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cs"}}
    assert not controls, f"nothing controls the terminal: {controls} in {shown}"


def _no_constant(name: str) -> Any:
    raise AssertionError(f"JSON has no {name}")
