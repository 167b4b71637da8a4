"""Retry policy for Airflow 3.3 and later: retry a task at the time that the service named in ``Retry-After``."""

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
            """Placeholder for Airflow before 3.3, which has no retry policies."""

            def __init__(self) -> None:
                raise RuntimeError("AssistantRetryPolicy needs Airflow 3.3 or later; use retry_delay instead")


class AssistantRetryPolicy(RetryPolicy):
    """
    Retry a task after the service's ``Retry-After``, or else after the task's own ``retry_delay``.

    A 429 whose ``Retry-After`` exceeds the task's limit fails the attempt. With this policy, Airflow starts the next
    attempt when that time is over, instead of after ``retry_delay``. The task still needs ``retries``. Errors that a
    retry cannot fix (400, 401, 403, 404, invalid input) fail the task without a retry, with or without this policy.

    All operators of this package have it, unless the task or ``default_args`` sets another ``retry_policy``.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002
        max_tries: int,  # noqa: ARG002
        context: Any = None,  # noqa: ARG002
    ) -> RetryDecision:
        """
        Return when to retry the task.

        :param exception: The exception that failed the attempt.
        :param try_number: Number of the attempt, from 1; not used.
        :param max_tries: Maximum number of attempts; not used.
        :param context: Airflow's context of the task; not used. Default: None.
        :return: A retry after the exception's ``retry_after`` seconds, or Airflow's default decision if it has none.
        """
        seconds = getattr(exception, "retry_after", None) if isinstance(exception, AssistantError) else None
        if seconds is None:
            return RetryDecision.default()
        return RetryDecision.retry(
            delay=timedelta(seconds=seconds), reason=f"the service asked to wait {seconds:.0f} s"
        )
