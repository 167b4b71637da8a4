"""Clients of the servers that tests start."""

from __future__ import annotations

from typing import Any

import httpx


def local_client(base_url: str = "", **options: Any) -> httpx.Client:
    """
    Return a client of a server on this machine, which waits up to 120 seconds for a response.

    It ignores the proxy settings of the environment. It opens a connection for each request, because a server closes
    connections that nothing uses, possibly just as the next request is sent. It does not read the certificates of the
    machine, which takes 50 ms.

    :param base_url: Address to which the addresses of requests are relative.
    :param options: Further options of the client, such as ``headers``.
    """
    once = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=base_url, timeout=120, trust_env=False, verify=False, limits=once, **options)


def local_request(method: str, url: str, **options: Any) -> httpx.Response:
    """Send one request to a server on this machine, with the settings of :func:`local_client`."""
    with local_client() as client:
        return client.request(method, url, **options)
