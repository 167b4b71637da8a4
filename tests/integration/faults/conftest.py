"""Fixtures for the fault tests: a service in a separate process, which can be killed, and audits of its content."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import airflow.configuration
import pytest

from tests.integration.faults.chat_batches import ChatBatchCase
from tests.integration.faults.loads import CONCURRENCY, FinishedRequest, Loader, Try, listed
from tests.integration.faults.rates import Rating
from tests.integration.faults.storage import _storage, bucket  # noqa: F401 (fixtures)
from tests.live.process import wait_for
from tests.live.service import AssistantService

# Slow enough for requests to overlap, like with a real service.
LATENCY = 0.02
DOCUMENTS = "/documents/"


def in_slow(*values: object) -> list[Any]:
    """Mark parameters as slow: variants of a fault that `make test` checks with the other variants."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(scope="session")
def _process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AssistantService]:
    with AssistantService(tmp_path_factory.mktemp("service"), latency=LATENCY) as service:
        yield service


@pytest.fixture
def remote(_process: AssistantService) -> AssistantService:
    """The sandbox service in a separate process, reset to its initial state."""
    _process.check()
    _process.reset("faults")
    _process.settle()  # process requests that the last test left held, so that they do not arrive in the next test
    _process.reset()
    return _process


class Case:
    """One knowledge base, the attempts of a task that loads it, and an audit of their result."""

    def __init__(self, service: AssistantService, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.home = home
        self.ledger = home / "assistant_ledger.db"
        self._monkeypatch = monkeypatch

    def attempt(self, numbers: range, *, retries: int = 3, **changes: Any) -> Try:
        connection = {**self.service.connection}
        connection["extra"] = {**connection["extra"], "retries": retries}
        return Try(home=self.home, connection=json.dumps(connection), numbers=numbers, **changes)

    def start(self, attempt: Try) -> Loader:
        self.home.mkdir(parents=True, exist_ok=True)
        return Loader(attempt)

    def run(self, attempt: Try) -> dict[str, Any]:
        """Run an attempt in this process."""
        self._monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", airflow.configuration.AIRFLOW_HOME)
        return attempt.execute()

    def run_apart(self, attempt: Try) -> FinishedRequest:
        """Start an attempt in a separate process."""
        return self.start(attempt).wait()

    def wait_for(self, count: int) -> None:
        """Wait until the service has a number of documents."""
        deadline = time.monotonic() + 120
        while self.service.count_documents() < count:
            assert time.monotonic() < deadline, f"{self.service.count_documents()} of {count} documents"
            time.sleep(0.01)

    def start_and_hold(self, attempt: Try, count: int) -> Loader:
        """
        Start an attempt, and return while it waits for the response to a request.

        :param count: Number of requests that the service answers. It holds all others until its faults change, so
            that the attempt cannot end, and the claims of these rows have no outcome.
        """
        self.service.hold(DOCUMENTS, skip=count)
        loader = self.start(attempt)
        wait_for(
            "a held request",
            lambda: any(entry["fault"] == "hold" for entry in self.service.journal(path=DOCUMENTS, limit=CONCURRENCY)),
            timeout=120,
        )
        return loader

    def kill_in_flight(self, attempt: Try, count: int) -> None:
        """Start an attempt, and kill it while it waits for a response; see :meth:`start_and_hold`."""
        self._end(self.start_and_hold(attempt, count), signal.SIGKILL)

    def interrupt(
        self,
        attempt: Try,
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
        loader = self.start(attempt)
        self.wait_for(count)
        time.sleep(pause)
        return self._end(loader, number)

    def _end(self, loader: Loader, number: signal.Signals) -> FinishedRequest:
        """Send a signal, wait until the attempt is over, and remove the faults."""
        loader.kill(number)
        if number == signal.SIGTERM:
            self.service.faults(rules=[])  # the attempt waits for the responses to its requests
        ended = loader.wait()
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

    def audit(self, numbers: range, attempt: Try) -> Audit:
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


@pytest.fixture
def case(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def batch(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatBatchCase:
    return ChatBatchCase(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def rating(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rating:
    return Rating(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Record a measurement for the fault table, which `make faults` prints."""

    def measure(**figures: object) -> None:
        for name, value in figures.items():
            record_property(name, value)

    return measure
