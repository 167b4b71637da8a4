"""Nights of one golden set in a folder, as the operator evaluates them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.golden import read_cases
from airflow_provider_assistant.evaluation.rules import parse_criteria
from airflow_provider_assistant.evaluation.run import EvaluationJob, evaluate
from airflow_provider_assistant.evaluation.runs import RunFolder
from airflow_provider_assistant.evaluation.scorers import Scorer, scorers_of

NIGHT = datetime(2026, 11, 1, tzinfo=UTC)


def _mark(case):
    if case.row.get("broken"):
        raise RuntimeError("no such page")
    return case.row["mark"]


def row(number, answer="It takes five working days.", **columns):
    return {"key": f"q{number}", "message": f"{number}?", "answer": answer, "expected": "Five working days.", **columns}


@pytest.fixture
def night(tmp_path):
    """Evaluate rows on a night, by number. The scorer ``mark`` returns the column, or raises if a row is broken."""

    def run(number, rows, gate=(), *, scorers=("mark",), pass_if=None, baseline="previous", **options):
        found = [Scorer("mark", _mark) if name == "mark" else scorers_of([name])[0] for name in scorers]
        criteria = parse_criteria(pass_if, list(gate), scorers, has_baseline=bool(baseline))
        folder = RunFolder.of(str(tmp_path), "golden", NIGHT + timedelta(days=number), str(number))
        columns = dict.fromkeys(name for one in rows for name in one)
        table = pa.table({name: [one.get(name) for one in rows] for name in columns})
        job = EvaluationJob(
            name="golden",
            cases=read_cases(table),
            folder=folder,
            scorers=found,
            criteria=criteria,
            baseline=baseline,
            run={"run_id": str(number)},
            **options,
        )
        return evaluate(job)

    return run
