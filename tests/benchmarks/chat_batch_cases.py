"""Benchmarks of chat batches and triggers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks import posts
from tests.benchmarks.chat_batches import CONCURRENCY, LATENCY
from tests.benchmarks.live_chat_batches import LiveChatBatches
from tests.benchmarks.measure import Figure, Size, alternated, percentile, ratio, worked
from tests.benchmarks.service import Service, question
from tests.live.postgres import programs

# Number of questions for mapped tasks.
MAPPED = 50


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


def _worked(what: str, service: Service, *arguments: object) -> dict[str, float]:
    return worked("tests.benchmarks.chat_batches", what, service.root, *map(str, arguments))


def chat_batch(service: Service, size: Size) -> list[Figure]:
    """5,000 questions in a real Airflow, compared with a script. Answers are ready within 20 s, polled every 5 s."""
    count, spread, interval = size.rows(5_000), size.seconds * 2 / 3, size.seconds / 6
    questions = [question(number) for number in range(count)]

    def bare() -> float:
        service.reset(LATENCY, spread=spread)
        seconds = count / posts.bare_chat_batch(service.chats, questions, CONCURRENCY, interval)
        service.asked().delays(count)
        return seconds

    if size.share < 1 or programs() is None:
        # Starting Airflow takes half a minute.
        return [Figure("bare script: questions per second; Airflow is left out", count / bare(), unit="/s")]
    with (
        tempfile.TemporaryDirectory(prefix="bench-chat-batches-") as folder,
        LiveChatBatches(Path(folder), service, questions, MAPPED, interval) as live,
    ):
        starts = [live.start() for _ in range(3)]
        script = bare()
        service.reset(LATENCY, spread=spread)
        batch = live.chat_batch()
        chats = service.asked()
        chats.delays(count)
        service.reset(LATENCY, spread=spread)
        mapped = live.mapped()
        service.asked().delays(MAPPED)
    samples = {
        "chat_batch": batch,
        "bare": script,
        "start": starts,
        "closed": chats.closed,
        "polls_each": chats.polls_each,
    }
    return [
        Figure(
            "to a bare script and Airflow's own start",
            batch["seconds"] / (script + median(starts)),
            1.25,
            at_most=True,
            samples=samples,
        ),
        Figure("task instances", batch["tasks"], 3, at_most=True, unit=""),
        Figure("questions per second", count / batch["seconds"], unit="/s"),
        Figure(
            f"questions per second, {MAPPED} mapped tasks and sensors",
            MAPPED / mapped["seconds"],
            unit="/s",
            samples=mapped,
        ),
    ]


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {"batch": batch, "thousand": thousand, "ask": chat_batch}
