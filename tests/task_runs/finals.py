"""Whether Airflow retries a task after an error."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import AssistantError


def is_final(error: AssistantError) -> bool:
    """Return whether Airflow fails the task without a retry, as the error says."""
    return isinstance(error, AirflowFailException) and not error.retryable
