"""The output of a command: its result as tables, JSON or YAML, and messages; always without the API key."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml
from airflow.cli.simple_table import AirflowConsole
from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.texts import escaped

# Length limit of an error, in characters. Errors may contain ids of any length.
ERROR_LENGTH = 900
# Rows of a table. The other formats have all of them.
SHOWN = 50
GOOD, BAD, DIM, WARNING = "green", "bold red", "dim", "yellow"


class Console:
    """
    Standard output and standard error of one command.

    :param output: Format of the result: ``table``, ``plain`` (lines with tabs between fields), ``json`` or ``yaml``.
        Programs that read the last two get no messages for people.
    """

    def __init__(self, output: str = "table") -> None:
        self.output = output
        self.is_for_people = output in {"table", "plain"}
        self._redactor = Redactor()
        # The command redirects standard output, which may get the log of Airflow.
        self._stdout = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._out = AirflowConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._err = RichConsole(file=sys.stderr, highlight=False, markup=False, emoji=False)

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the output on a terminal."""
        return self._out.is_terminal and self.is_for_people

    def hide(self, secret: str | None) -> None:
        """
        Replace a secret by ``***`` in all further output, also where JSON or a URL escapes it.

        A key that looks like an ordinary word is not replaced, because that would change unrelated output.
        """
        self._redactor = Redactor((secret or "").strip())

    def clean(self, text: str) -> str:
        """Return a text without secrets, and without control characters but newlines and tabs."""
        return escaped(self._redactor.text(text), "\n\t")

    def result(
        self, value: Any, *tables: Sequence[Mapping[str, Any]], text: str | None = None, style: str = ""
    ) -> None:
        """
        Write the result of the command, or one of several.

        :param value: The whole result, for programs.
        :param tables: What a person sees of it: rows with the same names. Empty ones are not shown.
        :param text: The sentence below the tables.
        """
        if not self.is_for_people:
            self._for_programs(value)
            return
        for rows in tables:
            if rows:
                self._table(rows)
        if text is not None:
            self.line(text, style)

    def _for_programs(self, value: Any) -> None:
        text = json.dumps(value, default=_plain)
        if self.output == "yaml":
            text = yaml.safe_dump(json.loads(text), sort_keys=False, width=sys.maxsize, explicit_start=True).rstrip()
        self._write(self._redactor.text(text))

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.output == "plain":
            # Airflow's own format aligns the fields with spaces, and reads the key 1.10 as a number.
            for cells in [rows[0], *(row.values() for row in rows)]:
                self._write("\t".join([self._cell(value) for value in cells]))
            return
        self._out.print_as_table([{name: self._cell(value) for name, value in row.items()} for row in rows[:SHOWN]])
        if len(rows) > SHOWN:
            self.line(f"… and {len(rows) - SHOWN:,} more: see --output plain or json")

    def _cell(self, value: Any) -> str:
        """Return a value on one line."""
        if value is None:
            return ""
        if isinstance(value, list | tuple):
            return ", ".join(map(self._cell, value))
        if isinstance(value, datetime):
            return value.isoformat(sep=" ", timespec="seconds")
        return escaped(self._redactor.text(str(value)))

    def line(self, text: str, style: str = "") -> None:
        """Write a line of text for people."""
        if self.is_terminal:
            self._out.print(Text(self.clean(text), style), soft_wrap=True)
        elif self.is_for_people:
            self._write(self.clean(text))

    def note(self, text: str) -> None:
        """Write a note for people to standard error."""
        if self.is_for_people:
            self.logged(text, DIM)

    def logged(self, text: str, style: str) -> None:
        """Write a line to standard error, in every format."""
        self._err.print(Text(self.clean(text), style), soft_wrap=True)

    def error(self, text: str) -> None:
        """Write an error to standard error, without the middle of a text that would fill the screen."""
        cleaned = self.clean(text)
        if len(cleaned) > ERROR_LENGTH:
            half = ERROR_LENGTH // 2
            cleaned = f"{cleaned[:half]} … {cleaned[-half:]}"
        self._err.print(Text.assemble(("error: ", BAD), cleaned), soft_wrap=True)

    def ask(self, prompt: str) -> str:
        """Prompt for a line of input and return it."""
        with contextlib.redirect_stdout(self._stdout):
            return self._out.input(Text(prompt, "bold cyan"))

    def is_confirmed(self, prompt: str) -> bool:
        """Return whether a person types yes. A program cannot be asked."""
        if not self.is_for_people:
            return False
        try:
            return self.ask(f"{prompt} Type yes: ").strip().lower() == "yes"
        except EOFError:
            return False

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a spinner on a terminal while a step runs."""
        if not self._shows_progress:
            yield
            return
        with self._err.status(Text(what)):
            yield

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show a progress bar on a terminal. Yield a function that updates it with ``(done, total)``."""
        if not self._shows_progress:
            yield lambda _done, _total: None
            return
        text = TextColumn("{task.description}")
        columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._err, transient=True) as bar:
            task_id = bar.add_task(what, total=None)

            def update(done: int, total: int) -> None:
                # A total of 0 is not known yet.
                bar.update(task_id, completed=done, total=total or None)

            yield update

    @property
    def _shows_progress(self) -> bool:
        return self._err.is_terminal and self.is_for_people

    def _write(self, text: str) -> None:
        self._stdout.write(f"{text}\n")
        self._stdout.flush()


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


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
