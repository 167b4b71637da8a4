"""Loads with unexpected replies and lasting rate limits."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.task_runs.context import task_context
from tests.unit.loads.loads import counts, load, many, render

TEXTS = [{"title": f"T{number}", "content": "C", "category": "faq"} for number in range(9)]


@pytest.mark.parametrize(("kind", "status"), [("qa", 400), ("text", 422), ("file", 415), ("qa", 451)])
def test_an_unlisted_4xx_rejects_one_row_and_no_other(kind, status, service, connect, tmp_path):
    connect(max_concurrency=2)
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"File {number}.")
    operator = {
        "qa": lambda: AssistantLoadQAOperator(task_id="load", source=many(9), max_rejected=1),
        "text": lambda: AssistantLoadTextOperator(task_id="load", source=TEXTS, max_rejected=1),
        "file": lambda: AssistantUploadFilesOperator(task_id="load", files=str(tmp_path / "*.txt"), max_rejected=1),
    }[kind]
    service.answer(f"status:{status}", path="documents", skip=3)
    assert counts(render(operator()).execute(task_context("load"))) == {"created": 8, "rejected": 1}
    assert len(service.documents()) == service.posts() - 1 == 8
    # The next run sends the rejected row again.
    assert counts(render(operator()).execute(task_context("load", run_id="tomorrow"))) == {"unchanged": 8, "created": 1}


@pytest.mark.parametrize("status", [302, 308])
def test_the_row_of_a_redirect_is_left_to_a_retry(status, service, connect):
    connect(max_concurrency=2)
    service.answer(f"status:{status}", path="documents", skip=3)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(9)))
    with pytest.raises(AssistantIncompleteError, match="a gateway or proxy answered"):
        operator.execute(task_context("load"))
    assert len(service.documents()) == 8
    assert counts(operator.execute(task_context("load"))) == {"unchanged": 8, "created": 1}


def test_a_rate_limit_of_small_pauses_is_left_to_the_triggerer(service, connect, monkeypatch):
    """Each pause is shorter than ``max_backoff``; the total is longer."""
    monkeypatch.setattr("airflow_provider_assistant.loading.load.MAX_BACKOFF", 0.2)
    connect(retries=3, max_concurrency=1)
    service.answer("retry-after:0", method="POST", skip=2, times=None)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(5), deferrable=True))
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(task_context("load"))
    assert caught.value.trigger.moment.timestamp() - AssistantHook().client.now() > 50
    assert service.posts() <= 8
    service.behave(rules=[])
    done = operator.execute_complete(task_context("load"), None, **caught.value.kwargs)
    assert counts(done) == {"unchanged": 2, "created": 3}


def test_a_rate_limit_that_does_not_end_ends_the_task_at_its_timeout(service, connect):
    connect(retries=1)
    service.answer("retry-after:600", times=None)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(3), deferrable=True, timeout=1500))
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(task_context("load"))
    until = caught.value.kwargs["until"]
    now = operator.hook.client.now()
    assert now + 1400 < until <= now + 1500
    with pytest.raises(TaskDeferred) as again:
        operator.execute_complete(task_context("load"), None, until=now + 700)
    assert again.value.kwargs["until"] == now + 700
    with pytest.raises(AssistantRateLimitError):
        operator.execute_complete(task_context("load"), None, until=now + 500)


# -- the limits of the tenant -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404, 500])
def test_limits_that_cannot_be_read_do_not_stop_a_load(status, service, connection):
    service.answer(f"status:{status}", path="/limits$", times=None)
    assert counts(load(many(2))) == {"created": 2}
