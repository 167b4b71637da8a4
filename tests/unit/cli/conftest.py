"""Fixtures that run commands in this process."""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from airflow_provider_assistant.__main__ import parser
from tests.judge import Judge
from tests.live.process import wait_for

OURS = "airflow_provider_assistant"
# A parser of all commands takes 20 ms.
known_parser = functools.cache(parser)
LOGGERS = ("", "airflow", OURS, f"{OURS}.loading.progress.rejected", f"{OURS}.source_account")


class Ran(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def lines(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


@pytest.fixture
def _as_before() -> Iterator[None]:
    """Restore the log and the environment after a command, which normally ends with its process."""
    environment = dict(os.environ)
    states = [
        (logger, logger.level, logger.propagate, logger.handlers[:]) for logger in map(logging.getLogger, LOGGERS)
    ]
    yield
    os.environ.clear()
    os.environ.update(environment)
    for logger, level, propagate, handlers in states:
        logger.level, logger.propagate, logger.handlers[:] = level, propagate, handlers
    logging.getLogger().manager._clear_cache()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], _as_before: None, ledger_home: Path) -> Callable[..., Ran]:
    """Return a function that runs a command with the given arguments."""

    def run(*argv: Any) -> Ran:
        capsys.readouterr()
        args = known_parser().parse_args([str(arg) for arg in argv])
        with pytest.raises(SystemExit) as end:
            args.func(args)
        return Ran(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def judge(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A model's host that judges answers; its connection is ``judge``."""
    monkeypatch.setenv("AIRFLOW_CONN_JUDGE", judge.conn_json())
    return judge


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    """A file of three valid rows."""
    return rows(
        tmp_path / "faq.csv", ("1", "Refunds", "In five days."), ("2", "Hours", "Nine to five."), ("3", "A", "B")
    )


def rows(path: Path, *rows: tuple[str, str, str]) -> Path:
    """Write rows with id, title and answer."""
    lines = [
        "id,title,question,answer,category",
        *(f"{key},{title},{title}?,{answer},faq" for key, title, answer in rows),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def when(condition: Callable[[], Any], act: Callable[[], Any]) -> threading.Thread:
    """Act in a thread as soon as a condition holds."""

    def run() -> None:
        wait_for("the condition", condition, timeout=120, interval=0.01)
        act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
