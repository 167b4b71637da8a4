"""Clients of the servers that tests start."""

from __future__ import annotations

import httpx


def local_client(base_url: str = "") -> httpx.Client:
    """
    Return a client of a server on this machine, which waits up to 120 seconds for a response.

    It ignores the proxy settings of the environment. It opens a connection for each request, because a server closes
    connections that nothing uses, possibly just as the next request is sent.

    :param base_url: Address to which the addresses of requests are relative.
    """
    once = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=base_url, timeout=120, trust_env=False, limits=once)
