"""A ledger with a fixed clock."""

from __future__ import annotations

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


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(tmp_path, clock):
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), now=clock) as opened:
        yield opened
