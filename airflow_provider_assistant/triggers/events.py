"""
What travels in a trigger's event besides what it saw.

Errors: Airflow itself would pass on neither their class nor their fields. Attributes of the task: Airflow renders its
templates again when it resumes, and ``airflow dags test`` drops the arguments that a task defers with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.exceptions import AssistantError


def failure_of(error: AssistantError) -> dict[str, Any]:
    """Return the payload of an event that reports an error."""
    return {"error": {"type": type(error).__name__, "message": str(error), "fields": vars(error)}}


def carried(rendered: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the part of a trigger's arguments, and of its event, that holds attributes of the task."""
    return {"rendered": dict(rendered)} if rendered else {}


def raise_failure(event: Mapping[str, Any] | None) -> None:
    """
    Raise the error that an event reports, if it reports one.

    :param event: The event's payload.
    :raises AssistantError: As the class it was; a class that this worker does not know becomes an AssistantError.
    """
    reported = (event or {}).get("error")
    if not isinstance(reported, Mapping):
        return
    kind = getattr(exceptions, str(reported.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, AssistantError)):
        kind = AssistantError
    error = kind(str(reported.get("message")))
    vars(error).update(reported.get("fields") or {})
    raise error
