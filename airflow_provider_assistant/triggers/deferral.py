"""Deferral and resumption of tasks that wait for async chat requests; shared by operators and sensor."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import BaseOperator, conf

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.errors import detail_of
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantLedgerError,
    AssistantRequestFailedError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.chats import RequestEnd, record_ends
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger
    from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger

log = logging.getLogger(__name__)

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
    if event is None:
        return
    rendered = event.get("rendered") or {}
    for name, value in rendered.items():
        setattr(task, name, value)


def record_loss(error: AssistantAPIError, request_id: str, hook: AssistantHook, ledger: Ledger | None) -> None:
    """
    Record in the ledger that the service no longer knows a chat request, if that is what an error means.

    The next try of the task that submitted it then submits the question again.

    :param hook: Hook for the site of the chat request.
    :param ledger: The ledger; None to record nothing.
    """
    if ledger and errors.is_lost(error):
        record_ends(ledger.engine, hook.site(), {request_id: RequestEnd("lost", datetime.now(UTC))})


def record_and_return(
    request: Mapping[str, Any],
    hook: AssistantHook,
    ledger: Ledger | None,
) -> dict[str, Any]:
    """
    Record in the ledger how a chat request ended, and return the request if it is complete.

    :param request: The ended chat request: the keys of :meth:`ChatRequest.as_dict` and of
        :func:`~airflow_provider_assistant.triggers.chat.times_of`, and ``polls``.
    :param hook: Hook for the site of the chat request.
    :param ledger: The ledger; None to record nothing.
    :return: ``request`` without ``ended_at``.
    :raises AssistantRequestFailedError: The chat request failed.
    """
    request_id = request["request_id"]
    state = request["state"]
    site_id = hook.resolve_site_id()
    if ledger:
        completed_at = datetime.now(UTC)
        if request.get("ended_at"):
            # The task resumes after the request has ended, so record the time of the end.
            completed_at = datetime.fromtimestamp(request["ended_at"], UTC)
        end = RequestEnd(state, completed_at)
        try:
            record_ends(ledger.engine, hook.site(), {request_id: end})
        except AssistantLedgerError as error:
            # Do not fail: the answer has been received, and no other task depends on this entry.
            log.warning("The end of chat request %r is not recorded: %s", request_id, error)
    duration = f"after {request['seconds']:.1f} s and {counted(request['polls'], 'poll')}"
    if state == "failed":
        reason = "the service does not say why"
        if request.get("error"):
            reason = detail_of(request["error"])
        raise AssistantRequestFailedError(
            f"Chat ended {request['status']!r}: {reason} (request {request_id!r} on site {site_id!r}, {duration})",
            todo="Polling it again gives the same end: submit the question again.",
            retryable=False,
            request_id=request_id,
            status=request["status"],
        )
    log.info("Chat request %r on site %r is complete %s.", request_id, site_id, duration)
    return {name: value for name, value in request.items() if name != "ended_at"}
