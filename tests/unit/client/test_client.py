"""The client on real sockets: how many connections it opens, keeps and closes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_assistant.api import endpoints
from tests.wire import Answer, ScriptedService, client_of

CALL = endpoints.get_limits("acme-inc")


@pytest.fixture(autouse=True)
def idle_connections_stay_open(monkeypatch):
    for transport in ("aiohttp_transport", "httpx_transport"):
        monkeypatch.setattr(f"airflow_provider_assistant.client.{transport}.KEEPALIVE_SECONDS", 600.0)


class CountingService(ScriptedService):
    """
    Count the connections that are open, that were open at once, and all connections.

    No request is answered before ``at_once`` connections were open, so that a busy machine cannot keep them apart.
    """

    def __init__(self, *answers, at_once=1) -> None:
        super().__init__(*answers)
        self.open = self.most = 0
        self.first = True
        enough = threading.Event()
        handler = self._server.RequestHandlerClass
        counted = self

        class Counted(handler):
            def setup(self):
                with counted._lock:
                    counted.open += 1
                    counted.most = max(counted.most, counted.open)
                    if counted.most >= at_once:
                        enough.set()
                    is_first = counted.first
                    counted.first = False
                # The first request of a client goes alone.
                if not is_first:
                    enough.wait(60)
                super().setup()

            def finish(self):
                try:
                    super().finish()
                finally:
                    with counted._lock:
                        counted.open -= 1

        self._server.RequestHandlerClass = Counted


def in_threads(client, count):
    with ThreadPoolExecutor(count) as pool:
        return [reply.raw for reply in pool.map(client.send, [CALL] * count)]


def in_tasks(client, count):
    async def run():
        async with client:
            return [reply.raw for reply in await asyncio.gather(*(client.asend(CALL) for _ in range(count)))]

    return asyncio.run(run())


WAYS = pytest.mark.parametrize("many", [in_threads, in_tasks])


@WAYS
@pytest.mark.parametrize("most", [1, 3])
def test_connections_are_bounded(many, most):
    with CountingService(Answer(body={"n": 1}, delay=0.03), at_once=most) as service:
        client = client_of(service.url, max_concurrency=most)
        assert many(client, 12) == [{"n": 1}] * 12
        client.close()
        assert service.most == most
        assert service.connections == most
        assert len(service.received) == 12


def test_connections_are_kept_and_closed_and_opened_again():
    with CountingService() as service:
        client = client_of(service.url)
        for _ in range(3):
            client.send(CALL)
        assert service.connections == 1
        client.close()
        client.close()
        client.send(CALL)
        assert service.connections == 2
        client.close()


def test_under_asyncio_in_one_loop_after_another():
    with CountingService() as service:
        client = client_of(service.url)

        async def thrice():
            async with client:
                for _ in range(3):
                    await client.asend(CALL)
            await client.aclose()

        for connections in (1, 2):
            asyncio.run(thrice())
            assert service.connections == connections
