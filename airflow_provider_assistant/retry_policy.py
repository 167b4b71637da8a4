"""When Airflow should try a task again: at the time the service named (Airflow 3.3 or newer)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantError

if TYPE_CHECKING:
    from airflow.sdk import RetryDecision, RetryPolicy
else:
    try:
        from airflow.sdk import RetryDecision, RetryPolicy
    except ImportError:

        class RetryPolicy:
            """In place of what this Airflow does not have."""

            def __init__(self) -> None:
                raise RuntimeError("AssistantRetryPolicy needs Airflow 3.3; before it, use retry_delay")


class AssistantRetryPolicy(RetryPolicy):
    """
    Retry a task when the service asked to be asked again, and otherwise as the task says.

    A 429 whose ``Retry-After`` is longer than a task is willing to wait ends the try; with this policy the next
    one comes when the pause is over, not after ``retry_delay``. The task still needs ``retries``. Errors that a
    retry cannot mend (400, 401, 403, 404, bad input) end the task without it.

    Use it as ``retry_policy=AssistantRetryPolicy()``.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002
        max_tries: int,  # noqa: ARG002
        context: Any = None,  # noqa: ARG002
    ) -> RetryDecision:
        """Return when to retry after this exception."""
        seconds = getattr(exception, "retry_after", None) if isinstance(exception, AssistantError) else None
        if seconds is None:
            return RetryDecision.default()
        return RetryDecision.retry(
            delay=timedelta(seconds=seconds), reason=f"the service asked to wait {seconds:.0f} s"
        )
