"""
Run triggers that wait for answers, in a separate process.

``python -m tests.benchmarks.chat_batches batch ROOT COUNT SPREAD INTERVAL`` waits in one trigger for many requests.
``python -m tests.benchmarks.chat_batches thousand ROOT COUNT SPREAD INTERVAL own|shared`` waits with one for each.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.measure import percentile, pin, reset_peak, status
from tests.benchmarks.service import Service, answer, question, request_id

CONNECTION = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
CONCURRENCY = 32
LATENCY = 0.02
TICK = 0.01
# Deadline of the triggers in seconds, longer than the benchmark takes.
TIMEOUT = 600.0


def connection(service: Service) -> str:
    """Return the Airflow connection to the service."""
    extra = {"site_id": "bench", "max_concurrency": CONCURRENCY}
    host = {"conn_type": "assistant", "host": service.root, "password": "bench-key-0123456789abcdef0123456789"}
    return json.dumps({**host, "extra": extra})


@dataclass
class Watch:
    """Cost of work in an event loop: processor time, and the delay that other coroutines see."""

    lags: list[float] = field(default_factory=list)
    cpu: float = 0.0
    seconds: float = 0.0
    # The maximum processor time within a second.
    busiest: float = 0.0

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine in an event loop, and measure it."""
        return asyncio.run(self._watched(work))

    async def _watched(self, work: Callable[[], Awaitable[Any]]) -> Any:
        watching = [asyncio.create_task(watch()) for watch in (self._tick, self._sample)]
        cpu, started = time.process_time(), time.perf_counter()
        try:
            return await work()
        finally:
            self.cpu, self.seconds = time.process_time() - cpu, time.perf_counter() - started
            for task in watching:
                task.cancel()

    async def _tick(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK)
            lag = time.perf_counter() - before - TICK
            self.lags.append(lag)
            # Coroutines that become ready while the loop is busy wait for the rest of this time.
            self.lags += [lag - TICK * number for number in range(1, int(lag / TICK) + 1)]

    async def _sample(self) -> None:
        while True:
            cpu, started = time.process_time(), time.perf_counter()
            await asyncio.sleep(1)
            self.busiest = max(self.busiest, (time.process_time() - cpu) / (time.perf_counter() - started))

    def as_dict(self) -> dict[str, float]:
        """Return the measurements."""
        return {
            "cpu": round(self.cpu, 3),
            "seconds": round(self.seconds, 2),
            "busiest": round(self.busiest, 3),
            "lag_p50_ms": round(1000 * percentile(self.lags, 50), 2),
            "lag_p99_ms": round(1000 * percentile(self.lags, 99), 2),
            "lag_max_ms": round(1000 * max(self.lags), 2),
        }


def batch(service: Service, count: int, spread: float, interval: float) -> dict[str, Any]:
    """Wait for many requests in one trigger, and measure the memory beyond an idle triggerer."""
    import airflow.jobs.triggerer_job_runner  # noqa: F401

    gc.collect()
    idle = reset_peak()
    from airflow_provider_assistant.chat_batch.requests import PendingRequest
    from airflow_provider_assistant.chat_batch.state import BatchState
    from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger

    with tempfile.TemporaryDirectory() as folder:
        state, now = BatchState(folder), time.time()
        service.reset(LATENCY, spread=spread, outstanding=count)
        state.write_pending([PendingRequest(f"{number:032x}", request_id(number), now) for number in range(count)])
        trigger = AssistantChatBatchTrigger(
            assistant_conn_id="assistant_default",
            site_id="bench",
            folder=folder,
            deadline=now + TIMEOUT,
            poll_interval=interval,
            max_concurrency=CONCURRENCY,
        )
        watch = Watch()
        event = watch.run(lambda: _event(trigger))
        ended, peak = time.time(), status("VmHWM")
        answers = {one.request_id: one.text for one in state.read_answers()}
    if answers != {request_id(number): answer(question(number)) for number in range(count)}:
        raise RuntimeError(f"not all of {count} questions have their answers, but {len(answers)}: {event}")
    return {**watch.as_dict(), "peak_mb": round(peak - idle, 1), "idle_mb": round(idle, 1), "ended": ended}


def thousand(service: Service, count: int, spread: float, interval: float, client: str) -> dict[str, Any]:
    """Wait for many requests with one trigger each."""
    # A triggerer imports these modules once, for all triggers.
    import aiohttp  # noqa: F401
    import airflow.jobs.triggerer_job_runner  # noqa: F401

    from airflow_provider_assistant.api import endpoints, flow
    from airflow_provider_assistant.hooks.assistant import AssistantHook
    from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, TriggerEvent

    class OwnClientTrigger(AssistantChatRequestTrigger):
        """The same trigger with a separate client."""

        async def run(self) -> Any:
            async with AssistantHook(self.assistant_conn_id).async_client() as own:
                call = endpoints.get_chat_request(self.site_id, self.request_id, own.settings.words)
                steps = flow.wait_for(
                    call, since=self.since, deadline=self.deadline, interval=self.poll_interval, now=own.now
                )
                request, polls = await own.arun(steps)
                seconds = own.now() - self.since
            yield TriggerEvent({"request": {**request.as_dict(), "polls": polls, "seconds": round(seconds, 3)}})

    service.reset(LATENCY, spread=spread, outstanding=count)
    now = time.time()
    kind = {"own": OwnClientTrigger, "shared": AssistantChatRequestTrigger}[client]
    triggers = [
        kind(
            assistant_conn_id="assistant_default",
            site_id="bench",
            request_id=request_id(number),
            since=now,
            deadline=now + TIMEOUT,
            poll_interval=interval,
        )
        for number in range(count)
    ]
    gc.collect()
    watch = Watch()

    async def all_events() -> list[dict[str, Any]]:
        tasks = []
        for trigger in triggers:
            tasks.append(asyncio.create_task(_event(trigger)))
            await asyncio.sleep(0)  # as the triggerer does
        return await asyncio.gather(*tasks)

    for number, event in enumerate(watch.run(all_events)):
        if event.get("request", {}).get("text") != answer(question(number)):
            raise RuntimeError(f"request {number} has not its answer: {event}")
    return watch.as_dict()


async def _event(trigger: Any) -> dict[str, Any]:
    """Return the payload of the one event."""
    (event,) = [event.payload async for event in trigger.run()]
    return event


def main(what: str, root: str, count: str, *numbers: str) -> None:
    """Run the selected measurement, and print the result."""
    service = Service(root)
    os.environ[CONNECTION] = connection(service)
    pin(0)
    spread, interval, *rest = numbers
    work: Callable[..., dict[str, Any]] = {"batch": batch, "thousand": thousand}[what]
    print(json.dumps(work(service, int(count), float(spread), float(interval), *rest)))


if __name__ == "__main__":
    main(*sys.argv[1:])
