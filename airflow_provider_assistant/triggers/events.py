"""
Carry errors and rendered attributes of the task in a trigger's event, which does not come too early.

Airflow passes on neither the class nor the fields of an error that a trigger raises. Airflow also renders the task's
templates again when the task resumes, and ``airflow dags test`` drops the arguments of the deferral.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.client.defaults import get_client_defaults
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError

log = logging.getLogger(__name__)

# What Airflow raises for a connection that does not exist.
NO_CONNECTION = AirflowNotFoundException.__name__

# Seconds from a deferral to the trigger's event, at least. If a task resumes before Airflow's scheduler has seen that
# its process ended, which takes some seconds, the scheduler takes that end for one of the resumed task, and fails it.
SETTLING_SECONDS = 10.0


async def wait_until(time: float) -> None:
    """
    Wait until the scheduler has seen that the task was deferred.

    :param time: The time in seconds since the epoch. If the clock was set back, the wait is not longer.
    """
    defaults = get_client_defaults()
    seconds = min(time - defaults.now(), SETTLING_SECONDS)
    if seconds > 0:
        await defaults.asleep(seconds)


def failure_of(error: Exception) -> dict[str, Any]:
    """
    Return the event payload that reports an error.

    If a trigger raised its error instead, Airflow would fail the task without calling it.

    :return: ``error``: its ``type`` and ``fields``; :func:`raise_failure` raises it again.
    """
    if isinstance(error, AssistantError):
        return {"error": {"type": type(error).__name__, "fields": error.fields()}}
    if isinstance(error, AirflowNotFoundException):
        return {"error": {"type": NO_CONNECTION, "fields": {"happened": str(error)}}}
    log.error("The trigger failed", exc_info=error)
    happened = f"The trigger failed: {type(error).__name__}: {error}"
    if isinstance(error, OSError):
        return failure_of(AssistantStorageError(happened))
    return failure_of(AssistantError(happened, todo="The log of the triggerer has the traceback. Run the task again."))


def carried(rendered: Mapping[str, str | None] | None) -> dict[str, Any]:
    """
    Return the part of a trigger's arguments, and of its event, that carries rendered attributes of the task.

    :param rendered: Values by attribute name, or None.
    :return: ``rendered``, or an empty dict if there are none.
    """
    return {"rendered": dict(rendered)} if rendered else {}


def raise_failure(event: Mapping[str, Any] | None) -> None:
    """
    Raise the error that an event reports; do nothing if it reports none.

    :raises AirflowNotFoundException: The trigger did not find the connection.
    :raises AssistantError: The event reports another error. The error has its original class, or AssistantError if this
        worker does not have that class.
    """
    reported = (event or {}).get("error")
    if not isinstance(reported, Mapping):
        return
    if reported.get("type") == NO_CONNECTION:
        raise AirflowNotFoundException(str((reported.get("fields") or {}).get("happened", "")))
    error_class = getattr(exceptions, str(reported.get("type")), None)
    if not (isinstance(error_class, type) and issubclass(error_class, AssistantError)):
        error_class = AssistantError
    known = {field.name for field in dataclasses.fields(error_class)}
    # Worker and triggerer may have different versions of this package.
    raise error_class(**{name: value for name, value in (reported.get("fields") or {}).items() if name in known})
