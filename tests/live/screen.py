"""Output of the demo."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager


class Screen:
    """Output: colours and a spinner on a terminal, plain lines otherwise."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self._console = Console(highlight=False, soft_wrap=True, width=None if terminal else 110)
        self._start = time.monotonic()
        self._secret = ""
        self.last_words: list[str] = []

    def hide(self, secret: str) -> None:
        """Redact this text in all later output."""
        self._secret = secret

    def _clean(self, text: str) -> str:
        return escape(text.replace(self._secret, "***") if self._secret else text)

    def say(self, text: str, style: str = "") -> None:
        """Print a line with the time since the start."""
        seconds = time.monotonic() - self._start
        text = self._clean(text)
        self._console.print(f"[dim]{seconds:6.1f} s[/]  {f'[{style}]{text}[/]' if style else text}")

    def show(self, title: str, text: str = "") -> None:
        """Print a heading and what is below it."""
        if title:
            self._console.print(f"\n[bold]{self._clean(title)}[/]")
        if text:
            self._console.print(self._clean(text))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table."""
        table = Table(*columns, box=SIMPLE, header_style="bold")
        for row in rows:
            table.add_row(*(self._clean(_short(cell)) for cell in row))
        self._console.print(table, soft_wrap=False)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Show a spinner on a terminal."""
        return self._console.status(escape(text)) if self._console.is_terminal else nullcontext()


def _short(value: Any, length: int = 60) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"
