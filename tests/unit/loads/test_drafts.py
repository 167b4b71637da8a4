"""A load whose documents are not in use succeeds, and says so wherever a person looks."""

from __future__ import annotations

import logging

import pyarrow.parquet as pq
import pytest
from airflow.sdk import Asset

from airflow_provider_assistant.ledger import Ledger, queries
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.task_runs.context import task_context

OPERATORS = {
    AssistantLoadQAOperator: {"title": "{}", "question": "q {}", "answer": "a"},
    AssistantLoadTextOperator: {"title": "{}", "content": "c {}"},
    AssistantUploadFilesOperator: None,
}


def operator_of(kind, count, folder, **options):
    template = OPERATORS[kind]
    if template is None:
        for number in range(count):
            (folder / f"guide-{number}.txt").write_text(f"Guide {number}")
        return kind(task_id="load", files=str(folder / "*.txt"), **options)
    source = [row_of(template, number) for number in range(count)]
    return kind(task_id="load", source=source, key_columns=["title"], **options)


def row_of(template, number):
    return {name: value.format(number) for name, value in template.items()}


def lines(caplog):
    return [text for text in map(logging.LogRecord.getMessage, caplog.records) if "not in use" in text]


@pytest.mark.promise("loads", "Created documents that are not in use are counted, listed and warned about.")
@pytest.mark.parametrize("kind", OPERATORS, ids=lambda kind: kind.kind)
def test_drafts_are_shown(kind, service, connection, tmp_path, caplog, monkeypatch):
    sent, count = [], 5
    monkeypatch.setattr(metrics, "drafts", lambda *values: sent.append(values))
    service.behave(document_status="draft")
    asset = Asset("assistant://somewhere/else")
    operator = operator_of(kind, count, tmp_path, outlets=[asset])
    context = task_context()
    with caplog.at_level(logging.WARNING):
        result = operator.execute(context)
    assert (result["created"], result["drafts"]) == (count, count)
    assert context["outlet_events"][asset].extra["drafts"] == count
    assert sent == [(kind.kind, count)]
    listed = pq.read_table(result["findings"]).to_pylist()
    ids = sorted(document["id"] for document in service.documents())
    assert sorted(row["document_ids"][0] for row in listed) == ids
    assert {row["kind"] for row in listed} == {"draft"}
    (line,) = lines(caplog)
    assert result["findings"] in line
    with Ledger.open() as ledger:
        (load,) = ledger.read(queries.page_of_tries).rows
    assert load["outcome"] == "succeeded with findings"
    assert (load["counts"]["created"], load["counts"]["drafts"]) == (count, count)
