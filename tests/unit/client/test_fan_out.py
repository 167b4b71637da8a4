"""Concurrent reads of many sites: limited concurrency, independent errors."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.fan_out import BREAKER, read_sites
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantConnectionError,
    AssistantNotFoundError,
    AssistantServerError,
)

NO = AssistantNotFoundError("no", status=404)
CALLS = {name: endpoints.get_statistics(name) for name in map(str, range(100))}


class Client(AssistantClient):
    """A service that sends scripted responses and counts the requests in flight."""

    def __init__(self, max_concurrency=8, **errors):
        super().__init__(ClientSettings("http://localhost/api/v1", "k", max_concurrency=max_concurrency))
        self.errors = {name.lstrip("_"): error for name, error in errors.items()}
        self.asked = []
        self.in_flight = self.most = self.cancelled = 0

    async def asend(self, call):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        site = call.path.split("/")[-2]
        self.asked.append(site)
        try:
            await asyncio.sleep(0)
            if error := self.errors.get(site):
                raise error
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        return ApiReply({"site": site}, CallInfo(200))


async def test_every_site_is_asked_once_and_not_all_at_a_time():
    client = Client()
    found = await read_sites(client, CALLS)
    assert sorted(client.asked) == sorted(CALLS)
    assert client.most == 8
    assert {site: reply.raw for site, (_, reply) in found.replies.items()} == {site: {"site": site} for site in CALLS}
    assert not found.errors


async def test_sites_that_fail_stand_beside_those_that_do_not():
    client = Client(_3=NO, _5=AssistantServerError("down"))
    found = await read_sites(client, CALLS)
    assert {site: str(error) for site, error in found.errors.items()} == {"3": "no", "5": "down"}
    assert len(found.replies) == 98


async def test_a_bad_key_stops_all():
    client = Client(_3=AssistantAuthenticationError("bad key"))
    with pytest.raises(AssistantAuthenticationError, match="bad key"):
        await read_sites(client, CALLS)
    assert len(client.asked) < 20
    assert client.in_flight == 0
    assert client.cancelled


async def test_a_service_that_is_down_is_left_alone():
    client = Client(**{f"_{site}": AssistantConnectionError("refused") for site in CALLS})
    found = await read_sites(client, CALLS)
    assert BREAKER <= len(client.asked) <= BREAKER + 8
    assert set(found.errors) == set(CALLS)
    assert "was not asked" in str(found.errors["99"])
