"""Make the mistakes of the runbook, and collect what the log says of each."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.servers import LocalServer, body_of, send
from tests.task_runs.context import execute_operator

# Lines that do not come from the mistake.
UNSHOWN = ("WARNING A new, empty ledger", "WARNING The load goes on without", "WARNING The tenant has")
# The methods of :class:`Mistakes`, and the headings of the page.
MISTAKES = ("Wrong key", "Wrong base URL", "Renamed key column", "File with semicolons", "Long pause")
ROWS = [
    {"id": number, "title": f"Title {number}", "question": f"Question {number}?", "answer": f"Answer {number}."}
    for number in range(60)
]


@dataclass
class Mistakes:
    """
    The environment of the mistakes.

    :param connect: Makes the connection.
    :param service: The embedded service.
    :param folder: Folder of files.
    :param monkeypatch: Undoes what a mistake changes.
    """

    connect: Callable[..., None]
    service: Any
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    _lines: list[str] = field(default_factory=list)

    def said(self, name: str) -> list[str]:
        """Make a mistake, and return what the log says, with the names of the page."""
        handler = _Collector(self._lines)
        loggers = [logging.getLogger(name) for name in ("airflow_provider_assistant", "airflow.task")]
        try:
            for logger in loggers:
                logger.addHandler(handler)
            getattr(self, "_" + name.lower().replace(" ", "_"))()
        finally:
            for logger in loggers:
                logger.removeHandler(handler)
        shown = [line for line in map(self._named, self._lines) if not line.startswith(UNSHOWN)]
        return list(dict.fromkeys(shown))

    def _named(self, line: str) -> str:
        line = re.sub(r"\s*(Findings: .*|Runbook: .*)$", "", line)
        line = line.replace(str(self.folder), "/data")
        return re.sub(r"(http://)?127\.0\.0\.1:\d+", "assistant.example.com", line)

    def _load(self, rows: Any = ROWS, *, dag_id: str = "knowledge", task_id: str = "load", **options: Any) -> None:
        task = AssistantLoadQAOperator(task_id=task_id, source=rows, **{"key_columns": "id", **options})
        with contextlib.suppress(AssistantError):
            execute_operator(task, dag_id=dag_id)

    def _connect_to(self, url: str) -> None:
        connection = {**json.loads(self.service.server.conn_json()), "host": url}
        self.monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))

    def _wrong_key(self) -> None:
        self.connect(key="an old key")
        self._load()

    def _wrong_base_url(self) -> None:
        with _WebServer() as server:
            self._connect_to(f"http://{server.host}/api/v1")
            self._load()

    def _renamed_key_column(self) -> None:
        self._load([{"faq_id": row["id"], "title": row["title"], "question": "Q", "answer": "A"} for row in ROWS])

    def _file_with_semicolons(self) -> None:
        path = self.folder / "faq.csv"
        path.write_text("id;title;question;answer\n1;Refunds;When?;Now.\n")
        self._load(str(path))

    def _long_pause(self) -> None:
        self.service.answer("retry-after:7200", method="POST", times=None)
        self._load()


class _WebServer(LocalServer):
    """The company's website, which has no such page."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body_of(request)
        send(request, 404, b"<html><title>Page not found - Acme</title></html>", {"Content-Type": "text/html"})


class _Collector(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname} {record.getMessage()}")
