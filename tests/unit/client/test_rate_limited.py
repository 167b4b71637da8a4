"""The limited client with scripted responses in simulated time, and its preparation before the first request."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError, AssistantRateLimitError
from tests.virtual_time import now, simulated

CALL = endpoints.get_limits("acme-inc")
LATENCY = 0.1
SETTINGS = ClientSettings("http://127.0.0.1:1/api/v1", "canary-key-0123456789", retry=RetryPolicy(attempts=1))
DROPPED = TransportFailure("connection", "dropped", sent=True)


def response(status: int = 200, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"{}")


class Wire(AsyncTransport):
    """Answer the requests of all clients in order, and record when they were sent."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.sent: list[float] = []
        self.flying = self.most = 0

    async def exchange(self, call: Any) -> Any:
        self.sent.append(now())
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(LATENCY)
        finally:
            self.flying -= 1
        answer = self.answers.pop(0) if self.answers else response()
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def wire() -> Wire:
    return Wire()


def limited(wire: Wire, most: int = 4) -> RateLimitedClient:
    """Return a client that uses the clock of the running loop."""
    return RateLimitedClient(SETTINGS, AdaptiveRateLimiter(most), async_transport=wire, now=now)


async def settled(*sends: Any) -> list[Any]:
    return await asyncio.gather(*sends, return_exceptions=True)


def run(main: Callable[[], Any]) -> Any:
    return simulated(asyncio.wait_for(main(), 3600))


def test_the_concurrency_limit_is_used_completely(wire):
    async def main():
        client = limited(wire, 4)
        await settled(*(client.asend(CALL) for _ in range(10)))

    run(main)
    assert wire.most == 4
    assert len(wire.sent) == 10


def test_the_default_limit_is_the_connections():
    assert RateLimitedClient(SETTINGS).limiter.max_concurrency == SETTINGS.max_concurrency


def test_first_come_first_served(wire):
    order = []

    async def main():
        client = limited(wire, 3)

        async def send(number):
            await client.asend(CALL)
            order.append(number)

        await settled(*(send(number) for number in range(50)))

    run(main)
    assert order == list(range(50))


def test_a_429_to_one_holds_back_all(wire):
    async def main():
        client = limited(wire)
        wire.answers = [response(429, retry_after="60")]
        await settled(client.asend(CALL))
        await settled(*(client.asend(CALL) for _ in range(8)))

    run(main)
    refused, *others = wire.sent
    assert refused == 0.0
    assert len(others) == 8
    assert min(others) >= 60.0
    assert max(others) <= 70.0


def test_a_429_without_a_time_pauses_a_second(wire):
    async def main():
        client = limited(wire)
        wire.answers = [response(429)]
        await settled(client.asend(CALL), client.asend(CALL))
        await settled(client.asend(CALL))

    run(main)
    assert 1.0 + LATENCY <= wire.sent[-1] <= 1.2 + LATENCY


@pytest.mark.parametrize("bad", [response(500), response(503), DROPPED], ids=["500", "503", "dropped"])
def test_failures_cut_the_concurrency_and_success_restores_it(wire, bad):
    async def main():
        client = limited(wire, 8)
        wire.answers = [bad] * 8
        await settled(*(client.asend(CALL) for _ in range(8)))
        least = client.limiter.limit
        wire.most = 0
        await settled(*(client.asend(CALL) for _ in range(2)))
        carefully = wire.most
        await settled(*(client.asend(CALL) for _ in range(100)))
        return least, carefully, client.limiter.limit

    assert run(main) == (1.0, 1, 8.0)


def test_a_refusal_of_one_request_is_no_sign_of_trouble(wire):
    async def main():
        client = limited(wire, 4)
        wire.answers = [response(404)] * 10
        await settled(*(client.asend(CALL) for _ in range(10)))
        return client.limiter.limit

    assert run(main) == 4.0


def test_an_exception_gives_the_slot_back(wire):
    async def main():
        client = limited(wire, 1)
        wire.answers = [ValueError("broken")]
        first, second = await settled(client.asend(CALL), client.asend(CALL))
        return type(first), second.raw, client.limiter.in_flight

    assert run(main) == (ValueError, {}, 0)


@pytest.mark.parametrize("after", [0.0, 0.05, 0.15, 0.25])
def test_cancelled_requests_do_not_affect_the_others(wire, after):
    async def main():
        client = limited(wire, 2)
        tasks = [asyncio.create_task(client.asend(CALL)) for _ in range(20)]
        await asyncio.sleep(after)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await settled(*tasks)
        return [outcome.raw for outcome in outcomes[1::2]], client.limiter.in_flight

    assert run(main) == ([{}] * 10, 0)


async def one_at_a_time(wire: Wire, client: RateLimitedClient) -> None:
    """Reduce the client's concurrency to one by failures; the other requests wait in the limiter."""
    wire.answers = [response(500)] * 4
    await settled(*(client.asend(CALL) for _ in range(4)))
    assert client.limiter.limit == 1.0


def test_a_request_that_is_cancelled_when_woken_wakes_the_next(wire):
    async def main():
        client = limited(wire, 4)
        await one_at_a_time(wire, client)

        async def send_and_cancel():
            wire.answers = [response(500)]
            with contextlib.suppress(AssistantError):
                await client.asend(CALL)
            # The limiter has woken the second request, which has not run yet.
            second.cancel()

        first = asyncio.create_task(send_and_cancel())
        second, third = (asyncio.create_task(client.asend(CALL)) for _ in range(2))
        await settled(first, second)
        return second.cancelled(), (await third).raw

    assert run(main) == (True, {})


def test_a_request_that_is_cancelled_in_a_pause_does_not_end_the_pause(wire):
    async def main():
        client = limited(wire, 4)
        await one_at_a_time(wire, client)
        wire.answers = [response(429, retry_after="60")]
        refused, second, third = (asyncio.create_task(client.asend(CALL)) for _ in range(3))
        await settled(refused)
        # The second request waits for the end of the pause, the third one for the second.
        await asyncio.sleep(30)
        second.cancel()
        return (await third).raw

    assert run(main) == {}
    assert 60.0 <= wire.sent[-1] <= 70.0


async def test_certificates_are_read_in_a_thread_and_once(monkeypatch):
    threads = []

    def create(*_):
        threads.append(threading.get_ident())
        return True

    monkeypatch.setattr("airflow_provider_assistant.client.network.tls_context", create)
    async with RateLimitedClient(ClientSettings("https://assistant.example/api/v1", "key")) as client:
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

    client = RateLimitedClient(settings, async_transport=Counted(settings))
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


def test_a_pause_that_is_too_long_fails_waiting_requests(wire):
    wire.answers = [response(429, retry_after="86400")]

    async def main():
        client = limited(wire, 4)
        calls = [client.asend(CALL) for _ in range(20)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        return done, now()

    done, took = run(main)
    assert {type(one) for one in done if isinstance(one, Exception)} == {AssistantRateLimitError}
    assert took < 10


def test_polls_wait_out_a_long_pause_because_they_have_a_deadline(wire):
    wire.answers = [response(429, retry_after="1800")]

    async def main():
        client = limited(wire, 1)
        poll = endpoints.get_chat_request("docs", "r1")
        with pytest.raises(AssistantRateLimitError):
            await client.asend_once(poll)
        await client.asend_once(poll)

    run(main)
    assert wire.sent[1] >= 1800
