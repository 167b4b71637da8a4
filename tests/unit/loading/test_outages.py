"""Outages in the middle of loads, exports and calls, in simulated time: exact counts, one try at a time, an end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from typing import Any

import pytest

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.fan_out import read_sites
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantAuthenticationError, AssistantError, AssistantGatewayError
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.load_client import LoadClient, TrackingLimiter
from airflow_provider_assistant.loading.options import LoadOptions
from tests.unit.loading.scripted_client import text_rows
from tests.virtual_time import now, simulated

PAGE = b"<html><title>Bad Gateway</title>"
# What the network or a gateway does while the service is away. Only what was sent may have happened.
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
NEVER_SENT = {"refused", "no name"}
LATENCY = 0.05
LOGGER = logging.getLogger("airflow_provider_assistant")


class AwayService(AsyncTransport):
    """A service that is away between two times; it creates what it receives while it is there."""

    def __init__(self, start: float, end: float, kind: str, *, in_flight: int = 99) -> None:
        self.start, self.end, self.kind = start, end, kind
        self.created: Counter[str] = Counter()
        self.lost: set[str] = set()
        self.tries: list[float] = []
        self.flying = self.most_in_outage = 0

    async def exchange(self, call: Any) -> Any:
        title = (call.json or {}).get("title", call.path)
        self.flying += 1
        try:
            if self.is_away and now() > self.start + 5.5:
                # Those in flight at its beginning have ended.
                self.most_in_outage = max(self.most_in_outage, self.flying)
            if self.is_away:
                self.tries.append(now())
                await asyncio.sleep(5.0 if self.kind == "hangs" else LATENCY)
                return KINDS[self.kind]()
            await asyncio.sleep(LATENCY)
            self.created[title] += 1
            if self.is_away and self.kind not in NEVER_SENT:
                # It was received, and its answer is lost.
                self.lost.add(title)
                return KINDS[self.kind]()
            return Response(201, {}, b'{"id": "d"}')
        finally:
            self.flying -= 1

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


@pytest.mark.promise("loads", "A load waits for a service that is away for up to a minute, and its counts are exact.")
@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_a_load_survives_an_outage_of_up_to_a_minute_with_exact_counts(load, on_ambiguous, caplog):
    rng = random.Random(on_ambiguous)
    for number in range(18):
        kind = list(KINDS)[number % len(KINDS)]
        length = rng.choice([1, 2, 5, 15, 30, 60]) * rng.uniform(0.9, 1.0)
        if kind == "500":
            # The service itself may answer this about single rows, so each one counts as an attempt of its row.
            length = min(length, 30.0)
        service = AwayService(rng.choice([0.0, rng.uniform(0.0, 0.1)]), 0.0, kind)
        service.end = service.start + length
        rows, concurrency = rng.choice([60, 150]), rng.choice([4, 16, 24])
        caplog.clear()
        with caplog.at_level("INFO", LOGGER.name):
            counts, error, took = load(service, rows, rng, concurrency=concurrency, on_ambiguous=on_ambiguous)
        case = f"{kind} from {service.start:.2f} for {length:.1f} s, {concurrency} in flight: {counts} {error}"
        assert error is None, case
        assert counts.failed == counts.rejected == 0, case
        assert service.most_in_outage <= 1, case
        assert len(service.tries) <= concurrency + 25, case
        assert took <= length + 60, case
        if on_ambiguous == "retry" or kind in NEVER_SENT:
            assert counts.created == rows == len(service.created), case
            assert counts.ambiguous == 0, case
        else:
            assert counts.created + counts.ambiguous == rows, case
            assert counts.ambiguous <= concurrency + 20, case
            assert set(service.created) >= service.lost, case
        messages = caplog.text.count("The service has not answered for")
        if length > 18:
            assert 1 <= messages <= length / 10 + 1, case
            assert caplog.text.count("The service answers again") == 1, case
        assert service.tries or service.lost, "the outage is in the middle of the load"


def test_a_longer_outage_ends_the_load_within_the_stated_time(load):
    rng = random.Random(3)
    for kind in KINDS:
        retries = rng.choice([1, 4, 6])
        service = AwayService(rng.uniform(0.0, 0.3), 1e9, kind)
        counts, error, took = load(service, 100, rng, retries=retries, concurrency=16)
        limit = 20 * retries
        assert limit <= took <= limit + 20, f"{kind}: {took}"
        assert "Nothing was answered for" in str(error.__cause__ or error), f"{kind}: {error}"
        assert counts.created + counts.failed + counts.ambiguous == 100
        assert (counts.ambiguous == 0) == (kind in NEVER_SENT)
        assert len(service.tries) <= 20 + 4 + 4 * retries, kind


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
    exports = Refusing(0.0, 0.0, "502")

    async def export():
        settings = ClientSettings("http://unused/api/v1", "key")
        async with RateLimitedClient(settings, async_transport=exports) as client:
            await read_sites(client, {str(site): endpoints.get_statistics(str(site)) for site in range(50)})

    with pytest.raises(AssistantAuthenticationError):
        simulated(export())
    assert exports.created.total() == 1


def test_exports_and_single_calls_survive_a_minute():
    rng = random.Random(8)
    for kind in list(KINDS)[:-1]:
        length = rng.uniform(1, 60)
        service = AwayService(0.0, length, kind)

        async def export(service=service):
            settings = ClientSettings("http://unused/api/v1", "key")
            calls = {str(site): endpoints.get_statistics(str(site)) for site in range(60)}
            async with RateLimitedClient(settings, async_transport=service) as client:
                return await read_sites(client, calls)

        replies = simulated(export())
        assert (len(replies.replies), replies.errors) == (60, {}), kind
        assert service.most_in_outage <= 1
        clock = [100.0]

        class Sync(Transport):
            def exchange(self, call, kind=kind, length=length, clock=clock):
                clock[0] += LATENCY
                return KINDS[kind]() if clock[0] < 100.0 + length else Response(201, {}, b'{"id": "d"}')

        def sleep(seconds, clock=clock):
            clock[0] += seconds

        client = AssistantClient(
            ClientSettings("http://u/api/v1", "key"), transport=Sync(), sleep=sleep, now=lambda clock=clock: clock[0]
        )
        document = TextDocument(title="t", content="c", category="k")
        with contextlib.closing(client):
            assert client.send(endpoints.create_text_document("s", document)).document_id == "d"
            clock[0] = 100.0
            client.send(endpoints.get_statistics("s"))


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


WAF = b"<html><head><title>Request blocked</title></head><body>nginx</body></html>"


@pytest.mark.parametrize("status", [400, 403, 406, 413])
def test_a_gateway_that_refuses_single_rows_lets_the_others_be_loaded(load, status):
    rng = random.Random(status)
    for number in range(4):
        concurrency, rows = rng.choice([1, 2, 8, 32]), rng.choice([3, 40, 120])
        blocked = {str(row) for row in range(1, rows, rng.choice([3, 5, 17]))}
        if number % 4 == 0:
            blocked = {str(rows - 1)}

        class Blocking(AwayService):
            async def exchange(self, call, blocked=blocked):
                if call.json["title"] in blocked:
                    await asyncio.sleep(LATENCY)
                    return Response(status, {"server": "nginx", "content-type": "text/html"}, WAF)
                return await super().exchange(call)

        counts, error, _ = load(Blocking(0.0, 0.0, "502"), rows, rng, concurrency=concurrency)
        case = f"{concurrency} in flight, {rows} rows: {counts} {error}"
        assert error is None, case
        assert (counts.created, counts.rejected) == (rows - len(blocked), len(blocked)), case


@pytest.mark.parametrize("status", [400, 403, 406, 413, 407, 495])
def test_a_gateway_that_refuses_everything_stops_the_load_soon(load, status):
    rng = random.Random(status)
    for start in [0.0, 0.3]:
        concurrency = rng.choice([1, 8, 32])

        class Closed(AwayService):
            async def exchange(self, call, start=start):
                if now() >= start:
                    self.tries.append(now())
                    await asyncio.sleep(LATENCY)
                    return Response(status, {"server": "nginx", "content-type": "text/html"}, WAF)
                return await super().exchange(call)

        service = Closed(0.0, 0.0, "502")
        counts, error, _ = load(service, 500, rng, concurrency=concurrency)
        case = f"{status} from {start}, {concurrency} in flight: {counts} {error!r}"
        assert isinstance(error, AssistantGatewayError), case
        assert "nginx" in str(error), case
        assert counts.ambiguous == 0, case
        assert counts.rejected <= (2 if concurrency == 1 else 0), case
        assert len(service.tries) <= (3 if start == 0.0 else concurrency + 2), case
