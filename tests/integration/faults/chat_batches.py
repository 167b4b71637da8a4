"""Attempts of a chat batch task, and an audit of the result at the service."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.integration.faults.attempts import CONCURRENCY, Attempt, Attempts, listed
from tests.live.requests import requests_of
from tests.processes import preload

preload(__name__, "airflow_provider_assistant.chat_batch.batch", "airflow_provider_assistant.chat_batch.sessions")

NEVER, SOON = 3600, 0.1
SUBMITS, POLLS = r"/chat(/async)?$", r"/chat/requests/"
OUTPUT = "answers.parquet"


def questions(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "message": f"Question {number}?"} for number in range(count)]


@dataclass(frozen=True, kw_only=True)
class ChatBatchAttempt(Attempt):
    """One attempt of a chat batch task with a number of questions."""

    count: int
    task_id: str = "chat_batch"

    def operator(self) -> AssistantChatBatchOperator:
        options = {
            "max_concurrency": CONCURRENCY,
            "poll_interval": 0.4,
            "timeout": 30.0,
            "deferrable": False,
            "close_sessions": False,
            **self.options,
        }
        return AssistantChatBatchOperator(
            task_id=self.task_id,
            source=questions(self.count),
            output_path=str(self.home / OUTPUT),
            key_columns=["id"],
            **options,
        )


class ChatBatchAttempts(Attempts):
    """The attempts of a chat batch task, and an audit of their result."""

    @property
    def output(self) -> Path:
        return self.home / OUTPUT

    @property
    def findings(self) -> Path:
        return self.home / ".answers.findings.parquet"

    def attempt(self, count: int, *, retries: int = 3, extra: dict[str, Any] | None = None, **changes: Any) -> Any:
        connection = self.connection(retries=retries, **(extra or {}))
        return ChatBatchAttempt(home=self.home, connection=connection, count=count, **changes)

    # -- at the service ----------------------------------------------------------------------------

    def polls(self) -> Counter[str]:
        """Return the number of polls by request id, from the service's journal."""
        entries = self.service.journal(method="GET", path=POLLS, limit=100_000)
        return Counter(entry["path"].rpartition("/")[2] for entry in entries)

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
            return dict(raw.execute("SELECT label, outcome FROM assistant_chat_requests").fetchall())

    def ambiguous(self) -> int:
        """Return the number of ambiguous questions in the ledger; check that the service has no unrecorded ones."""
        self.service.settle()
        found = self.outcomes()
        done = {int(label) for label, outcome in found.items() if outcome == "created"}
        ambiguous = {int(label) for label, outcome in found.items() if outcome in {"claimed", "ambiguous"}}
        assert done <= set(self.received())
        assert set(self.received()) <= done | ambiguous
        return len(ambiguous)
