"""The output of a command: rich text on a terminal, plain lines in a pipe, or JSON; always without the API key."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.texts import escaped

# Length limit of an error, in characters. Errors may contain ids of any length.
ERROR_LENGTH = 900
GOOD, BAD, DIM, WARNING = "green", "bold red", "dim", "yellow"


class Console:
    """
    Standard output and standard error of one command.

    :param as_json: Whether to write the result as one JSON value, and no text for people.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._secrets: set[str] = set()
        self._stdout = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._out = _rich_console(sys.stdout)
        self._err = _rich_console(sys.stderr)

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is a terminal and the format is text."""
        return self._out.is_terminal and not self.as_json

    def hide(self, secret: str | None) -> None:
        """
        Replace a secret by ``***`` in all further output, also where JSON or a URL escapes it.

        A key that looks like an ordinary word is not replaced, because that would change unrelated output.
        """
        self._secrets.add((secret or "").strip())

    def clean(self, text: str, *, lines: bool = True) -> str:
        """
        Return a text without secrets and without control characters.

        :param lines: Whether to keep newlines and tabs.
        """
        kept = "\n\t" if lines else ""
        return escaped(self._redacted(text), kept)

    def _redacted(self, text: str) -> str:
        return Redactor(*self._secrets).text(text)

    def line(self, text: str, style: str = "") -> None:
        """Write a line of text. Does nothing with JSON output."""
        if self.is_terminal:
            self._out.print(Text(self.clean(text), style))
        elif not self.as_json:
            self._write(self.clean(text))

    def fields(self, *cells: tuple[str, str, int]) -> None:
        """
        Write a line of fields: aligned on a terminal, separated by tabs in a pipe. Does nothing with JSON output.

        :param cells: Text, style and width of each field.
        """
        if self.as_json:
            return
        texts = []
        styled_texts = []
        for text, style, width in cells:
            cleaned = self.clean(text, lines=False)
            texts.append(cleaned)
            styled_texts.append(Text(cleaned.ljust(width), style))
        if self.is_terminal:
            self._out.print(Text("  ").join(styled_texts))
        else:
            self._write("\t".join(texts))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """
        Write a table: formatted on a terminal, as tab-separated lines in a pipe. Does nothing with JSON output.

        :param rows: None becomes an empty cell.
        """
        if not self.is_terminal:
            for row in (titles, *rows):
                fields = [(_cell(value), "", 0) for value in row]
                self.fields(*fields)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(Text(title), overflow="fold")
        for row in rows:
            cells = [Text(self.clean(_cell(value))) for value in row]
            table.add_row(*cells)
        self._out.print(table)

    def result(self, value: Any) -> None:
        """Write the result as one line of JSON. Does nothing with text output."""
        if self.as_json:
            self._write(self._redacted(json.dumps(value, default=str)))

    def note(self, text: str) -> None:
        """Write a note to standard error. Does nothing with JSON output."""
        if not self.as_json:
            self._err.print(Text(self.clean(text), DIM))

    def logged(self, text: str, style: str) -> None:
        """Write a log line to standard error."""
        self._err.print(Text(self.clean(text), style))

    def error(self, text: str) -> None:
        """Write an error to standard error, without the middle of a text that would fill the screen."""
        cleaned = self.clean(text)
        if len(cleaned) > ERROR_LENGTH:
            half = ERROR_LENGTH // 2
            cleaned = f"{cleaned[:half]} … {cleaned[-half:]}"
        self._err.print(Text.assemble(("error: ", BAD), cleaned))

    def ask(self, prompt: str) -> str:
        """Prompt for a line of input and return it."""
        with contextlib.redirect_stdout(self._stdout):
            return self._out.input(Text(prompt, "bold cyan"))

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a spinner on a terminal while a step runs."""
        if not self._is_lively:
            yield
            return
        with self._err.status(Text(what)):
            yield

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show a progress bar on a terminal. Yield a function that updates it with ``(done, total)``."""
        if not self._is_lively:
            yield lambda _done, _total: None
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._err, transient=True) as bar:
            task_id = bar.add_task(what, total=None)

            def update(done: int, total: int) -> None:
                # A total of 0 is not known yet.
                bar.update(task_id, completed=done, total=total or None)

            yield update

    def _write(self, text: str) -> None:
        """Write a line unchanged, so that a pipe gets tabs as tabs."""
        self._stdout.write(f"{text}\n")
        self._stdout.flush()

    @property
    def _is_lively(self) -> bool:
        return self._err.is_terminal and not self.as_json


class LogLines(logging.Handler):
    """Log handler that writes records as lines to standard error."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            style = WARNING if record.levelno >= logging.WARNING else DIM
            self._console.logged(f"{record.levelname.lower()}: {self.format(record)}", style)
        except Exception:  # noqa: BLE001 (as in every handler: an error in logging must not stop the command)
            self.handleError(record)


def _rich_console(stream: Any) -> RichConsole:
    return RichConsole(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
