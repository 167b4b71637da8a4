"""Outages in the middle of loads, in simulated time; that loads survive them is held by tests/simulate."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.load_client import LoadClient, TrackingLimiter

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantAuthenticationError, AssistantError
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from tests.unit.loading.scripted_client import text_rows
from tests.virtual_time import now, simulated

PAGE = b"<html><title>Bad Gateway</title>"
# What the network or a gateway does while the service is away.
KINDS = {
    "refused": lambda: TransportFailure("connection", "ConnectError: connection refused", sent=False),
    "no name": lambda: TransportFailure("connection", "ConnectError: name or service not known", sent=False),
    "reset": lambda: TransportFailure("connection", "ServerDisconnectedError: reset", sent=True),
    "hangs": lambda: TransportFailure("timeout", "no complete answer within 5 s", sent=True),
    "502": lambda: Response(502, {}, PAGE),
    "503": lambda: Response(503, {}, PAGE),
    "503 later": lambda: Response(503, {"retry-after": "7"}, PAGE),
    "504": lambda: Response(504, {}, PAGE),
    "500": lambda: Response(500, {}, b'{"error": "starting"}'),
}
LATENCY = 0.05


class AwayService(AsyncTransport):
    """A service that is away between two times; it creates what it receives while it is there."""

    def __init__(self, start: float, end: float, kind: str) -> None:
        self.start, self.end, self.kind = start, end, kind
        self.created: Counter[str] = Counter()
        self.tries: list[float] = []

    async def exchange(self, call: Any) -> Any:
        if self.is_away:
            self.tries.append(now())
            await asyncio.sleep(5.0 if self.kind == "hangs" else LATENCY)
            return KINDS[self.kind]()
        await asyncio.sleep(LATENCY)
        self.created[call.json["title"]] += 1
        return Response(201, {}, b'{"id": "d"}')

    @property
    def is_away(self) -> bool:
        return self.start <= now() < self.end


@pytest.fixture
def load(tmp_path):
    """Load rows from a service that is away for a while; return the counts, the error and the seconds it took."""

    def run(service, rows, rng, *, retries=4, concurrency=8, on_ambiguous="retry"):
        options = LoadOptions(concurrency, on_ambiguous=on_ambiguous)
        settings = ClientSettings("http://unused/api/v1", "key", retry=RetryPolicy(attempts=retries + 1))

        async def main():
            limiter = TrackingLimiter(concurrency, now=now)
            with FindingsFile(tmp_path / f"{rng.random()}.parquet") as findings:
                client = LoadClient(settings, options, limiter=limiter, async_transport=service, now=now, rng=rng)
                loaded = Load(
                    client, text_rows([f"{number}" for number in range(rows)]), options, ledger=None, findings=findings
                )
                error = None
                try:
                    await asyncio.wait_for(loaded.run(), 3600)
                except AssistantError as raised:
                    error = raised
            return loaded.counts, error, now()

        return simulated(main())

    return run


def test_without_retries_nothing_is_waited_for(load):
    rng = random.Random(4)
    for kind in KINDS:
        service = AwayService(0.1, 1e9, kind)
        counts, error, took = load(service, 100, rng, retries=0, concurrency=4)
        assert error is not None
        assert took < {"hangs": 150, "503 later": 10}.get(kind, 3)
        assert counts.done == 100


def test_some_errors_are_no_outage(load):
    """A load against a service with a few errors is not much slower than the errors make it."""
    for share in [0.01, 0.05, 0.2]:
        rng = random.Random(5)

        class Mixed(AwayService):
            async def exchange(self, call, rng=rng, share=share):
                reply = await super().exchange(call)
                return Response(502, {}, PAGE) if rng.random() < share else reply

        counts, error, took = load(Mixed(0.0, 0.0, "502"), 1000, rng, concurrency=16)
        assert error is None
        assert counts.failed <= 1000 * share**4
        # One request at a time would take 50 s.
        assert took < {0.01: 8, 0.05: 15, 0.2: 35}[share], took


def test_a_poisonous_row_fails_alone_and_does_not_delay_the_others(load):
    class Poisoned(AwayService):
        async def exchange(self, call):
            reply = await super().exchange(call)
            return Response(502, {}, PAGE) if call.json["title"] == "5" else reply

    service = Poisoned(0.0, 0.0, "502")
    counts, error, took = load(service, 400, random.Random(6), concurrency=8)
    assert (counts.created, counts.ambiguous, error) == (399, 1, None)
    assert service.created["5"] == 5
    assert took < 30


def test_a_wrong_key_meets_the_service_once(load):
    class Refusing(AwayService):
        async def exchange(self, call):
            await super().exchange(call)
            return Response(401, {}, b'{"error": "invalid_api_key"}')

    service = Refusing(0.0, 0.0, "502")
    counts, error, _ = load(service, 100, random.Random(7), concurrency=32)
    assert isinstance(error, AssistantAuthenticationError)
    assert counts.requests == service.created.total() == 1


def test_the_limit_follows_from_the_retries():
    limits = [RetryPolicy(attempts=retries + 1).outage_seconds for retries in (0, 1, 4, 100)]
    assert limits == [0.0, 20.0, 80.0, 2000.0]
    assert [flow.RetryPolicy().pause_in_outage(tries) for tries in (1, 2, 3, 4, 5, 99)] == [0.5, 1, 2, 4, 5, 5]


@pytest.mark.parametrize("kind", ["502", "503", "503 later", "reset", "hangs"])
def test_a_create_that_may_have_been_carried_out_is_sent_as_often_as_without_an_outage(load, kind):
    for retries in [1, 4]:
        rng = random.Random(retries)
        for rows in [1, 3]:
            service = AwayService(0.0, 1e6, kind)
            counts, error, took = load(service, rows, rng, retries=retries)
            case = f"{retries} retries, {rows} rows: {len(service.tries)} tries in {took:.0f} s: {counts} {error!r}"
            assert counts.ambiguous >= 1, case
            assert len(service.tries) <= rows * max(3, retries + 1), case
            assert 20 * retries <= took <= 20 * retries + 15, case
        # An outage that ends in that time is survived.
        service = AwayService(0.0, 19.0 * retries, kind)
        counts, error, took = load(service, 1, rng, retries=retries)
        assert (error, counts.created) == (None, 1), f"{retries} retries, {len(service.tries)} tries in {took:.0f} s"
