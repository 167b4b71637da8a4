"""Loads with unexpected replies, lasting rate limits, and at a tenant whose documents are limited."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import (
    AssistantGatewayError,
    AssistantInputError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.task_runs.context import task_context
from tests.unit.loads.loads import counts, listed, load, loaded_titles, many, render

TEXTS = [{"title": f"T{number}", "content": "C", "category": "faq"} for number in range(9)]


@pytest.mark.parametrize(("kind", "status"), [("qa", 413), ("text", 422), ("file", 415), ("qa", 451)])
def test_an_unlisted_4xx_rejects_one_row_and_no_other(kind, status, service, connection, tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"File {number}.")
    operator = {
        "qa": lambda: AssistantLoadQAOperator(task_id="load", source=many(9), max_rejected=1, max_concurrency=2),
        "text": lambda: AssistantLoadTextOperator(task_id="load", source=TEXTS, max_rejected=1, max_concurrency=2),
        "file": lambda: AssistantUploadFilesOperator(
            task_id="load", files=str(tmp_path / "*.txt"), max_rejected=1, max_concurrency=2
        ),
    }[kind]
    service.answer(f"status:{status}", path="documents", skip=3)
    assert counts(render(operator()).execute(task_context("load"))) == {"created": 8, "rejected": 1}
    assert len(service.documents()) == service.posts() - 1 == 8
    # The next run sends the rejected row again.
    assert counts(render(operator()).execute(task_context("load", run_id="tomorrow"))) == {"unchanged": 8, "created": 1}


@pytest.mark.parametrize("status", [302, 308])
def test_a_redirect_stops_the_load(status, service, connection):
    service.answer(f"status:{status}", path="documents", skip=3)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(9), max_concurrency=2))
    with pytest.raises(AssistantGatewayError):
        operator.execute(task_context("load"))
    assert len(service.documents()) < 8


def test_a_rate_limit_of_small_pauses_is_left_to_the_triggerer(service, connect, monkeypatch):
    """Each pause is shorter than ``max_backoff``; the total is longer."""
    monkeypatch.setattr(AssistantLoadQAOperator, "max_backoff", 0.2)
    connect(retries=3)
    service.answer("retry-after:0", method="POST", skip=2, times=None)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(5), deferrable=True, max_concurrency=1))
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


def test_templates_are_what_they_were_before_the_deferral(service, connect, tmp_path):
    """Airflow renders templates again after a deferral, which changes times and random texts."""
    connect(retries=1)
    service.answer("retry-after:600", method="POST", skip=1, times=None)
    before, after = str(tmp_path / "before.parquet"), str(tmp_path / "after.parquet")
    operator = render(
        AssistantLoadQAOperator(
            task_id="load", source=many(2), deferrable=True, findings_path=before, source_name="before"
        )
    )
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(task_context("load"))
    service.behave(rules=[])
    operator.findings_path, operator.source_name = after, "after"
    done = operator.execute_complete(task_context("load"), None, **caught.value.kwargs)
    assert (done["source"], counts(done)) == ("before", {"unchanged": 1, "created": 1})
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["before.parquet"]


def test_without_a_ledger_nothing_is_deferred(service, connect, monkeypatch):
    """Without a ledger, a resumed load would start again at the first row."""
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    connect(retries=1)
    service.answer("retry-after:3600", method="POST", skip=3, times=None)
    operator = render(AssistantLoadQAOperator(task_id="load", source=many(9), ledger=False, max_concurrency=1))
    with pytest.raises(AssistantRateLimitError):
        operator.execute(task_context("load"))
    assert len(service.documents()) == 3


# -- the limits of the tenant -----------------------------------------------------------------------


def test_what_fits_is_loaded_and_the_rest_by_the_next_run(service, connection, ledger_home):
    service.behave(max_documents=4)
    source = many(9)
    result = load(source, key_columns=["title"], on_limit="fit")
    assert (counts(result), result["stale"]) == ({"created": 4, "skipped": 5}, 0)
    assert listed(ledger_home) == [("skipped", number, f"T{number - 1}") for number in range(5, 10)]
    service.behave(max_documents=7)
    assert counts(load(source, key_columns=["title"], on_limit="fit", run_id="b")) == {
        "unchanged": 4, "created": 3, "skipped": 2,
    }  # fmt: skip
    service.behave(max_documents=1_000_000)
    assert counts(load(source, key_columns=["title"], run_id="c")) == {"unchanged": 7, "created": 2}
    assert loaded_titles(service) == sorted(row["title"] for row in source)
    before = len(service.journal())
    assert counts(load(source, key_columns=["title"], run_id="d")) == {"unchanged": 9}
    assert len(service.journal()) == before


def test_files_are_checked_as_well(service, connection, tmp_path):
    (folder := tmp_path / "files").mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"File {number}.")
    service.behave(max_documents=2)
    with pytest.raises(AssistantInputError, match="3 documents would be created"):
        load(str(folder), AssistantUploadFilesOperator, on_limit="fail")
    assert service.posts() == 0


@pytest.mark.parametrize("status", [403, 404, 500])
def test_limits_that_cannot_be_read_do_not_stop_a_load(status, service, connection):
    service.answer(f"status:{status}", path="/limits$", times=None)
    assert counts(load(many(2))) == {"created": 2}
