"""Benchmarks of chat batches and of the triggers that wait for answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from tests.benchmarks import posts
from tests.benchmarks.batches import CONCURRENCY, LATENCY
from tests.benchmarks.measure import Figure, Size, alternated, percentile, ratio, rounded, worked
from tests.benchmarks.service import Service, question


def batch(service: Service, size: Size) -> list[Figure]:
    """One trigger waits for 10,000 requests. Answers are ready within 60 s; each reply takes 20 ms."""
    count, spread, interval = size.rows(10_000), size.seconds * 2, size.seconds * 2 / 3
    seen = _worked("batch", service, count, spread, interval)
    chats = service.asked()
    late = chats.delays(count)
    latest = max(*late, seen["ended"] - max(chats.ready))
    intervals = {"median": percentile(late, 50) / interval, "p99": percentile(late, 99) / interval}
    return [
        Figure("event loop is late, p99", seen["lag_p99_ms"], 50, at_most=True, unit="ms", samples=seen),
        Figure("processor while polling, of one core", 100 * seen["cpu"] / seen["seconds"], 60, at_most=True, unit="%"),
        Figure("processor in the busiest second, of one core", 100 * seen["busiest"], unit="%"),
        Figure("peak above an idle triggerer", seen["peak_mb"], 150, at_most=True, unit="MB"),
        Figure("polls per request", chats.polls_each, 4, at_most=True, unit=""),
        Figure(
            "last answer noticed, in poll intervals", latest / interval, 2, at_most=True, unit="", samples=intervals
        ),
    ]


def thousand(service: Service, size: Size) -> list[Figure]:
    """1,000 triggers in one process wait for one request each, with separate clients or a shared one."""
    count, spread, interval = size.rows(1_000), size.seconds / 2, size.seconds / 6
    seen: dict[str, list[dict[str, float]]] = {"own": [], "shared": []}

    def processor_time(client: str) -> float:
        watched = _worked("thousand", service, count, spread, interval, client)
        chats = service.asked()
        chats.delays(count)
        seen[client].append({**watched, "connections": chats.connections, "polls_each": round(chats.polls_each, 2)})
        return watched["cpu"]

    times = alternated({client: partial(processor_time, client) for client in seen}, min(2, size.rounds))
    shared = seen["shared"]
    return [
        Figure("processor time, to a client each", ratio(times, "shared", "own"), 0.333, at_most=True, samples=seen),
        Figure("open connections", max(one["connections"] for one in shared), CONCURRENCY, at_most=True, unit=""),
        Figure("event loop is late, p99", max(one["lag_p99_ms"] for one in shared), 50, at_most=True, unit="ms"),
    ]


def ask(service: Service, size: Size) -> list[Figure]:
    """5,000 questions by the operator and its trigger, and by a script. Answers are ready within 20 s."""
    count, spread, interval = size.rows(5_000), size.seconds * 2 / 3, size.seconds / 6
    questions = [question(number) for number in range(count)]

    def operator() -> float:
        service.reset(LATENCY, spread=spread)
        found = _asked(service, count, interval, "keep")
        service.asked().delays(count)
        return count / (found["until_event"] + found["seconds"])

    def script() -> float:
        service.reset(LATENCY, spread=spread)
        rate = posts.bare_chat_batch(service.chats, questions, CONCURRENCY, interval)
        service.asked().delays(count)
        return rate

    rates = alternated({"operator": operator, "script": script}, min(3, size.rounds))
    return [
        Figure("questions per second, without Airflow's own start", median(rates["operator"]), unit="/s"),
        Figure("to a bare script", ratio(rates, "operator", "script"), 0.8, samples=rounded(rates)),
    ]


def resume(service: Service, size: Size) -> list[Figure]:
    """Resume a batch of 10,000 answers with a ledger: from the event to the success, with and without sessions."""
    count = size.rows(10_000)
    seen: dict[str, list[dict[str, Any]]] = {"keep": [], "close": []}

    def seconds(sessions: str) -> float:
        service.reset()
        seen[sessions].append(_asked(service, count, 1.0, sessions))
        return float(seen[sessions][-1]["seconds"])

    times = alternated({name: partial(seconds, name) for name in seen}, min(3, size.rounds))
    return [
        Figure("event to success", median(times["keep"]), 3, at_most=True, unit="s", samples=rounded(times)),
        Figure("seconds of the core", median(one["core"] for one in seen["keep"]), unit="s"),
        Figure("event to success, closing a session per answer", median(times["close"]), unit="s"),
    ]


def _worked(what: str, service: Service, *arguments: object) -> dict[str, Any]:
    return worked("tests.benchmarks.batches", what, service.root, *map(str, arguments))


def _asked(service: Service, count: int, interval: float, sessions: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return _worked("resume", service, count, interval, folder, sessions)


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {
    "batch": batch,
    "thousand": thousand,
    "ask": ask,
    "resume": resume,
}
