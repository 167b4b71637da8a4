"""The output of a command: for people on a terminal, as lines in a pipe, as JSON for a program; never the key."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from airflow_provider_assistant.client import is_recognisable
from airflow_provider_assistant.exceptions import escaped

REDACTED = "***"
GOOD, BAD, DIM, WARNING = "green", "bold red", "dim", "yellow"


class Out:
    """
    Standard output and standard error of one command.

    :param as_json: Whether the result is one JSON value; what is for people is then left out.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._secrets: set[str] = set()
        self._stdout = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads standard output."""
        return self._out.is_terminal and not self.as_json

    def hide(self, secret: str | None) -> None:
        """
        Show ``***`` in place of a secret from now on, however JSON or a URL spells it.

        A key that looks like an ordinary word is not replaced: output about something else would be changed.
        """
        secret = (secret or "").strip()
        if is_recognisable(secret):
            self._secrets |= {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}

    def clean(self, text: str, *, lines: bool = True) -> str:
        """
        Return a text without secrets and without characters that steer a terminal.

        :param text: A text of unknown origin.
        :param lines: Whether it may have more than one line.
        """
        kept = "\n\t" if lines else ""
        return escaped(self._redacted(text), kept)

    def _redacted(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, REDACTED)
        return text

    def line(self, text: str, style: str = "") -> None:
        """Write a line for people; a program does not get it."""
        if self.is_terminal:
            self._out.print(Text(self.clean(text), style))
        elif not self.as_json:
            self._write(self.clean(text))

    def fields(self, *cells: tuple[str, str, int]) -> None:
        """
        Write a line of fields for people: aligned on a terminal, with tabs between them in a pipe.

        :param cells: Text, style and width of each.
        """
        if self.as_json:
            return
        texts = [(self.clean(text, lines=False), style, width) for text, style, width in cells]
        if not self.is_terminal:
            self._write("\t".join(text for text, _, _ in texts))
            return
        self._out.print(Text("  ").join(Text(f"{text:<{width}}", style) for text, style, width in texts))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show rows to people: as a table on a terminal, as lines with tabs between the cells in a pipe."""
        if not self.is_terminal:
            for row in (titles, *rows):
                self.fields(*((_cell(cell), "", 0) for cell in row))
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(Text(title), overflow="fold")
        for row in rows:
            table.add_row(*(Text(self.clean(_cell(cell))) for cell in row))
        self._out.print(table)

    def result(self, value: Any) -> None:
        """Write the result for a program, as one line of JSON; people do not get it."""
        if self.as_json:
            self._write(self._redacted(json.dumps(value, default=str)))

    def note(self, text: str) -> None:
        """Write a note for people, on standard error."""
        if not self.as_json:
            self._err.print(Text(self.clean(text), DIM))

    def logged(self, text: str, style: str) -> None:
        """Write a log line, on standard error."""
        self._err.print(Text(self.clean(text), style))

    def error(self, text: str) -> None:
        """Write an error, on standard error."""
        self._err.print(Text.assemble(("error: ", BAD), self.clean(text)))

    def ask(self, prompt: str) -> str:
        """Read a line from a person."""
        with contextlib.redirect_stdout(self._stdout):
            return self._out.input(Text(prompt, "bold cyan"))

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show on a terminal that a step takes time."""
        with self._err.status(Text(what)) if self._is_lively else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show a bar on a terminal; the function given takes how much is done, and of how much."""
        if not self._is_lively:
            yield lambda _done, _total: None
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._err, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total or None)

    def _write(self, text: str) -> None:
        """Write a line as it is: a pipe gets tabs as tabs."""
        self._stdout.write(f"{text}\n")
        self._stdout.flush()

    @property
    def _is_lively(self) -> bool:
        return self._err.is_terminal and not self.as_json


class LogLines(logging.Handler):
    """Log records as lines on standard error."""

    def __init__(self, out: Out) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        """Say one record."""
        try:
            style = WARNING if record.levelno >= logging.WARNING else DIM
            self._out.logged(f"{record.levelname.lower()}: {self.format(record)}", style)
        except Exception:  # noqa: BLE001 (as every handler: a log line must not end what it tells of)
            self.handleError(record)


def _console(stream: Any) -> Console:
    return Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
