"""The base of the triggers, and how errors travel in their events."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_assistant import exceptions
from airflow_provider_assistant.client.defaults import get_client_defaults
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError

log = logging.getLogger(__name__)

# What Airflow raises for a connection that does not exist.
NO_CONNECTION = AirflowNotFoundException.__name__

# Seconds from a deferral to the trigger's event, at least. If a task resumes before Airflow's scheduler has seen that
# its process ended, which takes some seconds, the scheduler takes that end for one of the resumed task, and fails it.
SETTLING_SECONDS = 10.0


@dataclass(kw_only=True, eq=False, repr=False)
class AssistantTrigger(BaseTrigger):
    """
    Base of the triggers: wait until a deadline, and yield one event, whose payload is a result or an error.

    :param not_before: Time of the event at the earliest, in seconds since the epoch. Default: 0, at once.
    :param rendered: Rendered attributes of the task. The event returns them, because Airflow renders the templates
        again when the task resumes, and ``airflow dags test`` drops the arguments of a deferral. Default: None.
    """

    assistant_conn_id: str
    site_id: str
    deadline: float
    poll_interval: float
    not_before: float = 0.0
    rendered: Mapping[str, str | None] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments with which Airflow restarts the trigger."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {field.name: getattr(self, field.name) for field in fields(self)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: what the wait returned, or ``error``; and ``rendered``."""
        try:
            payload = await self._wait()
        except Exception as error:  # noqa: BLE001 (the task says what was submitted, whatever the error is)
            payload = failure_of(error)
        await wait_until(self.not_before)
        yield TriggerEvent({**payload, "rendered": self.rendered})

    async def _wait(self) -> dict[str, Any]:
        raise NotImplementedError


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
    Return the event payload that reports an error; :func:`raise_failure` raises it again.

    If a trigger raised its error instead, Airflow would fail the task without calling it, and would pass on neither
    the class nor the fields of the error.
    """
    if isinstance(error, AssistantError):
        return {"error": {"type": type(error).__name__, "fields": vars(error)}}
    if isinstance(error, AirflowNotFoundException):
        return {"error": {"type": NO_CONNECTION, "fields": {"happened": str(error)}}}
    log.error("The trigger failed", exc_info=error)
    happened = f"The trigger failed: {type(error).__name__}: {error}"
    if isinstance(error, OSError):
        return failure_of(AssistantStorageError(happened))
    return failure_of(AssistantError(happened, todo="The log of the triggerer has the traceback. Run the task again."))


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
    fields = reported.get("fields") or {}
    happened = str(fields.get("happened", ""))
    if reported.get("type") == NO_CONNECTION:
        raise AirflowNotFoundException(happened)
    error_class = getattr(exceptions, str(reported.get("type")), None)
    if not (isinstance(error_class, type) and issubclass(error_class, AssistantError)):
        error_class = AssistantError
    error = error_class(happened)
    # The fields include what the constructor does not take, such as retry_after.
    vars(error).update(fields)
    raise error
