"""Attempts of a task that rates by rule, and an audit of the result at the service."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.integration.faults import chat_batches
from tests.integration.faults.attempts import CONCURRENCY, Attempt, Attempts, findings
from tests.live.requests import rows_of

FEEDBACK = r"/chat/feedback$"


@dataclass(frozen=True, kw_only=True)
class RatingAttempt(Attempt):
    """One attempt of a task that rates the answers in a folder."""

    task_id: str = "rate"

    def operator(self) -> AssistantRateAnswersOperator:
        return AssistantRateAnswersOperator(
            task_id=self.task_id,
            answers=str(self.home / chat_batches.OUTPUT),
            scores=str(self.home / "scores.parquet"),
            rules={"good": "token_f1 >= 0.5", "bad": "token_f1 < 0.5"},
            max_concurrency=CONCURRENCY,
            **self.options,
        )


class RatingAttempts(Attempts):
    """Answers and their scores, the attempts of a task that rates them, and an audit of their result."""

    def ask(self, count: int) -> None:
        """Create a number of answers; every third is bad."""
        batch = chat_batches.ChatBatchAttempts(self.service, self.home, self._monkeypatch)
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

    def attempt(self, **changes: Any) -> RatingAttempt:
        return RatingAttempt(home=self.home, connection=self.connection(), **changes)

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
