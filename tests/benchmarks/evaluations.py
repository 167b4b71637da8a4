"""Benchmarks of scoring and of the report."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Figure, Size, status, worked
from tests.benchmarks.service import Service

WORDS = 80


def evaluate(_: Service, size: Size) -> list[Figure]:
    """Score 10,000 answers of 80 words with all scorers, on one core, in a separate process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.parquet"
        pq.write_table(pa.Table.from_pylist(rows(size.rows(10_000))), path)
        measured = worked("tests.benchmarks.evaluations", str(path))
    return [
        Figure(
            "reading and scoring, seconds of the core", measured["core"], 6, at_most=True, unit="s", samples=measured
        ),
        Figure("peak memory of the process", measured["peak_mb"], 250, at_most=True, unit="MB"),
        Figure("of that above imports", measured["above_import_mb"], unit="MB"),
        Figure("rendering the report of half of them", report_seconds(size), 3, at_most=True, unit="s"),
    ]


def report_seconds(size: Size) -> float:
    """Return the processor seconds for the report of 5,000 questions, about half of which fail."""
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.golden import read_cases
    from airflow_provider_assistant.evaluation.report import render
    from airflow_provider_assistant.evaluation.rules import parse_criteria
    from airflow_provider_assistant.evaluation.run import EvaluationJob, evaluate
    from airflow_provider_assistant.evaluation.runs import RunFolder
    from airflow_provider_assistant.evaluation.scorers import scorers_of

    names = ["token_f1", "must_include", "refusal"]
    with tempfile.TemporaryDirectory() as folder:
        job = EvaluationJob(
            name="nightly",
            cases=read_cases(pa.Table.from_pylist(rows(size.rows(5_000)))),
            folder=RunFolder.of(folder, "nightly", datetime.now(UTC), "1"),
            scorers=scorers_of(names),
            criteria=parse_criteria("must_include >= 1", ["pass_rate >= 0.9"], names),
        )
        evaluation = evaluate(job)
    started = time.process_time()
    render(evaluation)
    return time.process_time() - started


def rows(count: int) -> list[dict[str, Any]]:
    """Return rows of a chat batch with expectations. About one word in five of an answer differs."""
    chosen = random.Random(11)
    vocabulary = ["".join(chosen.choices("etaoinshrdlucmfw", k=chosen.randint(2, 9))) for _ in range(3_000)]
    made = []
    for number in range(count):
        expected = chosen.choices(vocabulary, k=WORDS)
        answer = [word if chosen.random() < 0.8 else chosen.choice(vocabulary) for word in expected]
        text = " ".join(answer).capitalize() + "."
        made.append(
            {
                "key": f"q{number}",
                "message": " ".join(chosen.choices(vocabulary, k=12)) + "?",
                "answer": text,
                "status": "complete",
                "seconds": chosen.random() * 20,
                "raw": json.dumps({"status": "complete", "answer": text}),
                "expected": " ".join(expected),
                "must_include": [expected[3], " ".join(expected[10:12])],
                "must_not_include": ["can not", "no refund"],
                "expect_no_answer": number % 10 == 0,
                "tags": chosen.choice([["billing"], ["shipping", "en"], []]),
            }
        )
    return made


def _measure(path: str) -> dict[str, Any]:
    import pyarrow.parquet as pq

    from airflow_provider_assistant.evaluation.golden import read_cases
    from airflow_provider_assistant.evaluation.scorers import SCORERS, scorers_of
    from airflow_provider_assistant.evaluation.scores import score_cases

    scorers = scorers_of(list(SCORERS))
    imported = status("VmHWM")
    started, used = time.perf_counter(), time.process_time()
    cases = read_cases(pq.ParquetFile(path).read(use_threads=False))
    scores = score_cases(cases, scorers)
    core, seconds = time.process_time() - used, time.perf_counter() - started
    if len(scores.values) != len(scorers) or scores.errors:
        raise RuntimeError(f"{len(scores.values)} scorers, and {len(scores.errors)} errors")
    return {
        "questions": len(cases),
        "core": round(core, 2),
        "seconds": round(seconds, 2),
        "above_import_mb": round(status("VmHWM") - imported),
        "peak_mb": round(status("VmHWM")),
    }


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
