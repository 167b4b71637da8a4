"""
Log three lines before the exception of a failed task.

Airflow shows an exception as one long line above a traceback. These log lines help the person on call: what happened
and where, what is safe, and what to do.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    Context,
)

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.api.errors import STATUSES
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    RECORDED,
    AssistantAPIError,
    AssistantError,
    AssistantStorageError,
    sentence,
)
from airflow_provider_assistant.provider_info import DOCUMENTATION
from airflow_provider_assistant.texts import escaped

RUNBOOK: Final = f"{DOCUMENTATION}en/stable/operate/runbook.html"

log = logging.getLogger(__name__)


class Foreign(NamedTuple):
    """
    What the runbook says about an exception that is not one of this package.

    :param happened: As a short sentence.
    :param meaning: What causes the error.
    :param default_safe: What is not lost; used if the task has no counts.
    """

    happened: str
    meaning: str
    default_safe: str
    default_todo: str


FOREIGN: Final[dict[type[Exception], Foreign]] = {
    AirflowSensorTimeout: Foreign(
        "What a sensor waits for did not happen within its timeout.",
        "The service is still processing the chat or the documents, or its queue is full.",
        "Chats and documents stay at the service: a sensor only reads.",
        "Clear the sensor: it waits for the same. If the service always takes longer, raise its timeout.",
    ),
    AirflowNotFoundException: Foreign(
        "Airflow has no connection of this name.",
        "This process finds it in no environment variable, secrets backend or metadata database.",
        NOTHING_SENT,
        "Create the connection, or correct the parameter that names it.",
    ),
    OSError: Foreign(
        "A file or a storage could not be read or written.",
        "The disk is full, a path or a permission is wrong, or the object storage failed.",
        AssistantStorageError.default_safe,
        AssistantStorageError.default_todo,
    ),
    Exception: Foreign(
        "An unexpected error.",
        "Another library or a callable of the DAG raised it, or this package has a bug.",
        RECORDED,
        "Read the traceback below. If it shows this package as the cause, report it with the traceback.",
    ),
}


@dataclass(frozen=True, slots=True)
class FailureContext:
    """
    What a task was doing when it failed.

    :param doing: The operation, its object, host and connection, such as ``wait for chat request 'r1' on site 'docs'``.
    :param safe: What is safe, with counts. Empty for the text of the exception or of its class.
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
    """
    Return a task's method, decorated to log the three lines when it fails.

    The exception is raised unchanged.
    """
    is_resumed = method.__name__ == "execute_complete"

    @functools.wraps(method)
    def run(task: Task, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(task, context, *args, **kwargs)
        except Exception as error:
            if _is_failure(error):
                log_failure(error, _failure_context_of(task, context), is_resumed=is_resumed)
            raise

    return run  # type: ignore[return-value]  # Airflow passes the context by its name, which Concatenate cannot say


def log_failure(error: Exception, failure_context: FailureContext, *, is_resumed: bool = False) -> None:
    """
    Log what happened, what is safe, and what to do.

    :param is_resumed: Whether the task was deferred: then it had sent something before.
    """
    happened = escaped(f"{type(error).__name__}: {error}")
    safe = None
    todo = None
    # A sensor's timeout is an exception of Airflow. If the service's reply caused it, the cause says more.
    explaining_error = error.__cause__ if isinstance(error, AirflowSensorTimeout) else error
    if isinstance(explaining_error, AssistantError):
        happened = explaining_error.happened
        safe = explaining_error.safe
        todo = explaining_error.todo
    error_class = documented_class(error)
    if issubclass(error_class, AssistantError):
        # Errors of this package have their default texts as attributes of the class.
        defaults: Foreign | type[AssistantError] = error_class
    else:
        defaults = FOREIGN[error_class]
    # The task knows its counts, so its text says more than that of the error.
    safe = sentence(escaped(failure_context.safe) or safe or defaults.default_safe)
    if is_resumed and safe == NOTHING_SENT:
        safe = f"Nothing was sent after the task resumed. {RECORDED}"
    todo = sentence(todo or defaults.default_todo)
    if is_final(error_class):
        todo += " Airflow does not retry this task: clear it afterwards."
    if failure_context.findings and failure_context.findings not in todo:
        todo += f" Findings: {failure_context.findings}."
    happened = f"{escaped(failure_context.doing)}: {sentence(happened)}"
    todo += f" Runbook: {RUNBOOK}#{anchor_of(error)}"
    _log_lines(logging.ERROR, happened, safe, todo)


def log_attention(happened: str, safe: str, todo: str) -> None:
    """Log the three lines for a task that succeeds and leaves work for a person."""
    _log_lines(logging.WARNING, escaped(happened), safe, todo)


def _log_lines(level: int, happened: str, safe: str, todo: str) -> None:
    log.log(level, "What happened: %s", happened)
    log.log(level, "What is safe: %s", safe)
    log.log(level, "What to do: %s", todo)


def documented_class(error: Exception) -> type[Exception]:
    """Return the class of an error, or else its nearest base class, that the runbook describes."""
    # The class, then its bases from the nearest on. FOREIGN has Exception, so there is always one.
    classes = type(error).__mro__
    return next(kind for kind in classes if kind in FOREIGN or kind.__module__ == exceptions.__name__)


def is_final(kind: type[Exception]) -> bool:
    """Return whether Airflow fails a task without a retry."""
    return issubclass(kind, AirflowFailException | AirflowSensorTimeout)


def anchor_of(error: Exception) -> str:
    """
    Return the anchor of an error's section in the runbook.

    A status with advice of its own has a section of its own.
    """
    name = documented_class(error).__name__.lower()
    if isinstance(error, AssistantAPIError):
        row = STATUSES.get(error.status)
        if row and row.own_todo:
            return f"{name}-{error.status}"
    return name


def _is_failure(error: Exception) -> bool:
    """Return whether an exception fails the task; Airflow also uses exceptions to skip, defer and reschedule."""
    failure_classes = AssistantError | AirflowSensorTimeout | AirflowNotFoundException
    if isinstance(error, failure_classes):
        return True
    # Exceptions of other libraries and of Python. Those that skip, defer and reschedule are Airflow's.
    return not isinstance(error, AirflowException)


def _failure_context_of(task: Any, context: Context) -> FailureContext:
    """Return what a task was doing; an error in the task's own description must not hide the original error."""
    try:
        failure_context: FailureContext = task.failure_context(context)
    except Exception as error:  # noqa: BLE001 (the connection itself may be what is wrong)
        log.debug("What the task was doing is not known: %s", error)
        return FailureContext(f"task {task.task_id!r}")
    return failure_context
