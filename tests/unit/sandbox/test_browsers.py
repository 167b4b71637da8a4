"""Web pages that a browser of this machine shows cannot use the service."""

from __future__ import annotations

import httpx
import pytest

from airflow_provider_assistant.sandbox.app import create_app
from airflow_provider_assistant.sandbox.browsers import BrowserGuard, is_loopback
from airflow_provider_assistant.sandbox.settings import Settings
from tests.live.clients import local_client

LOCAL = ["127.0.0.1", "127.0.0.1:8089", "localhost", "LOCALHOST:8089", "a.localhost", "[::1]:8089", "127.1.2.3:1"]
FOREIGN = [
    "example.com", "example.com:8089", "127.0.0.1.example.com", "localhost.example.com", "localhost.", "192.168.0.7",
    "0.0.0.0:8089", "", "[::1", "[fe80::1]", "127.0.0.1@example.com", "notlocalhost",
]  # fmt: skip


def statuses(host, requests):
    """Return the status of each request to a service that listens on an address."""
    app = create_app(Settings())
    transport = httpx.ASGITransport(BrowserGuard(app, host))

    async def sent():
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [
                (await client.request(method, path, headers=headers)).status_code for method, path, headers in requests
            ]

    return sent()


async def test_names_of_other_machines_are_refused_on_a_loopback_address():
    for path in ("/api/v1/openapi.json", "/_sandbox/health", "/v1/models", "/"):
        requests = [("GET", path, {"Host": host}) for host in (*LOCAL, *FOREIGN)]
        refused = [status == 421 for status in await statuses("127.0.0.1", requests)]
        assert refused == [False] * len(LOCAL) + [True] * len(FOREIGN)


async def test_any_name_is_valid_on_another_address_but_not_for_the_control_plane():
    requests = [(method, path, {"Host": host}) for host in FOREIGN[:4] for method, path in
                [("GET", "/api/v1/openapi.json"), ("POST", "/_sandbox/reset")]]  # fmt: skip
    assert await statuses("0.0.0.0", requests) == [200, 421] * 4


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "0.0.0.0"])
async def test_changes_by_the_page_of_another_website_are_refused(listens_on):
    own, foreign = "http://127.0.0.1", ["http://example.com", "null", "https://127.0.0.1", "http://127.0.0.1:3000", ""]
    paths = ["/_sandbox/reset", "/api/v1/m2m/sites/acme-docs/documents/text"]
    for method in ("POST", "PATCH", "DELETE", "PUT"):
        for path in paths:
            requests = [(method, path, {"Origin": origin}) for origin in (own, *foreign)]
            allowed, *refused = await statuses(listens_on, requests)
            assert allowed not in {403, 421}
            assert refused == [403] * len(foreign)
    assert await statuses(listens_on, [("GET", "/api/v1/openapi.json", {"Origin": foreign[0]})]) == [200]


def test_the_server_checks(server):
    with local_client(base_url=server.root) as client:
        assert client.get("/_sandbox/health").status_code == 200
        assert client.get("/_sandbox/health", headers={"Host": "rebound.example"}).status_code == 421
        assert client.post("/_sandbox/reset", headers={"Origin": "http://page.example"}).status_code == 403


def test_loopback():
    assert [is_loopback(host) for host in ("::1", "127.0.0.1", "localhost", "0.0.0.0", "::", "10.0.0.1")] == [
        *(True, True, True), *(False, False, False),
    ]  # fmt: skip
