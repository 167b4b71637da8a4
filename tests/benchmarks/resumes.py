"""
Benchmark of the resume of a chat batch: from the trigger's event to the task's success.

``python -m tests.benchmarks.resumes prepare ROOT COUNT FOLDER`` submits the questions, runs the trigger to its event
and writes that. ``python -m tests.benchmarks.resumes resume ROOT COUNT FOLDER close|keep`` does this in a process of
its own, and then resumes as a worker does that has just parsed the DAG file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.chat_batches import CONNECTION, TIMEOUT, connection
from tests.benchmarks.measure import Figure, Size, alternated, rounded, worked
from tests.benchmarks.service import Service, question


def resume(service: Service, size: Size) -> list[Figure]:
    """Resume a batch of 10,000 answers with a ledger: from the event to the success, with and without sessions."""
    count = size.rows(10_000)
    seen: dict[str, list[dict[str, Any]]] = {"keep": [], "close": []}

    def seconds(sessions: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            found = worked("tests.benchmarks.resumes", "resume", service.root, str(count), folder, sessions)
        seen[sessions].append(found)
        return float(found["seconds"])

    times = alternated({"keep": lambda: seconds("keep"), "close": lambda: seconds("close")}, min(3, size.rounds))
    return [
        Figure("event to success", median(times["keep"]), 3, at_most=True, unit="s", samples=rounded(times)),
        Figure("seconds of the core", median(one["core"] for one in seen["keep"]), unit="s"),
        Figure("event to success, closing a session per answer", median(times["close"]), unit="s"),
    ]


def _operator(folder: str, count: int, sessions: str) -> Any:
    from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

    return AssistantChatBatchOperator(
        task_id="ask",
        source=[{"key": f"q{number}", "message": question(number)} for number in range(count)],
        key_columns=["key"],
        output_path=str(Path(folder, "answers.parquet")),
        deferrable=True,
        poll_interval=1,
        timeout=TIMEOUT,
        close_sessions=sessions == "close",
    )


def _context() -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="bench", run_id="run", task_id="ask", map_index=-1, max_tries=0)
    return {"ti": ti, "outlet_events": {}}


def _prepare(folder: str, count: int) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    async def event(trigger: Any) -> dict[str, Any]:
        (one,) = [event.payload async for event in trigger.run()]
        return dict(one)

    try:
        _operator(folder, count, "keep").execute(_context())
    except TaskDeferred as deferral:
        Path(folder, "event.json").write_text(json.dumps(asyncio.run(event(deferral.trigger))))


def _resume(root: str, folder: str, count: int, sessions: str) -> dict[str, Any]:
    subprocess.run([sys.executable, "-m", __spec__.name, "prepare", root, str(count), folder], check=True)
    event = json.loads(Path(folder, "event.json").read_text())
    operator = _operator(folder, count, sessions)
    started, used = time.perf_counter(), time.process_time()
    result = operator.execute_complete(_context(), event)
    seconds, core = time.perf_counter() - started, time.process_time() - used
    if result["complete"] != count:
        raise RuntimeError(f"{result['complete']} of {count} questions have an answer")
    return {"seconds": round(seconds, 2), "core": round(core, 2)}


def main(what: str, root: str, count: str, folder: str, *sessions: str) -> None:
    """Run the selected part, and print the result."""
    service = Service(root)
    os.environ[CONNECTION] = connection(service)
    if what == "prepare":
        service.reset()
        _prepare(folder, int(count))
    else:
        print(json.dumps(_resume(root, folder, int(count), *sessions)))


CASES: dict[str, Callable[[Service, Size], list[Figure]]] = {"resume": resume}

if __name__ == "__main__":
    main(*sys.argv[1:])
