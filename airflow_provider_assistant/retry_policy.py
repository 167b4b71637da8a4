"""Retry policy for Airflow 3.3 and later: retry a task at the time that the service named in ``Retry-After``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import RetryDecision, RetryPolicy
else:
    try:
        from airflow.sdk import RetryDecision, RetryPolicy
    except ImportError:
        # Airflow before 3.3 has no retry policies, and never asks this one.
        RetryPolicy = object


class AssistantRetryPolicy(RetryPolicy):
    """
    Retry a task after the service's ``Retry-After``, or else after the task's own ``retry_delay``.

    The task still needs ``retries``. All operators of this package have this policy, unless the task or
    ``default_args`` sets another ``retry_policy``. Airflow before 3.3 has no retry policies.
    """

    def evaluate(self, exception: BaseException, *_: Any, **__: Any) -> RetryDecision:
        """Return a retry after the exception's ``retry_after`` seconds, or Airflow's default if it has none."""
        seconds = getattr(exception, "retry_after", None)
        if seconds is None:
            return RetryDecision.default()
        reason = f"the service asked to wait {seconds:.0f} s"
        return RetryDecision.retry(delay=timedelta(seconds=seconds), reason=reason)
