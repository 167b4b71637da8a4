"""A ledger with a fixed clock, and heartbeats that a test writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.ledger import Ledger, sqlite_engine

# Two seconds before midnight, with microseconds, which a database may truncate.
START = datetime(2026, 11, 21, 23, 59, 58, 123456, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Heartbeats:
    """Schedule heartbeats that are written when a test calls :meth:`beat`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._beats: list[Callable[[], None]] = []

    def __call__(self, seconds: float, beat: Callable[[], None]) -> Callable[[], None]:
        self.seconds.append(seconds)
        self._beats.append(beat)
        return lambda: self._beats.remove(beat)

    def beat(self) -> None:
        for beat in list(self._beats):
            beat()

    def __len__(self) -> int:
        return len(self._beats)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(tmp_path, clock):
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), now=clock) as opened:
        yield opened
