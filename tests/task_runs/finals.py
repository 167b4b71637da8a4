"""Whether Airflow retries a task after an error."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import AssistantError


def is_final(error: AssistantError) -> bool:
    """Return whether Airflow fails the task without a retry, as the error says."""
    return isinstance(error, AirflowFailException) and not error.retryable


def kind_of(error: BaseException | None) -> type[BaseException]:
    """Return the class of an error as it is documented: one that is not retryable has a class of its own."""
    return getattr(exceptions, type(error).__name__, type(error))  # type: ignore[no-any-return]
