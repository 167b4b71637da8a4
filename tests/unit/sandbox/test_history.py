"""Days in the statistics reply: generated before the first stored data, counted from then on."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY
from tests.live.clients import local_client
from tests.unit.sandbox.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400
QA = {"title": "Refunds", "question": "When are refunds paid?", "answer": "Within 14 days."}


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())


@pytest.fixture
def server(clock: Clock) -> Iterator[SandboxServer]:
    with SandboxServer(clock=clock, history=30, seed=7) as running:
        yield running


@pytest.fixture
def client(server: SandboxServer) -> Iterator[httpx.Client]:
    with site_of(server) as opened:
        yield opened


def site_of(server: SandboxServer, site: str = "acme-docs") -> httpx.Client:
    return local_client(base_url=f"{server.url}/m2m/sites/{site}", headers={"X-API-Key": ACME_FULL_KEY})


def statistics(client: httpx.Client) -> Any:
    return client.get("/statistics").json()


def use(client: httpx.Client) -> None:
    """Load four documents, ask twice, rate once."""
    for _ in range(4):
        client.post("/documents/qa", json=QA)
    for message in ("When are refunds paid?", "Who was Napoleon?"):
        reply = client.post("/chat", json={"session_id": "s", "message": message}).json()
    client.post("/chat/feedback", json={"session_id": "s", "request_id": reply["request_id"], "feedback": "good"})


def test_it_is_off_by_default() -> None:
    with SandboxServer() as server, site_of(server) as client:
        assert "daily" not in statistics(client)


def test_it_lists_the_days_up_to_today(client: httpx.Client) -> None:
    days = statistics(client)["daily"]
    last = date(2026, 11, 21)
    assert list(days) == [(last - timedelta(days=back)).isoformat() for back in reversed(range(30))]
    assert [day["generated"] for day in days.values()] == [True] * 29 + [False]


def test_the_same_seed_gives_the_same_days_and_another_seed_or_site_others(
    server: SandboxServer, client: httpx.Client, clock: Clock
) -> None:
    days = statistics(client)["daily"]
    with SandboxServer(clock=clock, history=30, seed=7) as twin, site_of(twin) as other:
        assert statistics(other)["daily"] == days
    with SandboxServer(clock=clock, history=30, seed=8) as unlike, site_of(unlike) as other:
        assert statistics(other)["daily"]["2026-11-20"] != days["2026-11-20"]
    with site_of(server, "acme-shop") as other:
        assert statistics(other)["daily"]["2026-11-20"] != days["2026-11-20"]


def test_a_date_keeps_its_numbers_when_time_goes_on(client: httpx.Client, clock: Clock) -> None:
    before = statistics(client)["daily"]["2026-11-20"]
    clock.move(3 * DAY)
    assert statistics(client)["daily"]["2026-11-20"] == before


def test_the_counters_are_those_of_a_service_without_a_history(client: httpx.Client, clock: Clock) -> None:
    use(client)
    with SandboxServer(clock=clock) as plain, site_of(plain) as other:
        use(other)
        counted, expected = statistics(client), statistics(other)
    today = counted.pop("daily")["2026-11-21"]
    assert counted == expected
    assert today == {
        "generated": False,
        "documents": {"total": 4},
        "chats": expected["chats"],
        "feedback": expected["feedback"],
    }


def test_days_from_the_first_data_on_are_counted(client: httpx.Client, clock: Clock) -> None:
    use(client)
    clock.move(2 * DAY)
    client.post("/chat", json={"session_id": "t", "message": "When are refunds paid?"})
    days = statistics(client)["daily"]
    totals = {day: (found["generated"], found["chats"]["sync"]["total"]) for day, found in days.items()}
    assert totals["2026-11-20"][0]
    assert [totals[f"2026-11-{day}"] for day in (21, 22, 23)] == [(False, 2), (False, 0), (False, 1)]


def test_generated_numbers_are_plausible(client: httpx.Client) -> None:
    use(client)
    *generated, today = statistics(client)["daily"].items()
    week: list[int] = []
    weekend: list[int] = []
    documents = 0
    for day, found in generated:
        asked = found["chats"]["async"]
        (weekend if date.fromisoformat(day).weekday() > 4 else week).append(asked["total"])
        assert asked["total"] == sum(asked[end] for end in ("answered", "unanswered", "failed", "pending"))
        assert 0.5 < asked["answer_rate"] < 1
        assert 0 < asked["latency_ms"]["p50"] <= asked["latency_ms"]["p95"] <= asked["latency_ms"]["p99"]
        assert sum(found["feedback"]["by_rating"].values()) == found["feedback"]["total"] <= asked["total"]
        assert documents <= (documents := found["documents"]["total"])
    assert min(week) > max(weekend)
    assert documents <= today[1]["documents"]["total"] == 4


def test_async_latency_follows_the_processing_time(clock: Clock) -> None:
    with SandboxServer(clock=clock, history=2, processing_seconds=4) as server, site_of(server) as client:
        generated = statistics(client)["daily"]["2026-11-20"]["chats"]
    assert generated["async"]["latency_ms"]["p50"] > 4000 > generated["sync"]["latency_ms"]["p99"]
