"""The log of a failed load says what happened, what is safe, and what to do."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.task_runs.context import task_context
from tests.unit.operators.test_documents import many, render

ENDS = {
    "a wrong key": ("status:401", "401 Unauthorized", "Fix the API key", "This try created 3 of 9 rows"),
    "a missing site": ("status:404", "404 Not Found", "Check the identifiers", "This try created 3 of 9 rows"),
    "a rate limit": ("retry-after:3600", "429 Too Many Requests", "Retry later", "This try created 3 of 9 rows"),
    "a bad gateway": ("status:502", "Ambiguous", "findings", "This try created 3 of 9 rows"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_failed_load_says_what_happened_what_is_safe_and_what_to_do(end, service, connect, caplog, canary):
    fault, happened, advice, safe = ENDS[end]
    connect(key=canary, retries=0)
    service.answer(fault, path="documents", skip=3, times=None)
    with pytest.raises(AssistantError):
        render(AssistantLoadQAOperator(task_id="load", source=many(9), max_concurrency=1)).execute(task_context("load"))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR][-3:]
    assert [line.partition(":")[0] for line in lines] == ["What happened", "What is safe", "What to do"]
    assert happened in lines[0]
    for name in ("'assistant_default'", "'acme-docs'", "127.0.0.1", "dag.load"):
        assert name in lines[0]
    assert safe in lines[1]
    assert advice.lower() in lines[2].lower()
    assert canary not in caplog.text


def test_a_load_that_did_not_begin_says_that_nothing_was_sent(service, connection, caplog):
    with pytest.raises(AssistantError):
        render(AssistantLoadQAOperator(task_id="load", source=[{"title": "T"}])).execute(task_context("load"))
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors[1] == "What is safe: Nothing was sent."
    assert "Airflow does not retry this task" in errors[2]


def test_findings_of_a_success_are_a_warning_with_their_path(service, connection, caplog, ledger_home):
    source = [*many(3), {**many(1)[0], "title": "bad", "answer": ""}]
    done = render(AssistantLoadQAOperator(task_id="load", source=source, max_rejected=1)).execute(task_context("load"))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"1 findings need attention. They are listed in {done['findings']}." in warnings
