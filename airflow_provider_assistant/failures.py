"""
Log three lines before the exception of a failed task.

Airflow shows an exception as one long line above a traceback. These log lines help the person on call: what happened
and where, what is safe, and what to do.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    Context,
)

from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantAPIError, AssistantError
from airflow_provider_assistant.texts import escaped

if TYPE_CHECKING:
    from airflow_provider_assistant.messages import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailureContext:
    """
    What a task was doing when it failed.

    :param doing: The operation, its object, host and connection, such as ``wait for chat request 'r1' on site 'docs'``.
    :param safe: What is safe, with counts. Default: empty, the text of the table of messages.
    :param findings: Path of the findings. Default: None.
    """

    doing: str
    safe: str = ""
    findings: str | None = None


class Explained(Protocol):
    """Protocol of tasks that describe what they were doing when they failed."""

    task_id: str

    def failure_context(self, context: Context) -> FailureContext:
        """
        Return what the task was doing.

        :param context: Airflow's context of the task.
        """


Task = TypeVar("Task", bound=Explained)
P = ParamSpec("P")
R = TypeVar("R")


def explained(
    method: Callable[Concatenate[Task, Context, P], R],
) -> Callable[Concatenate[Task, Context, P], R]:
    """
    Return a task's method, decorated to log the three lines when it fails; the exception is raised unchanged.

    :param method: Method that takes Airflow's context as its first argument.
    """

    @functools.wraps(method)
    def run(task: Task, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(task, context, *args, **kwargs)
        except Exception as error:
            if _is_failure(error):
                log_failure(error, _failure_context_of(task, context))
            raise

    return run  # type: ignore[return-value]  # Airflow passes the context by its name, which Concatenate cannot say


def log_failure(error: Exception, failure_context: FailureContext) -> None:
    """
    Log what happened, what is safe, and what to do.

    :param error: The exception that failed the task.
    :param failure_context: What the task was doing.
    """
    # Imported here: Airflow parses DAG files every few seconds, and they do not need the table.
    from airflow_provider_assistant.messages import RUNBOOK, message_of

    row = message_of(error)
    happened, advice = _happened_and_advice(error, row)
    retried = " Airflow does not retry this task: clear it afterwards." if row.is_final else ""
    is_named = not failure_context.findings or failure_context.findings in advice
    listed = "" if is_named else f" Findings: {failure_context.findings}."
    log.error("What happened: %s: %s.", escaped(failure_context.doing), happened)
    log.error("What is safe: %s", escaped(failure_context.safe) or row.safe)
    log.error("What to do: %s%s%s Runbook: %s#%s", advice, retried, listed, RUNBOOK, row.anchor)


def _happened_and_advice(error: Exception, row: Message) -> tuple[str, str]:
    """Return what happened, and what to do; the error's own advice is more precise than that of the table."""
    first, *rest = re.split(r"(?<!\.)\. (?=[A-Z'])", str(error), maxsplit=1)
    happened = first.rstrip(".")
    if isinstance(error, AssistantAmbiguousError):
        return happened, row.todo
    if isinstance(error, AssistantAPIError):
        detail = f" (the service said {error.detail!r})" if error.detail else ""
        return f"{happened}{detail}", row.todo
    if not isinstance(error, AssistantError | AirflowSensorTimeout):
        # Messages of other libraries may have several lines, and contain no advice.
        return escaped(f"{type(error).__name__}: {error}".rstrip(".")), row.todo
    # The line "What is safe" already says this.
    advice = re.sub(r"^Nothing was (?:sent|changed)\.\s*", "", "".join(rest))
    return happened, advice or row.todo


def _is_failure(error: Exception) -> bool:
    """Return whether an exception fails the task; Airflow also uses exceptions to skip, defer and reschedule."""
    ours = AssistantError | AirflowSensorTimeout | AirflowNotFoundException
    return isinstance(error, ours) or not isinstance(error, AirflowException)


def _failure_context_of(task: Any, context: Context) -> FailureContext:
    """Return what a task was doing; an error in the task's own description must not hide the original error."""
    try:
        failure_context: FailureContext = task.failure_context(context)
    except Exception as error:  # noqa: BLE001 (the connection itself may be what is wrong)
        log.debug("What the task was doing is not known: %s", error)
        return FailureContext(f"task {task.task_id!r}")
    return failure_context
