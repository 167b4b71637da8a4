"""When requests are sent: in simulated time, half a minute of a load takes a fraction of a second."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantConnectionError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
)
from tests.virtual_time import now, simulated
from tests.wire import client_with

CALL = endpoints.get_limits("acme-inc")
CHAT = endpoints.chat("docs", ChatMessage(session_id="s", message="m"))
LATENCY = 0.1
SETTINGS = ClientSettings(
    "http://127.0.0.1:1/api/v1", "canary-key-0123456789", retry=RetryPolicy(attempts=1), max_concurrency=4
)
DROPPED = AssistantConnectionError("dropped", maybe_done=True)


def response(status: int = 200, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"{}")


class Wire(AsyncTransport):
    """Answer the requests of all clients in order, and record when they were sent."""

    def __init__(self) -> None:
        self.answers: list[Any] = [response()]
        self.sent: list[float] = []
        self.flying = self.most = 0
        self.latency = LATENCY

    async def exchange(self, call: Any) -> Any:
        self.sent.append(now())
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.flying -= 1
        answer = self.answers.pop(0) if self.answers else response()
        if isinstance(answer, ValueError):
            raise answer
        return answer


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def limited(wire: Wire, most: int = 4, **changes: Any) -> AssistantClient:
    """Return a client whose address and key have worked."""
    client = client_with(replace(SETTINGS, max_concurrency=most, **changes), async_transport=wire, now=now)
    await client.asend(CALL)
    wire.sent.clear()
    wire.most = 0
    return client


async def settled(*sends: Any) -> list[Any]:
    return await asyncio.gather(*sends, return_exceptions=True)


def run(main: Callable[[], Any]) -> Any:
    return simulated(asyncio.wait_for(main(), 7200))


def test_the_concurrency_is_used_completely_and_in_order(wire):
    order = []

    async def main():
        client = await limited(wire, 3)

        async def send(number):
            await client.asend(CALL)
            order.append(number)

        await settled(*(send(number) for number in range(50)))

    run(main)
    assert wire.most == 3
    assert order == list(range(50))


@pytest.mark.promise(
    "replies and errors", "With a wrong key or address, a task sends one request and not one per slot."
)
@pytest.mark.parametrize("answer", [response(401), Response(404, {}, b"<html>"), response(503)])
def test_the_first_request_goes_alone(wire, answer):
    async def main():
        client = client_with(SETTINGS, async_transport=wire, now=now)
        wire.answers = [answer] * 10
        return await settled(*(client.asend(CALL) for _ in range(10)))

    ends = run(main)
    assert all(isinstance(end, AssistantError) for end in ends)
    assert wire.most == 1
    if answer.status == 401:
        assert len(wire.sent) == 1
        assert all(isinstance(end, AssistantAuthenticationError) for end in ends)


def test_a_first_chat_holds_up_the_others_for_a_second(wire):
    """The first question of a synchronous batch may take a minute."""

    async def main():
        client = client_with(SETTINGS, async_transport=wire, now=now)
        wire.latency = 30.0
        await settled(*(client.asend(CHAT) for _ in range(4)))
        return now()

    assert run(main) <= 32
    assert wire.most == 4


def test_a_429_to_one_holds_back_all(wire):
    async def main():
        client = await limited(wire)
        wire.answers = [response(429, retry_after="60")]
        began = now()
        await settled(client.asend(CALL))
        await settled(*(client.asend(CALL) for _ in range(8)))
        return began

    began = run(main)
    refused, *others = (sent - began for sent in wire.sent)
    assert refused == 0.0
    assert len(others) == 8
    assert min(others) >= 60.0
    assert max(others) <= 70.0


def test_a_429_without_a_time_pauses_a_second(wire):
    async def main():
        client = await limited(wire)
        wire.answers = [response(429)]
        await settled(client.asend(CALL))
        began = now()
        await settled(client.asend(CALL))
        return wire.sent[-1] - began

    assert 1.0 <= run(main) <= 1.2


def test_a_pause_that_is_too_long_fails_waiting_requests(wire):
    async def main():
        client = await limited(wire)
        wire.answers = [response(429, retry_after="86400")]
        done = await settled(*(client.asend(CALL) for _ in range(20)))
        return done, now()

    done, took = run(main)
    assert {type(one) for one in done if isinstance(one, Exception)} == {AssistantRateLimitError}
    assert took < 10


def test_polls_wait_out_a_long_pause_because_they_have_a_deadline(wire):
    async def main():
        client = await limited(wire, 1)
        wire.answers = [response(429, retry_after="1800")]
        poll = endpoints.get_chat_request("docs", "r1")
        await settled(client.asend_once(poll), client.asend_once(poll))

    run(main)
    assert wire.sent[1] >= 1800


@pytest.mark.parametrize("bad", [response(500), response(503), DROPPED], ids=["500", "503", "dropped"])
def test_failures_cut_the_concurrency_and_success_restores_it(wire, bad):
    async def main():
        client = await limited(wire, 8)
        wire.answers = [bad] * 8
        await settled(*(client.asend(CALL) for _ in range(8)))
        least = client.throttle.limit
        wire.most = 0
        await settled(*(client.asend(CALL) for _ in range(2)))
        carefully = wire.most
        await settled(*(client.asend(CALL) for _ in range(100)))
        return least, carefully, client.throttle.limit

    assert run(main) == (1.0, 1, 8.0)


def test_a_refusal_of_one_request_is_no_sign_of_trouble(wire):
    async def main():
        client = await limited(wire, 4)
        wire.answers = [response(404)] * 10
        await settled(*(client.asend(CALL) for _ in range(10)))
        return client.throttle.limit

    assert run(main) == 4.0


def test_an_outage_is_tried_by_one_request_at_a_time_and_ends_for_all(wire):
    async def main():
        client = await limited(wire, 8, retry=RetryPolicy())
        wire.answers = [DROPPED] * 1000
        began = now()
        ends = await settled(*(client.asend(CALL) for _ in range(40)))
        return ends, now() - began

    ends, took = run(main)
    assert all(isinstance(end, AssistantConnectionError) and end.stops_all for end in ends)
    assert 80 <= took <= 100
    assert len(wire.sent) <= 8 + 40


def test_an_exception_gives_the_slot_back(wire):
    async def main():
        client = await limited(wire, 1)
        wire.answers = [ValueError("broken")]
        first, second = await settled(client.asend(CALL), client.asend(CALL))
        return type(first), second.raw, client.throttle.in_flight

    assert run(main) == (ValueError, {}, 0)


@pytest.mark.parametrize("after", [0.0, 0.05, 0.15, 0.25])
def test_cancelled_requests_do_not_affect_the_others(wire, after):
    async def main():
        client = await limited(wire, 2)
        tasks = [asyncio.create_task(client.asend(CALL)) for _ in range(20)]
        await asyncio.sleep(after)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await settled(*tasks)
        return [outcome.raw for outcome in outcomes[1::2]], client.throttle.in_flight

    assert run(main) == ([{}] * 10, 0)


def test_a_request_that_is_cancelled_in_a_pause_does_not_end_the_pause(wire):
    async def main():
        client = await limited(wire, 1)
        wire.answers = [response(429, retry_after="60")]
        refused, second, third = (asyncio.create_task(client.asend(CALL)) for _ in range(3))
        await settled(refused)
        await asyncio.sleep(30)
        second.cancel()
        return (await third).raw

    assert run(main) == {}
    assert 60.0 <= wire.sent[-1] <= 70.0


def test_waiting_requests_fail_when_the_client_stops(wire):
    async def main():
        client = await limited(wire, 1)
        first, waiting = (asyncio.create_task(client.asend(CALL)) for _ in range(2))
        await asyncio.sleep(LATENCY / 2)
        client.throttle.stop(AssistantError("stopped"))
        ends = await settled(first, waiting, client.asend(CALL))
        return [getattr(end, "happened", None) for end in ends]

    assert run(main) == [None, "stopped", "stopped"]


# -- before the first request -------------------------------------------------------------------------


async def test_certificates_are_read_in_a_thread_and_once(monkeypatch):
    threads = []

    class Counted(AiohttpTransport):
        def prepare(self):
            threads.append(threading.get_ident())

    settings = ClientSettings("https://assistant.example/api/v1", "key")
    async with client_with(settings, async_transport=Counted(settings)) as client:
        await asyncio.gather(*(client.prepare() for _ in range(20)))
        await client.prepare()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_a_cancelled_preparation_is_repeated_by_the_next_caller():
    settings, tries = ClientSettings("https://assistant.example/api/v1", "key", verify="/no/such"), []
    is_cancelled = threading.Event()

    class Counted(AiohttpTransport):
        def prepare(self):
            tries.append(1)
            assert is_cancelled.wait(60)
            super().prepare()

    client = client_with(settings, async_transport=Counted(settings))
    first = asyncio.create_task(client.prepare())
    while not tries:  # noqa: ASYNC110 (its thread cannot wake the event loop)
        await asyncio.sleep(0.001)
    second = asyncio.create_task(client.prepare())
    await asyncio.sleep(0)
    first.cancel()
    is_cancelled.set()
    with pytest.raises(AssistantInputError, match="ca_bundle"):
        await second
    assert len(tries) == 2


# -- the rate that a service allows --------------------------------------------------------------------

RATE = 300.0
SECONDS = 30.0
LATENCIES = [(0.002, 0), (0.02, 1), (0.05, 2)]


@dataclass
class Bucket:
    """A service with a token bucket: a burst, then a constant rate."""

    size: float
    rate: float = RATE
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self):
        self.tokens = self.size

    def answer(self) -> Response:
        self.tokens = min(self.size, self.tokens + (now() - self.at) * self.rate)
        self.at = now()
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return response()
        return response(429, retry_after=str(max(1, math.ceil((1.0 - self.tokens) / self.rate))))


class Metered(AsyncTransport):
    """The requests of one load to a service with a bucket."""

    def __init__(self, bucket: Bucket, latency: float, rng: random.Random) -> None:
        self.bucket, self.latency, self.rng = bucket, latency, rng
        self.accepted = self.refused = 0

    async def exchange(self, call: Any) -> Any:
        await asyncio.sleep(self.latency * self.rng.uniform(0.7, 1.5))
        answer = self.bucket.answer()
        self.accepted += answer.is_success
        self.refused += not answer.is_success
        return answer


async def load(bucket: Bucket, latency: float, rng: random.Random, start: float, end: float) -> Metered:
    """Send requests like a load, from a start to an end in seconds."""
    await asyncio.sleep(start)
    wire = Metered(bucket, latency, rng)
    settings = replace(SETTINGS, max_concurrency=32, retry=RetryPolicy(max_backoff=300.0))
    client = client_with(settings, async_transport=wire, now=now, rng=rng)

    async def work() -> None:
        while True:
            with contextlib.suppress(AssistantRateLimitError):
                await client.asend(CALL, logs_retries=False)

    workers = [asyncio.create_task(work()) for _ in range(32)]
    await asyncio.sleep(end - start)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return wire


def loaded(
    burst: float,
    *,
    rate: float = RATE,
    loaders: int = 1,
    latency: float = 0.005,
    seed: int = 0,
    starts_within: float = 0.0,
    seconds: float = SECONDS,
) -> list[Metered]:
    async def main() -> list[Metered]:
        shared, rng = Bucket(burst, rate), random.Random(seed)
        starts = [rng.uniform(0.0, starts_within) for _ in range(loaders)]
        return await asyncio.gather(*(load(shared, latency, rng, start, seconds) for start in starts))

    return simulated(main())


# Burst and rate of a service, and the share of its requests that may be refused. A service of few requests a second
# refuses most of the first ones, which are in flight together.
BUCKETS = [
    (20, 300, 0.01),
    (300, 300, 0.02),
    (1000, 300, 0.02),
    (100, 100, 0.02),
    (50, 50, 0.05),
    (20, 50, 0.05),
    (20, 10, 0.15),
    (10, 10, 0.15),
    (5, 5, 0.15),
    (2, 2, 0.15),
    (1, 1, 0.16),
    (20, 1, 0.15),
]


def simulations():
    """Each bucket with each latency; make test runs one latency for each bucket."""
    for number, bucket in enumerate(BUCKETS):
        for latency, seed in LATENCIES:
            marks = [] if seed == number % len(LATENCIES) else [pytest.mark.nightly]
            yield pytest.param(*bucket, latency, seed, marks=marks)


@pytest.mark.parametrize(("burst", "rate", "most_refused", "latency", "seed"), list(simulations()))
def test_a_limit_is_used_with_few_refusals(burst, rate, most_refused, latency, seed):
    """A load of half a minute, or of 300 requests if that takes longer."""
    seconds = max(SECONDS, 300 / rate)
    (seen,) = loaded(burst, rate=rate, latency=latency, seed=seed, seconds=seconds)
    # A burst of less than a second is smaller than what a pause of a second loses: four pauses of half a minute.
    least = 0.79 if burst < rate else 0.85
    share, refused = seen.accepted / (rate * seconds), seen.refused / (seen.accepted + seen.refused)
    assert (share >= least, refused <= most_refused) == (True, True), (round(share, 3), round(refused, 4))


def test_four_loads_share_a_limit():
    """The result depends on chance, so the worst of several simulations may be far from the average."""
    fairness = []
    for seed in range(3):
        accepted = [one.accepted for one in loaded(300, loaders=4, seed=seed)]
        assert sum(accepted) / (RATE * SECONDS) >= 0.9
        fairness.append(min(accepted) / max(accepted))
    assert sum(fairness) / len(fairness) >= 0.4
    assert min(fairness) >= 0.25


@pytest.mark.parametrize("seed", range(3))
def test_a_load_that_finds_an_empty_bucket_gets_its_share_as_well(seed):
    """The first requests of the last load are refused, because the others have emptied the bucket."""
    accepted = [one.accepted for one in loaded(300, loaders=4, seed=seed, starts_within=2.0)]
    assert min(accepted) / max(accepted) >= 0.1
