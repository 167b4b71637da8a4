"""Share one client per connection: who shares it, when it opens, when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import weakref

import certifi
import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.exceptions import AssistantAuthenticationError
from airflow_provider_assistant.hooks import shared_client as shared
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client

CALL = endpoints.get_limits("acme-inc")


class Service:
    """A service that answers every request and records the open connections."""

    def __init__(self):
        self.open = self.most = self.opened = 0
        self.keys = []
        self.status = b"200 OK"
        self.closed = asyncio.Event()

    async def serve(self, reader, writer):
        self.open += 1
        self.opened += 1
        self.most = max(self.most, self.open)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while head := await reader.readuntil(b"\r\n\r\n"):
                    self.keys += [
                        line.partition(": ")[2] for line in head.decode().split("\r\n") if line.startswith("X-API-Key")
                    ]
                    writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % self.status)
        finally:
            writer.close()
            self.open -= 1
            self.closed.set()

    async def all_closed(self):
        async with asyncio.timeout(10):
            while self.open:
                self.closed.clear()
                await self.closed.wait()


@contextlib.asynccontextmanager
async def running():
    service = Service()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=1000)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        await service.all_closed()


@pytest.fixture
async def service():
    async with running() as service:
        yield service


@pytest.fixture
def point(monkeypatch):
    """Create an Airflow connection to a service."""

    def pointed(service, conn_id="assistant_default", key="key-0123456789", **extra):
        connection = {
            "conn_type": "assistant",
            "host": f"http://127.0.0.1:{service.port}",
            "password": key,
            "extra": {"retries": 0, **extra},
        }
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))

    return pointed


@pytest.fixture(autouse=True)
def _idle_connections_stay_open(monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.client.aiohttp_transport.KEEPALIVE_SECONDS", 600.0)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    assert shared.open_clients == {}


async def use(conn_id="assistant_default", sends=1):
    """Send a request with the shared client, and return the client."""
    async with shared_client(AssistantHook(conn_id)) as client:
        for _ in range(sends):
            await client.asend(CALL)
        return client


@pytest.mark.promise("Airflow", "A thousand deferred tasks of one connection share a bounded number of sockets.")
async def test_a_thousand_users_share_a_client_and_its_connections(service, point):
    point(service, max_concurrency=8)
    together = asyncio.Barrier(1000)

    async def use_together():
        async with shared_client(AssistantHook()) as client:
            await client.asend(CALL)
            # On a busy machine, the last user may leave before the next one comes.
            await together.wait()
            return client

    clients = await asyncio.gather(*(use_together() for _ in range(1000)))
    assert len({id(client) for client in clients}) == 1
    assert len(service.keys) == 1000
    assert service.most <= 8
    assert service.opened <= 8


async def test_two_keys_are_two_clients(service, point):
    point(service, "one", key="key-number-one")
    point(service, "two", key="key-number-two")
    clients = await asyncio.gather(*(use(conn_id, sends=5) for conn_id in ("one", "two") * 5))
    # On a busy machine, the last user may leave before the next one comes.
    assert not {id(client) for client in clients[::2]} & {id(client) for client in clients[1::2]}
    assert sorted(service.keys) == ["key-number-one"] * 25 + ["key-number-two"] * 25


async def test_two_names_of_one_connection_are_one_client(service, point):
    point(service, "one", site_id="docs")
    point(service, "two", site_id="shop")
    async with (
        shared_client(first := AssistantHook("one")) as one,
        shared_client(second := AssistantHook("two")) as two,
    ):
        assert one is two
        assert (first.resolve_site_id(), second.resolve_site_id()) == ("docs", "shop")


async def test_the_last_user_closes_the_client_and_the_next_gets_a_new_one(service, point):
    point(service)

    async def fail():
        async with shared_client(AssistantHook()):
            raise ValueError("mine")

    async with shared_client(AssistantHook()) as first:
        assert await use() is first
        with pytest.raises(ValueError, match="mine"):
            await fail()
        assert await use() is first
        assert (service.open, service.opened) == (1, 1)
    await service.all_closed()
    assert await use() is not first
    assert service.opened == 2


async def test_a_rotated_key_takes_effect_immediately(service, point):
    point(service, key="key-of-yesterday")
    async with shared_client(AssistantHook()) as old:
        await old.asend(CALL)
        point(service, key="key-of-today")
        assert await use() is not old
        await old.asend(CALL)
    assert service.keys == ["key-of-yesterday", "key-of-today", "key-of-yesterday"]


async def test_a_renewed_certificate_takes_effect_immediately(service, point, tmp_path):
    bundle = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), bundle)
    point(service, ca_bundle=str(bundle))
    async with shared_client(AssistantHook()) as first:
        assert await use() is first
        os.utime(bundle, (1, 1))
        assert await use() is not first


async def test_a_key_that_was_refused_once_gets_a_new_client(service, point):
    point(service)
    async with shared_client(AssistantHook()) as first:
        service.status = b"401 Unauthorized"
        with pytest.raises(AssistantAuthenticationError):
            await first.asend(CALL)
        service.status = b"200 OK"
        async with shared_client(AssistantHook()) as second:
            assert second is not first
            await second.asend(CALL)
            assert await use() is second
    assert len(service.keys) == 3


@pytest.mark.parametrize("steps", range(12))
async def test_a_user_may_be_cancelled_at_any_step(steps, service, point):
    point(service)
    together = asyncio.Barrier(4)

    async def stay():
        async with shared_client(AssistantHook()) as client:
            await together.wait()
            return client

    first, *others = [asyncio.create_task(job) for job in (use(), *(stay() for _ in range(4)))]
    for _ in range(steps):
        await asyncio.sleep(0)
    first.cancel()
    assert len({id(client) for client in await asyncio.gather(*others)}) == 1
    with contextlib.suppress(asyncio.CancelledError):
        await first


@pytest.mark.usefixtures("only_new_garbage")
def test_every_event_loop_has_its_own(point):
    async def main():
        async with running() as service:
            point(service)
            together = asyncio.Barrier(2)

            async def stay():
                async with shared_client(AssistantHook()) as client:
                    await client.asend(CALL)
                    await together.wait()
                    return client

            clients = await asyncio.gather(stay(), stay())
            return weakref.ref(clients[0]), clients[0] is clients[1]

    for _ in range(3):
        client, same = asyncio.run(main())
        assert same
        gc.collect()
        assert client() is None


def test_clients_of_closed_event_loops_are_dropped(point):
    abandoned = asyncio.new_event_loop()

    async def enter():
        async with running() as service:
            point(service)
            user = shared_client(AssistantHook())
            await user.__aenter__()
            return user

    user = abandoned.run_until_complete(enter())
    abandoned.close()
    assert [key[0] for key in shared.open_clients] == [abandoned]

    async def main():
        async with running() as service:
            point(service)
            await use()

    asyncio.run(main())
    assert shared.open_clients == {}
    del user
