"""Attempts of a load, and an audit of the result at the service."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.integration.faults.attempts import (
    CONCURRENCY,
    Attempt,
    AttemptProcess,
    Attempts,
    FinishedRequest,
    listed,
)
from tests.live.process import wait_for
from tests.processes import preload

DOCUMENTS = "/documents/"

preload(
    __name__,
    "airflow_provider_assistant.loading.engine",
    "airflow_provider_assistant.loading.load_client",
    "airflow_provider_assistant.loading.preflight",
)


def rows_of(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "title": f"Article {number}",
            "question": f"question {number}",
            "answer": "Because. " * 20,
            "category": "faq",
        }
        for number in numbers
    ]


@dataclass(frozen=True, kw_only=True)
class LoadAttempt(Attempt):
    """One attempt of a task that loads numbered rows."""

    numbers: range
    task_id: str = "load"

    @property
    def findings_path(self) -> Path:
        return self.home / f"{self.task_id}.{self.run_id}.findings.parquet"

    def operator(self) -> AssistantLoadQAOperator:
        options = {
            "source": rows_of(self.numbers),
            "key_columns": ["id"],
            "max_concurrency": CONCURRENCY,
            "findings_path": str(self.findings_path),
            **self.options,
        }
        return AssistantLoadQAOperator(task_id=self.task_id, **options)


class LoadAttempts(Attempts):
    """The attempts of a task that loads a knowledge base, and an audit of their result."""

    @property
    def ledger(self) -> Path:
        return self.home / "assistant_ledger.db"

    def attempt(self, numbers: range, *, retries: int = 3, **changes: Any) -> LoadAttempt:
        return LoadAttempt(home=self.home, connection=self.connection(retries=retries), numbers=numbers, **changes)

    def wait_for(self, count: int) -> None:
        """Wait until the service has a number of documents."""
        what = f"{count} documents"
        wait_for(what, lambda: self.service.count_documents() >= count, timeout=120, interval=0.01)

    def start_and_hold(self, attempt: LoadAttempt, count: int) -> AttemptProcess:
        """
        Start an attempt, and return while it waits for the response to a request.

        :param count: Number of requests that the service answers. It holds all others until its faults change, so
            that the attempt cannot end, and the claims of these rows have no outcome.
        """
        self.service.hold(DOCUMENTS, skip=count)
        process = self.start(attempt)
        wait_for(
            "a held request",
            lambda: any(entry["fault"] == "hold" for entry in self.service.journal(path=DOCUMENTS, limit=CONCURRENCY)),
            timeout=120,
        )
        return process

    def kill_in_flight(self, attempt: LoadAttempt, count: int) -> None:
        """Start an attempt, and kill it while it waits for a response; see :meth:`start_and_hold`."""
        self._end(self.start_and_hold(attempt, count), signal.SIGKILL)

    def interrupt(
        self,
        attempt: LoadAttempt,
        count: int,
        *,
        pause: float = 0.0,
        number: signal.Signals = signal.SIGKILL,
    ) -> FinishedRequest:
        """
        Start an attempt, and interrupt it while it sends.

        :param count: Minimum number of documents at the service before the interruption.
        :param pause: Seconds from that moment to the signal. The attempt cannot end in between: after a few more
            requests, the service holds all others. It responds to them after SIGTERM.
        """
        there = self.service.count_documents()
        left = len(attempt.numbers) - there
        # A terminated attempt gets the responses that the service holds, and must not have sent all requests.
        held = 1 + (CONCURRENCY if number == signal.SIGTERM else 0)
        self.service.hold(DOCUMENTS, skip=min(count - there + 2 * CONCURRENCY, left - held))
        process = self.start(attempt)
        self.wait_for(count)
        time.sleep(pause)
        return self._end(process, number)

    def _end(self, process: AttemptProcess, number: signal.Signals) -> FinishedRequest:
        """Send a signal, wait until the attempt is over, and remove the faults."""
        process.kill(number)
        if number == signal.SIGTERM:
            self.service.faults(rules=[])  # the attempt waits for the responses to its requests
        ended = process.wait()
        self.service.faults(rules=[])
        return ended

    def documents(self) -> dict[int, list[str]]:
        """Return the ids of the documents at the service, by row."""
        found: dict[int, list[str]] = {}
        for document in self.service.documents(limit=100_000):
            found.setdefault(int(document["question"].split()[1]), []).append(document["id"])
        return found

    def outcomes(self, ledger: Path | None = None) -> dict[int, tuple[str, str | None]]:
        """Return the outcome and the document id in the ledger, by row."""
        with sqlite3.connect(ledger or self.ledger) as raw:
            rows = raw.execute("SELECT label, outcome, document_id FROM assistant_documents").fetchall()
        return {int(label): (outcome, document_id) for label, outcome, document_id in rows}

    def audit(self, numbers: range, attempt: LoadAttempt) -> Audit:
        """Compare the service with the source, the findings and the ledger."""
        self.service.settle()
        return Audit(
            set(numbers),
            self.documents(),
            self.outcomes(),
            listed(attempt.findings_path, "possibly_duplicated"),
            listed(attempt.findings_path, "ambiguous"),
        )

    def agree(self, ledger: Path | None = None) -> None:
        """Check that every document in the ledger is at the service, and every unrecorded document is ambiguous."""
        self.service.settle()
        documents, outcomes = self.documents(), self.outcomes(ledger)
        done = {row: document_id for row, (outcome, document_id) in outcomes.items() if outcome == "created"}
        assert not made_up(done, documents)
        ambiguous = {row for row, (outcome, _) in outcomes.items() if outcome in {"claimed", "ambiguous"}}
        assert set(documents) <= set(done) | ambiguous
        assert len(ambiguous) <= CONCURRENCY


def made_up(done: dict[int, str | None], documents: dict[int, list[str]]) -> set[int]:
    """Return the rows whose document is in the ledger but not at the service; some replies have no id."""
    return {
        row for row, found in done.items() if found not in documents.get(row, ()) and (found or row not in documents)
    }


class Audit:
    """Compare the documents at the service with the source and with the findings."""

    def __init__(
        self,
        wanted: set[int],
        documents: dict[int, list[str]],
        outcomes: dict[int, tuple[str, str | None]],
        suspected: set[int],
        ambiguous: set[int],
    ) -> None:
        self.missing = wanted - set(documents)
        self.duplicated = Counter({row: len(ids) - 1 for row, ids in documents.items() if len(ids) > 1})
        self.duplicates = self.duplicated.total()
        self.suspected = suspected
        self.ambiguous = ambiguous
        done = {row: document_id for row, (outcome, document_id) in outcomes.items() if outcome == "created"}
        self.made_up = made_up(done, documents)
        self.forgotten = set(documents) - set(outcomes)

    def complete(self, bound: int = CONCURRENCY) -> None:
        """Check that every row is at the service, and that duplicates are few and listed."""
        self.honest()
        assert not self.missing
        assert self.duplicates <= bound
        assert set(self.duplicated) <= self.suspected

    def exact(self) -> None:
        """Check that there are no duplicates, and that missing rows are listed."""
        self.honest()
        assert not self.duplicates
        assert self.missing <= self.ambiguous

    def honest(self) -> None:
        assert not self.made_up
        assert not self.forgotten
