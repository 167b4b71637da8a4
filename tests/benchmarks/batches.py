"""
Chat batches and triggers in a separate process.

``python -m tests.benchmarks.batches batch ROOT COUNT SPREAD INTERVAL`` waits in one trigger for many requests.
``python -m tests.benchmarks.batches thousand ROOT COUNT SPREAD INTERVAL own|shared`` waits with one for each.
``python -m tests.benchmarks.batches resume ROOT COUNT INTERVAL FOLDER close|keep`` starts a process that submits
questions and runs the trigger to its event, and then resumes as a worker does that has just parsed the DAG file.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
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
    import pyarrow as pa

    from airflow_provider_assistant.asking.questions import Questions
    from airflow_provider_assistant.asking.state import Answer, BatchState
    from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger

    with tempfile.TemporaryDirectory() as folder:
        record, now = BatchState(folder), time.time()
        record.write_questions(Questions([], pa.table({})))
        service.reset(LATENCY, spread=spread, outstanding=count)
        record.add([Answer(f"{number:032x}", "open", request_id(number), "s", now) for number in range(count)])
        trigger = AssistantChatBatchTrigger(
            assistant_conn_id="assistant_default",
            site_id="bench",
            folder=folder,
            deadline=now + TIMEOUT,
            timeout=TIMEOUT,
            poll_interval=interval,
            max_concurrency=CONCURRENCY,
        )
        watch = Watch()
        event = watch.run(lambda: _event(trigger))
        ended, peak = time.time(), status("VmHWM")
        answers = {end.request_id: end.answer for end in record.read().values()}
    if answers != {request_id(number): answer(question(number)) for number in range(count)}:
        raise RuntimeError(f"not all of {count} questions have their answers, but {len(answers)}: {event}")
    return {**watch.as_dict(), "peak_mb": round(peak - idle, 1), "idle_mb": round(idle, 1), "ended": ended}


def thousand(service: Service, count: int, spread: float, interval: float, client: str) -> dict[str, Any]:
    """Wait for many requests with one trigger each."""
    # A triggerer imports these modules once, for all triggers.
    import aiohttp  # noqa: F401
    import airflow.jobs.triggerer_job_runner  # noqa: F401

    from airflow_provider_assistant.asking.state import Answer
    from airflow_provider_assistant.asking.wait import Wait
    from airflow_provider_assistant.hooks.assistant import AssistantHook
    from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, event_of_wait

    class OwnClientTrigger(AssistantChatRequestTrigger):
        """The same trigger with a separate client."""

        async def _wait(self) -> dict[str, Any]:
            request = Answer("", "open", self.request_id, "", self.since)
            interval = self.poll_interval
            wait = Wait(interval=interval, deadline=self.deadline, now=time.time(), first=interval)
            async with AssistantHook(self.assistant_conn_id).async_client() as own:
                return await event_of_wait(own, self.site_id, wait, request)

    service.reset(LATENCY, spread=spread, outstanding=count)
    now = time.time()
    kind = {"own": OwnClientTrigger, "shared": AssistantChatRequestTrigger}[client]
    triggers = [
        kind(
            assistant_conn_id="assistant_default",
            site_id="bench",
            request_id=request_id(number),
            # Their tasks were deferred one after the other, within an interval.
            since=now - interval * number / count,
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


def defer(_: Service, count: int, interval: float, folder: str) -> dict[str, Any]:
    """Submit the questions of a batch, run its trigger, and write the event to a file."""
    from airflow.providers.common.compat.sdk import TaskDeferred

    operator, started = _operator(folder, count, interval, "keep"), time.perf_counter()
    try:
        operator.execute(_context())
    except TaskDeferred as deferral:
        event = asyncio.run(_event(deferral.trigger))
        Path(folder, "event.json").write_text(json.dumps(event))
    return {"seconds": round(time.perf_counter() - started, 2)}


def resume(service: Service, count: int, interval: float, folder: str, sessions: str) -> dict[str, Any]:
    """Submit the questions of a batch in a separate process, and measure its resumption."""
    command = [sys.executable, "-m", __spec__.name, "defer", service.root, str(count), str(interval), folder]
    deferred = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
    event = json.loads(Path(folder, "event.json").read_text())
    operator = _operator(folder, count, interval, sessions)
    started, used = time.perf_counter(), time.process_time()
    result = operator.execute_complete(_context(), event)
    seconds, core = time.perf_counter() - started, time.process_time() - used
    if result["complete"] != count:
        raise RuntimeError(f"{result['complete']} of {count} questions have an answer")
    return {"until_event": deferred["seconds"], "seconds": round(seconds, 2), "core": round(core, 2)}


def _operator(folder: str, count: int, interval: float, sessions: str) -> Any:
    from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

    return AssistantChatBatchOperator(
        task_id="ask",
        source=[{"key": f"q{number}", "message": question(number)} for number in range(count)],
        key_columns=["key"],
        output_path=str(Path(folder, "answers.parquet")),
        deferrable=True,
        poll_interval=interval,
        timeout=TIMEOUT,
    )


def _context() -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="bench", run_id="run", task_id="ask", map_index=-1, max_tries=0)
    return {"ti": ti, "outlet_events": {}}


async def _event(trigger: Any) -> dict[str, Any]:
    """Return the payload of the one event."""
    (event,) = [event.payload async for event in trigger.run()]
    return dict(event)


def main(what: str, root: str, count: str, *rest: str) -> None:
    """Run the selected measurement, and print the result."""
    service = Service(root)
    os.environ[CONNECTION] = connection(service)
    if what in ("batch", "thousand"):
        pin(0)
        spread, interval, *client = rest
        work: Callable[..., dict[str, Any]] = {"batch": batch, "thousand": thousand}[what]
        result = work(service, int(count), float(spread), float(interval), *client)
    else:
        interval, *files = rest
        result = {"defer": defer, "resume": resume}[what](service, int(count), float(interval), *files)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
