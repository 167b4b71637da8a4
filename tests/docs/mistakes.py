"""Make the mistakes of the page of failures, and collect the warnings and the error of each."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.evaluation import report
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from tests.servers import LocalServer, body_of, send
from tests.simulate.replies import HOST, Answer, Outage
from tests.simulate.world import Try, World
from tests.task_runs.context import execute_operator
from tests.unit.ledger import outage as ledger_outage

# Lines that do not come from the mistake.
UNSHOWN = (
    "WARNING A new, empty ledger",
    "WARNING The load goes on without",
    "WARNING The tenant has",
    "WARNING connection",
)
# A line of level INFO that shows the end of a mistake.
SHOWN = "INFO The service answers again"
# The methods of :class:`Mistakes`, and the headings of the page.
MISTAKES = (
    "Wrong key", "Wrong base URL", "Another address of the service", "Renamed DAG or task", "Renamed evaluation",
    "Renamed key column", "File with semicolons", "Service restarts", "Long pause", "Full disk",
)  # fmt: skip
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
        """Make a mistake, and return the lines of the log and the error, with the names of the page."""
        handler = _Collector(self._lines)
        loggers = [logging.getLogger(name) for name in ("airflow_provider_assistant", "airflow.task")]
        try:
            for logger in loggers:
                logger.addHandler(handler)
            getattr(self, "_" + name.lower().replace(" ", "_"))()
        finally:
            for logger in loggers:
                logger.removeHandler(handler)
        lines = [line for line in self._lines if not line.startswith("INFO") or line.startswith(SHOWN)]
        shown = [line for line in map(self._named, lines) if not line.startswith(UNSHOWN)]
        # Of lines that differ in their numbers only, the first.
        first = {re.sub(r"\d+", "", line): line for line in reversed(shown)}
        return list(reversed(first.values()))

    def _named(self, line: str) -> str:
        line = re.sub(r"\s*(Findings: .*|Runbook: .*)$", "", line)
        line = line.replace(str(self.folder), "/data").replace(HOST, "assistant.example.com")
        line = re.sub(r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC", "until 2026-11-20 04:00 UTC", line)
        return re.sub(r"(http://)?127\.0\.0\.1:\d+", "assistant.example.com", line)

    def _load(self, rows: Any = ROWS, *, dag_id: str = "knowledge", task_id: str = "load", **options: Any) -> None:
        task = AssistantLoadQAOperator(task_id=task_id, source=rows, **{"key_columns": "id", **options})
        try:
            execute_operator(task, dag_id=dag_id)
        except AssistantError as error:
            self._lines.append(str(error))

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

    def _another_address_of_the_service(self) -> None:
        world = World()
        with world.entered():
            self._try_in(world)
            self._lines.clear()
            world.move("http://assistant.internal/api/v1")
            self._try_in(world)

    def _renamed_dag_or_task(self) -> None:
        self._load()
        self._lines.clear()
        self._load(ROWS[:58], dag_id="knowledge_base")

    def _renamed_evaluation(self) -> None:
        # Charts are slow.
        self.monkeypatch.setattr(report, "render", lambda *_: "")
        self.monkeypatch.setattr(AssistantEvaluateOperator, "log", logging.getLogger("airflow.task"))
        asked_at = datetime(2026, 11, 21, tzinfo=UTC)
        for day, name in enumerate(("support", "support-faq")):
            moment = asked_at + timedelta(days=day)
            answer = {"key": "1", "message": "When?", "answer": "Now.", "expected": "Now.", "status": "complete"}
            task = AssistantEvaluateOperator(
                task_id="judge", name=name, answers=[{**answer, "submitted_at": moment, "seconds": 1.0}],
                output_path=str(self.folder / "evaluations"), baseline="previous", gate=["token_f1 drop <= 0.02"],
            )  # fmt: skip
            self._lines.clear()
            execute_operator(task, dag_id="knowledge", run_id=f"run {day}", moment=moment)

    def _renamed_key_column(self) -> None:
        self._load([{"faq_id": row["id"], "title": row["title"], "question": "Q", "answer": "A"} for row in ROWS])

    def _file_with_semicolons(self) -> None:
        path = self.folder / "faq.csv"
        path.write_text("id;title;question;answer\n1;Refunds;When?;Now.\n")
        self._load(str(path))

    def _long_pause(self) -> None:
        self.service.answer("retry-after:7200", method="POST", times=None)
        self._load()

    def _service_restarts(self) -> None:
        world = World(retries=None)
        with world.entered():
            self._try_in(world, Outage(1.0, 25.0, "refused"))

    def _full_disk(self) -> None:
        world = World()
        with world.entered():
            writes = ("INSERT", "UPDATE", "DELETE")
            with ledger_outage.away(
                sa.Engine, *writes, code=ledger_outage.FULL, when=lambda: len(world.wire.journal) >= 20
            ):
                self._try_in(world)

    def _try_in(self, world: World, outage: Outage | None = None) -> None:
        """Load in virtual time."""

        def execute(context: dict[str, Any]) -> Any:
            context["ti"].dag_id, context["ti"].task_id = "knowledge", "load"
            return AssistantLoadQAOperator(task_id="load", source=ROWS, key_columns="id").execute(context)

        self.folder = world.folder
        ended = world.tried(Try(then=Answer(latency=0.3), outage=outage), execute, number=1)
        if isinstance(ended.error, AssistantError):
            self._lines.append(str(ended.error))


class _WebServer(LocalServer):
    """The company's website, which has no such page."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body_of(request)
        send(request, 404, b"<html><title>Page not found - Acme</title></html>", {"Content-Type": "text/html"})


class _Collector(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname} {record.getMessage()}")
