"""
Baselines: scripts that only post, in common ways.

Each returns documents per second, or questions per second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

HEADERS = {"X-API-Key": "bench"}


def bare_aiohttp(url: str, bodies: Sequence[dict[str, Any]], concurrency: int) -> float:
    """Post with one worker per request in flight and one session, without checks and without a ledger."""
    import aiohttp

    async def run() -> float:
        waiting = iter(bodies)
        connector = aiohttp.TCPConnector(limit=concurrency)
        async with aiohttp.ClientSession(headers=HEADERS, connector=connector) as session:

            async def work() -> None:
                for body in waiting:
                    async with session.post(url, json=body) as answer:
                        await answer.read()
                        answer.raise_for_status()

            started = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(concurrency)))
            return len(bodies) / (time.perf_counter() - started)

    return asyncio.run(run())


def bare_chat_batch(url: str, messages: Sequence[str], concurrency: int, interval: float) -> float:
    """Submit all questions, then poll the open ones at an interval until all have an answer."""
    import aiohttp

    async def run() -> float:
        connector = aiohttp.TCPConnector(limit=concurrency)
        async with aiohttp.ClientSession(headers=HEADERS, connector=connector) as session:
            requests: list[str] = []
            answers: dict[str, str] = {}

            async def submit(number: int) -> None:
                body = {"session_id": f"session-{number}", "message": messages[number]}
                async with session.post(f"{url}/async", json=body) as reply:
                    reply.raise_for_status()
                    requests.append((await reply.json())["request_id"])

            async def poll(request: str) -> None:
                async with session.get(f"{url}/requests/{request}") as reply:
                    reply.raise_for_status()
                    seen = await reply.json()
                if seen["status"] == "complete":
                    answers[request] = seen["result"]["answer"]

            async def work(one: Callable[[Any], Awaitable[None]], waiting: Iterator[Any]) -> None:
                for each in waiting:
                    await one(each)

            async def all_of(one: Callable[[Any], Awaitable[None]], every: Sequence[Any]) -> None:
                waiting = iter(every)
                await asyncio.gather(*(work(one, waiting) for _ in range(concurrency)))

            started = time.perf_counter()
            await all_of(submit, range(len(messages)))
            while True:
                await all_of(poll, [request for request in requests if request not in answers])
                if len(answers) == len(messages):
                    return len(messages) / (time.perf_counter() - started)
                await asyncio.sleep(interval)

    return asyncio.run(run())


def httpx_gather(url: str, bodies: Sequence[dict[str, Any]]) -> float:
    """Post with ``httpx.AsyncClient`` in its default configuration (100 connections) and ``asyncio.gather``."""
    import httpx

    async def run() -> float:
        async with httpx.AsyncClient(headers=HEADERS, timeout=120) as client:

            async def post(body: dict[str, Any]) -> None:
                (await client.post(url, json=body)).raise_for_status()

            started = time.perf_counter()
            await asyncio.gather(*map(post, bodies))
            return len(bodies) / (time.perf_counter() - started)

    return asyncio.run(run())


def requests_threads(url: str, bodies: Sequence[dict[str, Any]], concurrency: int) -> float:
    """Post with ``requests`` in a thread pool, one session per thread."""
    import threading

    import requests

    local = threading.local()

    def post(body: dict[str, Any]) -> None:
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.headers.update(HEADERS)
        local.session.post(url, json=body, timeout=60).raise_for_status()

    started = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(post, bodies))
    return len(bodies) / (time.perf_counter() - started)


def requests_loop(url: str, bodies: Sequence[dict[str, Any]]) -> float:
    """Post with one ``requests.Session``, one row after the other."""
    import requests

    started = time.perf_counter()
    with requests.Session() as session:
        session.headers.update(HEADERS)
        for body in bodies:
            session.post(url, json=body, timeout=60).raise_for_status()
    return len(bodies) / (time.perf_counter() - started)
