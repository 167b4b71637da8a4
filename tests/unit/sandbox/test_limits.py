"""The token bucket and the monthly quotas, with a simulated clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_assistant.sandbox.limits import RateLimiter
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.timestamps import iso, next_month


def test_a_burst_then_the_rate() -> None:
    limiter, settings = RateLimiter(), Settings(rate_limit=2, rate_burst=3)
    assert [limiter.wait("k", settings, 0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert limiter.wait("k", settings, 0.5) == 0
    assert limiter.wait("k", settings, 0.5) == 0.5


def test_keys_have_buckets_of_their_own() -> None:
    limiter, settings = RateLimiter(), Settings(rate_limit=1)
    assert limiter.wait("one", settings, 0) == 0
    assert limiter.wait("two", settings, 0) == 0
    assert limiter.wait("one", settings, 0) == 1


def test_a_clock_set_back_gives_nothing_away() -> None:
    limiter, settings = RateLimiter(), Settings(rate_limit=1)
    assert limiter.wait("k", settings, 100) == 0
    assert limiter.wait("k", settings, 0) == 1


def test_no_limit() -> None:
    limiter = RateLimiter()
    assert {limiter.wait("k", Settings(), 0) for _ in range(1000)} == {0}


@pytest.mark.parametrize(("day", "next_day"), [("2026-01-31", "2026-02-01"), ("2026-12-31", "2027-01-01")])
def test_next_month(day: str, next_day: str) -> None:
    moment = datetime.fromisoformat(f"{day}T23:59:59").replace(tzinfo=UTC).timestamp()
    assert iso(next_month(moment)) == f"{next_day}T00:00:00.000Z"
