from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantRateLimitError, AssistantServerError
from airflow_provider_assistant.retry_policy import AssistantRetryPolicy
from tests.versions import AIRFLOW, needs


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


@pytest.mark.skipif(AIRFLOW >= (3, 3), reason="this Airflow has retry policies")
def test_an_older_airflow_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"needs Airflow 3\.3"):
        AssistantRetryPolicy()
