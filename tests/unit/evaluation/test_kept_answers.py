"""The answers that an evaluation keeps for the report of a later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.kept_answers import answers_table, read_answers
from airflow_provider_assistant.texts import storable
from tests.unit.evaluation.report.examples import case
from tests.unit.evaluation.report.hostile import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def kept(one: Case) -> tuple[object, ...]:
    return one.key, one.repetition, one.message, one.answer, one.status, one.conversation


def test_answers_are_read_as_they_were_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [text for text in HOSTILE if "\ud800" not in text]
    cases = []
    for number, text in enumerate(texts):
        key = ("7", "007", "a b", "ключ")[number] if number < 4 else f"key {number}"
        message = storable(text).strip() or key
        cases.append(case(key=key, answer=text, message=message, repetition=number % 2 + 1))
    turns = [{"key": f"turn {turn}", "session_id": "s", "turn": turn, "answer": "Yes."} for turn in (2, 1, 3)]
    cases += read_cases(pa.Table.from_pylist(turns))
    cases.append(case(key="lost", answer=None, status="lost"))
    file = ObjectStoragePath(str(tmp_path)) / "answers.parquet"
    assert read_answers(file) == []
    with file.open("wb") as out:
        pq.write_table(answers_table(cases), out)
    assert list(map(kept, read_answers(file))) == list(map(kept, cases))
    assert not caplog.records
    file.write_bytes(b"not Parquet")
    assert read_answers(file) == []
    assert "shows no answers of the baseline" in caplog.text
