"""
The three log lines of a task that fails, before its exception.

Airflow shows an exception as one long line above a traceback. A person who is called at night reads the log instead:
what happened and where, what is safe, and what to do.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    Context,
)

from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantAPIError, AssistantError, escaped
from airflow_provider_assistant.hooks.assistant import AssistantHook

if TYPE_CHECKING:
    from airflow_provider_assistant.messages import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Situation:
    """
    What a task was doing when it failed.

    :param doing: The work, its item, host and connection.
    :param safe: What is safe, with counts; empty for what the table says.
    :param findings: Path of the findings, or None.
    """

    doing: str
    safe: str = ""
    findings: str | None = None


class Explained(Protocol):
    """A task that can say what it was doing."""

    task_id: str

    def situation(self, context: Context) -> Situation:
        """Return what the task was doing."""


def place_of(hook: AssistantHook) -> str:
    """Return site, host and connection of a hook as the end of a sentence; what cannot be read is left out."""
    try:
        host = urlsplit(hook.settings.client.base_url).netloc
        site = hook.site_id or hook.settings.site_id
    except AirflowException:
        return f"connection {hook.assistant_conn_id!r}"
    return f"{f'site {site!r} at ' if site else ''}{host} (connection {hook.assistant_conn_id!r})"


Task = TypeVar("Task", bound=Explained)
P = ParamSpec("P")
R = TypeVar("R")


def explained(
    method: Callable[Concatenate[Task, Context, P], R],
) -> Callable[Concatenate[Task, Context, P], R]:
    """Make a task's method log the three lines when it fails; the exception itself is raised unchanged."""

    @functools.wraps(method)
    def run(task: Task, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(task, context, *args, **kwargs)
        except Exception as error:
            if _is_failure(error):
                log_failure(error, _situation_of(task, context))
            raise

    return run  # type: ignore[return-value]  # Airflow passes the context by its name, which Concatenate cannot say


def log_failure(error: Exception, situation: Situation) -> None:
    """
    Log what happened, what is safe, and what to do.

    :param error: Why the task failed.
    :param situation: What it was doing.
    """
    # Only here: DAG files are parsed every few seconds, and do not need the table.
    from airflow_provider_assistant.messages import RUNBOOK, message_of

    row = message_of(error)
    happened, advice = _told(error, row)
    retried = " Airflow does not retry this task: clear it afterwards." if row.is_final else ""
    is_named = not situation.findings or situation.findings in advice
    listed = "" if is_named else f" Findings: {situation.findings}."
    log.error("What happened: %s: %s.", escaped(situation.doing), happened)
    log.error("What is safe: %s", escaped(situation.safe) or row.safe)
    log.error("What to do: %s%s%s Runbook: %s#%s", advice, retried, listed, RUNBOOK, row.anchor)


def _told(error: Exception, row: Message) -> tuple[str, str]:
    """Return what happened, and what to do: an error's own advice is more exact than that of the table."""
    first, *rest = re.split(r"(?<!\.)\. (?=[A-Z'])", str(error), maxsplit=1)
    happened = first.rstrip(".")
    if isinstance(error, AssistantAmbiguousError):
        return happened, row.todo
    if isinstance(error, AssistantAPIError):
        said = f" (the service said {error.detail!r})" if error.detail else ""
        return f"{happened}{said}", row.todo
    if not isinstance(error, AssistantError | AirflowSensorTimeout):
        # Texts of other libraries have lines, and no advice.
        return escaped(f"{type(error).__name__}: {error}".rstrip(".")), row.todo
    # What is safe has a line of its own.
    advice = re.sub(r"^Nothing was (?:sent|changed)\.\s*", "", "".join(rest))
    return happened, advice or row.todo


def _is_failure(error: Exception) -> bool:
    """Return whether an exception ends a task as failed: Airflow also skips and reschedules by exceptions."""
    ours = AssistantError | AirflowSensorTimeout | AirflowNotFoundException
    return isinstance(error, ours) or not isinstance(error, AirflowException)


def _situation_of(task: Any, context: Context) -> Situation:
    """Return what a task was doing; a failure to say so must not hide the error."""
    try:
        situation: Situation = task.situation(context)
    except Exception as error:  # noqa: BLE001 (the connection itself may be what is wrong)
        log.debug("What the task was doing is not known: %s", error)
        return Situation(f"task {task.task_id!r}")
    return situation
