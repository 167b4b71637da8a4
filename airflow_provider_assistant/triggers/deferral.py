"""Defer a task to a trigger, and resume it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import BaseOperator, conf

if TYPE_CHECKING:
    from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger
    from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger

# Seconds between the trigger's deadline and Airflow's own deferral timeout. The latter is only a safeguard against a
# trigger that never sends an event; the trigger's own error is more helpful.
DEFERRAL_GRACE = 600.0


def is_deferrable(deferrable: bool | None) -> bool:
    """
    Return whether a task waits in the triggerer.

    :param deferrable: None for Airflow's ``[operators] default_deferrable``.
    """
    if deferrable is not None:
        return deferrable
    default: bool = conf.getboolean("operators", "default_deferrable", fallback=False)
    return default


def defer(
    task: BaseOperator, trigger: AssistantChatRequestTrigger | AssistantChatBatchTrigger, *, now: float
) -> NoReturn:
    """
    Defer a task until its trigger has ended; the task resumes in ``execute_complete``.

    :param now: Current time, in seconds since the epoch.
    :raises TaskDeferred: Always; Airflow then frees the worker slot.
    """
    seconds_left = max(0.0, trigger.deadline - now)
    timeout = timedelta(seconds=seconds_left + DEFERRAL_GRACE)
    task.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
    raise AssertionError("unreachable: defer() raises")


def restore_attributes(task: BaseOperator, event: Mapping[str, Any] | None) -> None:
    """
    Restore the attributes that a task had when it was deferred, because Airflow renders them again when it resumes.

    Call this before the task uses its hook.

    :param event: Payload of its trigger's event, with the attributes as ``rendered``.
    """
    rendered = (event or {}).get("rendered") or {}
    for name, value in rendered.items():
        setattr(task, name, value)
