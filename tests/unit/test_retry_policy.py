from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantRateLimitError, AssistantServerError
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.retry_policy import AssistantRetryPolicy
from tests.versions import needs, read_back


@needs("retry policy")
@pytest.mark.parametrize(
    "error",
    [AssistantRateLimitError("slow", status=429, retry_after=3600.0), AssistantAmbiguousError("?", retry_after=3600.0)],
)
def test_the_service_names_the_time(error: Exception) -> None:
    decision = AssistantRetryPolicy().evaluate(error, 1, 3)
    assert decision.retry_delay == timedelta(hours=1)
    assert "3600 s" in str(decision.reason)


@needs("retry policy")
@pytest.mark.parametrize(
    "error",
    [AssistantRateLimitError("slow", status=429), AssistantServerError("down", status=503), ValueError("a bug")],
)
def test_otherwise_as_the_task_says(error: Exception) -> None:
    from airflow.sdk import RetryDecision

    assert AssistantRetryPolicy().evaluate(error, 1, 3) == RetryDecision.default()


@needs("retry policy")
def test_all_operators_have_it_unless_another_one_is_set() -> None:
    from airflow.sdk import ExceptionRetryPolicy

    other = ExceptionRetryPolicy(rules=[])
    with DAG("own", schedule=None, default_args={"retry_policy": other}):
        assert AssistantLimitsOperator(task_id="by_default").retry_policy is other
    with DAG("tasks", schedule=None) as dag:
        own = AssistantLimitsOperator(task_id="own", retry_policy=other)
        task = AssistantChatOperator(task_id="chat", session_id="s", message="m")
        mapped = AssistantLimitsOperator.partial(task_id="mapped").expand(tenant_id=["a", "b"])
    assert own.retry_policy is other
    assert isinstance(task.retry_policy, AssistantRetryPolicy)
    # As a worker runs it.
    instance: Any = mapped.unmap({"tenant_id": "a"})
    assert isinstance(instance.retry_policy, AssistantRetryPolicy)
    assert read_back(dag).get_task("chat").has_retry_policy
