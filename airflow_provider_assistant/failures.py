"""
Complete the error of a failed task: what it was doing, what is safe with the counts of this try, and where to read on.

Airflow shows an exception once, as one line above or below a traceback, and passes it to callbacks. So the line says
everything that the person on call needs.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    Context,
)

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.api.errors import STATUSES
from airflow_provider_assistant.error import RECORDED, sentence
from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    NOTHING_SENT,
    AssistantAPIError,
    AssistantError,
)
from airflow_provider_assistant.provider_info import DOCUMENTATION
from airflow_provider_assistant.texts import escaped

RUNBOOK: Final = f"{DOCUMENTATION}en/stable/reference/errors.html"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailureContext:
    """
    What a task was doing when it failed.

    :param doing: The operation, its object, host and connection, such as ``wait for chat request 'r1' on site 'docs'``.
    :param safe: What is safe, with counts. Default: what the exception says.
    :param findings: Path of the findings.
    """

    doing: str
    safe: str = ""
    findings: str | None = None


class Explained(Protocol):
    """Protocol of tasks that describe what they were doing when they failed."""

    task_id: str

    def failure_context(self, context: Context) -> FailureContext:
        """Return what the task was doing."""


Task = TypeVar("Task", bound=Explained)
P = ParamSpec("P")
R = TypeVar("R")


def explained(
    method: Callable[Concatenate[Task, Context, P], R],
) -> Callable[Concatenate[Task, Context, P], R]:
    """Return a task's method, decorated to complete its error."""
    is_resumed = method.__name__ == "execute_complete"

    @functools.wraps(method)
    def run(task: Task, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(task, context, *args, **kwargs)
        except AssistantError as error:
            complete(error, _failure_context_of(task, context), is_resumed=is_resumed)
            raise
        except AirflowSensorTimeout as timeout:
            if isinstance(timeout.__cause__, AssistantError):
                complete(timeout.__cause__, _failure_context_of(task, context), is_resumed=is_resumed)
                timeout.args = (str(timeout.__cause__),)
            raise
        except Exception as error:
            # Those of Airflow that skip, defer and reschedule are no failures.
            if isinstance(error, AirflowNotFoundException) or not isinstance(error, AirflowException):
                known = _failure_context_of(task, context)
                log.error("%s: %s. %s", known.doing, type(error).__name__, known.safe)  # noqa: TRY400 (Airflow logs it)
            raise

    return run  # type: ignore[return-value]  # Airflow passes the context by its name, which Concatenate cannot say


def complete(error: AssistantError, failure_context: FailureContext, *, is_resumed: bool = False) -> None:
    """Say in an error what the task was doing, what is safe, what to do, and where the runbook is."""
    safe = _safe(error, escaped(failure_context.safe))
    if is_resumed and safe == NOTHING_SENT:
        safe = f"Nothing was sent after the task resumed. {RECORDED}"
    todo = error.todo or error.default_todo
    todos = [sentence(todo)] if todo else []
    if not error.retryable:
        todos.append("Airflow does not retry this task: clear it afterwards.")
    if failure_context.findings and failure_context.findings not in todo:
        todos.append(f"Findings: {failure_context.findings}.")
    error.happened = f"{escaped(failure_context.doing)}: {error.happened}"
    error.safe = safe
    error.todo = " ".join([*todos, f"Runbook: {RUNBOOK}#{anchor_of(error)}"])
    error.args = (error.happened,)


def _safe(error: AssistantError, of_task: str) -> str:
    """Return what is safe, in sentences: what the error says, and what the task says with its counts."""
    if not of_task:
        return sentence(error.safe or error.default_safe)
    if error.safe is None or error.safe == NOTHING_SENT:
        # The task knows what it had sent before.
        return sentence(of_task)
    return error.safe if error.safe == NOTHING_CHANGED else f"{sentence(error.safe)} {sentence(of_task)}"


def anchor_of(error: AssistantError) -> str:
    """Return the anchor of an error's section in the runbook; a status with advice of its own has its own section."""
    documented = next(kind for kind in type(error).__mro__ if kind in vars(exceptions).values())
    name = documented.__name__.lower()
    row = STATUSES.get(error.status) if isinstance(error, AssistantAPIError) else None
    return f"{name}-{error.status}" if row and row.own_todo else name  # type: ignore[attr-defined]


def _failure_context_of(task: Any, context: Context) -> FailureContext:
    """Return what a task was doing; an error in the task's own description must not hide the original error."""
    try:
        failure_context: FailureContext = task.failure_context(context)
    except Exception as error:  # noqa: BLE001 (the connection itself may be what is wrong)
        log.debug("What the task was doing is not known: %s", error)
        return FailureContext(f"task {task.task_id!r}")
    return failure_context
