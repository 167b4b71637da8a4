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


def http_operator(root: str, path: str, bodies: Sequence[dict[str, Any]]) -> float:
    """Post with Airflow's ``HttpOperator`` mapped over rows, in ``dag.test()`` and a separate Airflow."""
    import json
    import os
    from datetime import UTC, datetime
    from urllib.parse import urlsplit

    from airflow import settings
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.providers.http.operators.http import HttpOperator
    from airflow.sdk import DAG
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    parts = urlsplit(root)
    os.environ["AIRFLOW_CONN_BENCH_HTTP"] = json.dumps(
        {"conn_type": "http", "schema": "http", "host": parts.hostname, "port": parts.port}
    )
    with DAG("bench_http_operator", schedule=None, start_date=datetime(2025, 1, 1, tzinfo=UTC)) as dag:
        HttpOperator.partial(
            task_id="post",
            http_conn_id="bench_http",
            endpoint=path,
            method="POST",
            headers={**HEADERS, "Content-Type": "application/json"},
        ).expand(data=[json.dumps(body) for body in bodies])
    settings.initialize()
    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="bench"))
        session.flush()
        SerializedDAG.bulk_write_to_db("bench", None, [dag], session=session)
        SerializedDagModel.write_dag(LazyDeserializedDAG(data=DagSerialization.to_dict(dag)), "bench", session=session)
    started = time.perf_counter()
    run = dag.test()
    seconds = time.perf_counter() - started
    if run.state != "success":
        raise RuntimeError(f"the DAG run is {run.state}")
    return len(bodies) / seconds
