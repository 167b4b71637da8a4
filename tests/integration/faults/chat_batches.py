"""Attempts of a chat batch task, and an audit of the result at the service."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow.configuration
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.integration.faults.loads import CONCURRENCY, CONNECTION, FinishedRequest, Loader, listed
from tests.live.requests import requests_of
from tests.live.service import AssistantService
from tests.processes import preload

preload(__name__, "airflow_provider_assistant.chat_batch.batch", "airflow_provider_assistant.chat_batch.sessions")

NEVER, SOON = 3600, 0.1
SUBMITS, POLLS = r"/chat(/async)?$", r"/chat/requests/"
OUTPUT = "answers.parquet"


def questions(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "message": f"Question {number}?"} for number in range(count)]


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt of a chat batch task with a number of questions."""

    home: Path
    connection: str
    count: int
    run_id: str = "run"
    max_tries: int = 3
    setup: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def execute(self) -> dict[str, Any]:
        """Run the operator like a task; SIGTERM is handled like in Airflow's task runner."""
        self.home.mkdir(parents=True, exist_ok=True)
        airflow.configuration.AIRFLOW_HOME = str(self.home)
        os.environ[CONNECTION] = self.connection
        options = {
            "max_concurrency": CONCURRENCY,
            "poll_interval": 0.4,
            "timeout": 30.0,
            "deferrable": False,
            "close_sessions": False,
            **self.options,
        }
        operator = AssistantChatBatchOperator(
            task_id="chat_batch",
            source=questions(self.count),
            output_path=str(self.home / OUTPUT),
            key_columns=["id"],
            **options,
        )
        operator.render_template_fields({})
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        instance = SimpleNamespace(
            dag_id="dag", run_id=self.run_id, task_id="chat_batch", map_index=-1, try_number=1, max_tries=self.max_tries
        )
        return operator.execute({"ti": instance, "outlet_events": {}})


class ChatBatchCase:
    """A chat batch, the attempts of its task, and an audit of their result."""

    def __init__(self, service: AssistantService, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.home = home
        self.output = home / OUTPUT
        self.findings = home / ".answers.findings.parquet"
        self._monkeypatch = monkeypatch

    def attempt(self, count: int, *, retries: int = 3, extra: dict[str, Any] | None = None, **changes: Any) -> Try:
        connection = {**self.service.connection}
        connection["extra"] = {**connection["extra"], "retries": retries, **(extra or {})}
        return Try(home=self.home, connection=json.dumps(connection), count=count, **changes)

    def start(self, attempt: Try) -> Loader:
        self.home.mkdir(parents=True, exist_ok=True)
        return Loader(attempt)  # type: ignore[arg-type]

    def run(self, attempt: Try) -> dict[str, Any]:
        """Run an attempt in this process."""
        self._monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", airflow.configuration.AIRFLOW_HOME)
        return attempt.execute()

    def run_apart(self, attempt: Try) -> FinishedRequest:
        """Start an attempt in a separate process."""
        return self.start(attempt).wait()

    # -- at the service ----------------------------------------------------------------------------

    def seen(self, path: str, status: int | None = None) -> int:
        """Return how many requests the service's journal has."""
        params: dict[str, Any] = {"path": path, "limit": 1} | ({"status": status} if status else {})
        return self.service.control("GET", "journal", params=params)["count"]

    def polls(self) -> Counter[str]:
        """Return the number of polls by request id, from the service's journal."""
        entries = self.service.journal(method="GET", path=POLLS, limit=100_000)
        return Counter(entry["path"].rpartition("/")[2] for entry in entries)

    def wait_seen(self, count: int, path: str, status: int | None = None) -> None:
        deadline = time.monotonic() + 120
        while (seen := self.seen(path, status)) < count:
            assert time.monotonic() < deadline, f"{seen} of {count} requests"
            time.sleep(0.01)

    def submitted(self, count: int) -> None:
        """Wait until the service has a number of questions."""
        self.wait_seen(count, SUBMITS, 202)

    def requests(self) -> dict[str, dict[str, Any]]:
        """Return the chat requests at the service, by id."""
        return requests_of(self.service)

    def received(self) -> Counter[int]:
        """Return how often the service received each question."""
        return Counter(int(row["message"].split()[1].rstrip("?")) for row in self.requests().values())

    # -- at the task -------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        return pq.read_table(self.output).to_pylist()

    def statuses(self) -> Counter[str]:
        return Counter(row["status"] for row in self.rows())

    def saved(self) -> set[str]:
        """Return the ids of the chat requests whose answers are in the batch state."""
        states = [BatchState(str(folder)) for folder in self.home.glob(".*.chat-batch")]
        return {answer.request_id or "" for state in states for answer in state.read_answers()}

    def suspected(self) -> set[int]:
        return listed(self.findings, "possibly_duplicated")

    def audit(self, count: int, bound: int = CONCURRENCY) -> int:
        """
        Check that every question has its own answer, and that duplicates at the service are few and listed.

        :param count: Number of questions.
        :param bound: Maximum number of duplicates.
        :return: Number of duplicates.
        """
        self.service.settle()
        requests, rows = self.requests(), self.rows()
        assert [row["id"] for row in rows] == list(range(count)), "in the order of the source"
        assert {row["status"] for row in rows} == {"complete"}
        for row in rows:
            if row["request_id"]:
                request = requests[row["request_id"]]
                assert (row["message"], row["session_id"]) == (request["message"], request["session_id"])
                assert row["answer"] == request["answer"]
        twice = Counter({number: times - 1 for number, times in self.received().items() if times > 1})
        assert set(twice) <= self.suspected()
        assert twice.total() <= bound
        assert not list(self.home.glob(".*.chat-batch")), "the batch state is removed once the output is written"
        return twice.total()

    def outcomes(self) -> dict[str, str]:
        """Return the outcomes in the ledger, by question."""
        with closing(sqlite3.connect(self.home / "assistant_ledger.db")) as raw:
            return dict(raw.execute("SELECT label, outcome FROM assistant_questions").fetchall())

    def ambiguous(self) -> int:
        """Return the number of ambiguous questions in the ledger; check that the service has no unrecorded ones."""
        self.service.settle()
        found = self.outcomes()
        done = {int(label) for label, outcome in found.items() if outcome == "created"}
        ambiguous = {int(label) for label, outcome in found.items() if outcome in {"claimed", "ambiguous"}}
        assert done <= set(self.received())
        assert set(self.received()) <= done | ambiguous
        return len(ambiguous)
