"""What the sensors share: their waiting times, and the same errors skip the task in every mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    Context,
)

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.parameters import checked


def check_waits(arguments: dict[str, Any]) -> None:
    """Check the waiting times among the arguments of a sensor, and convert them to seconds."""
    for name in ("timeout", "max_wait"):
        if arguments.get(name) is not None:
            arguments[name] = checked(name, arguments[name], parameters.seconds, arguments.get("task_id"))


@contextlib.contextmanager
def skipped_softly(sensor: BaseSensorOperator) -> Iterator[None]:
    """
    Skip a sensor with ``soft_fail`` or ``never_fail`` for every error that would fail it.

    Airflow itself does so when a deferred sensor resumes; in the other modes, it skips only for some errors.

    :raises AirflowSkipException: Replaces the error.
    """
    try:
        yield
    except (AssistantError, AirflowSensorTimeout, AirflowNotFoundException) as error:
        if sensor.soft_fail or sensor.never_fail:
            raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
        raise


def start_of_wait(sensor: BaseSensorOperator, context: Context) -> float | None:
    """Return the time of the first poll of a sensor if earlier processes have polled, in seconds since the epoch."""
    if sensor.mode != "reschedule":
        return None
    first = context["ti"].get_first_reschedule_date(context)
    return first.timestamp() if first else None
