"""Attempts of a task that rates by rule, and an audit of the result at the service."""

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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.integration.faults import chat_batches
from tests.integration.faults.loads import CONCURRENCY, CONNECTION, FinishedRequest, Loader, findings
from tests.live.requests import rows_of
from tests.live.service import AssistantService

FEEDBACK = r"/chat/feedback$"


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt of a task that rates the answers in a folder."""

    home: Path
    connection: str
    setup: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def execute(self) -> dict[str, Any]:
        """Run the operator like a task; SIGTERM is handled like in Airflow's task runner."""
        airflow.configuration.AIRFLOW_HOME = str(self.home)
        os.environ[CONNECTION] = self.connection
        operator = AssistantRateAnswersOperator(
            task_id="rate",
            answers=str(self.home / chat_batches.OUTPUT),
            scores=str(self.home / "scores.parquet"),
            rules={"good": "token_f1 >= 0.5", "bad": "token_f1 < 0.5"},
            max_concurrency=CONCURRENCY,
            **self.options,
        )
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="rate", map_index=-1, max_tries=3)
        return operator.execute({"ti": instance, "outlet_events": {}})


class Rating:
    """Answers and their scores, the attempts of a task that rates them, and an audit of their result."""

    def __init__(self, service: AssistantService, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.home = home
        self._monkeypatch = monkeypatch

    def ask(self, count: int) -> None:
        """Create a number of answers; every third is bad."""
        batch = chat_batches.ChatBatchCase(self.service, self.home, self._monkeypatch)
        batch.run(batch.attempt(count, options={"mode": "sync"}))
        scores = [
            {
                "key": row["key"],
                "scorer": "token_f1",
                "score": 0.1 if row["id"] % 3 == 0 else 0.9,
                "outcome": "scored",
                "status": row["status"],
                "seconds": row["seconds"],
            }
            for row in batch.rows()
        ]
        pq.write_table(pa.Table.from_pylist(scores), self.home / "scores.parquet")

    def attempt(self, **changes: Any) -> Try:
        return Try(home=self.home, connection=json.dumps(self.service.connection), **changes)

    def start(self, attempt: Try) -> Loader:
        return Loader(attempt)  # type: ignore[arg-type]

    def run(self, attempt: Try) -> dict[str, Any]:
        """Run an attempt in this process."""
        self._monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", airflow.configuration.AIRFLOW_HOME)
        return attempt.execute()

    def run_apart(self, attempt: Try) -> FinishedRequest:
        """Start an attempt in a separate process."""
        return self.start(attempt).wait()

    def seen(self) -> int:
        """Return how many ratings the service has received."""
        return self.service.control("GET", "journal", params={"path": FEEDBACK, "limit": 1})["count"]

    def wait_seen(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while (seen := self.seen()) < count:
            assert time.monotonic() < deadline, f"{seen} of {count} ratings"
            time.sleep(0.005)

    def rated(self) -> Counter[tuple[str, str]]:
        """Return how often each chat request got each rating."""
        self.service.settle()
        return Counter((row["request_id"], row["rating"]) for row in rows_of(self.service, "feedback"))

    def ambiguous(self) -> int:
        """Return the number of ambiguous ratings in the ledger; check that the service has no unrecorded ones."""
        with closing(sqlite3.connect(self.home / "assistant_ledger.db")) as raw:
            rows = raw.execute("SELECT request_id, rating, outcome FROM assistant_ratings").fetchall()
        done = {(request, rating) for request, rating, outcome in rows if outcome == "created"}
        ambiguous = {(request, rating) for request, rating, outcome in rows if outcome in {"claimed", "ambiguous"}}
        rated = set(self.rated())
        assert done <= rated <= done | ambiguous
        return len(ambiguous)

    def suspected(self) -> set[str]:
        """Return the chat requests that the last attempt lists as possibly rated twice."""
        listed = findings(self.home / "assistant_loads" / "dag" / "rate" / "run.parquet")
        return {found["document_ids"][0] for found in listed if found["kind"] == "possibly_duplicated"}

    def audit(self, count: int) -> int:
        """
        Check that every answer has its rating, and that duplicates at the service are listed.

        :param count: Number of answers.
        :return: Number of duplicate ratings.
        """
        answers = pq.read_table(self.home / chat_batches.OUTPUT).to_pylist()
        rated = self.rated()
        assert set(rated) == {(row["request_id"], "bad" if row["id"] % 3 == 0 else "good") for row in answers}
        assert len(rated) == count
        twice = {request for (request, _), times in rated.items() if times > 1}
        assert twice <= self.suspected()
        return rated.total() - count
