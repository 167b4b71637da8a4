"""Judge answers with the embedded service's judge, compared with the bare requests."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.benchmarks.evaluations import rows
from tests.benchmarks.measure import Figure, Size
from tests.live.service import JUDGE, AssistantService

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from tests.benchmarks.service import Service

IN_FLIGHT = 32


def judge(_: Service, size: Size) -> list[Figure]:
    """Judge 1,000 answers, 32 at a time, with the judge of the embedded service in a separate process."""
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.cases import read_cases

    cases = read_cases(pa.Table.from_pylist(rows(size.rows(1_000))))
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder, AssistantService(Path(folder)) as service:
        os.environ[JUDGE] = service.env[JUDGE]
        for number in range(size.rounds):
            ours.append(_judged(cases, Path(folder) / f"{number}.parquet"))
            bare.append(asyncio.run(_posted(cases, json.loads(service.env[JUDGE]))))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    samples = {"judged": [round(one, 2) for one in ours], "bare": [round(one, 2) for one in bare]}
    return [
        Figure("seconds, to the bare requests", median(ratios), 1.3, at_most=True, samples=samples),
        Figure("answers per second", len(cases) / median(ours), unit="/s"),
    ]


def _judged(cases: list[Case], verdicts: Path) -> float:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.evaluation.scorers import scorers_of
    from airflow_provider_assistant.operators.judging import JudgeTask

    scorers = scorers_of(["judge.correctness"])
    started = time.perf_counter()
    task = JudgeTask({"max_concurrency": IN_FLIGHT}, ["judge.correctness"])
    found = task.judged(cases, scorers, (), ObjectStoragePath(str(verdicts)))
    seconds = time.perf_counter() - started
    if len(found.reasons) != len(cases):
        raise RuntimeError(f"{len(found.reasons)} verdicts on {len(cases)} answers")
    return seconds


async def _posted(cases: list[Case], connection: dict[str, Any]) -> float:
    """Send the same bodies, and parse the replies."""
    from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest
    from airflow_provider_assistant.evaluation.judging.rubrics import BUILT_IN

    requests = [JudgeRequest.of(case, BUILT_IN["correctness"], str(case.answer)) for case in cases]
    bodies = iter([request.call("word-overlap").json for request in requests if request])
    url, headers = f"{connection['host']}/chat/completions", {"Authorization": f"Bearer {connection['password']}"}
    started = time.perf_counter()
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def work() -> None:
            for body in bodies:
                async with session.post(url, json=body) as reply:
                    reply.raise_for_status()
                    json.loads((await reply.json())["choices"][0]["message"]["content"])

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return time.perf_counter() - started
