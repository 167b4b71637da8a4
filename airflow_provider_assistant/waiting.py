"""Waiting for an async chat request on the worker's side: what the operator and the sensor share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.providers.common.compat.sdk import BaseOperator, conf

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.errors import shortened
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantLedgerError, AssistantRequestFailed
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger

log = logging.getLogger(__name__)

# Airflow's own deferral timeout only guards against a trigger that never reports: the trigger's deadline
# comes first, and says more.
DEFERRAL_GRACE = 600.0


def is_deferrable(wanted: bool | None) -> bool:
    """Return whether a task waits in the triggerer: as it says, or else as Airflow's configuration does."""
    return conf.getboolean("operators", "default_deferrable", fallback=False) if wanted is None else wanted


def defer(
    task: BaseOperator,
    *,
    assistant_conn_id: str,
    site_id: str,
    request_id: str,
    since: float,
    deadline: float,
    poll_interval: float,
    now: float,
    rendered: Mapping[str, str] | None = None,
) -> NoReturn:
    """
    Free the worker slot until a trigger has seen the request end; the task resumes in ``execute_complete``.

    The parameters are those of
    :class:`~airflow_provider_assistant.triggers.chat.AssistantChatRequestTrigger`.
    """
    trigger = AssistantChatRequestTrigger(
        assistant_conn_id=assistant_conn_id,
        site_id=site_id,
        request_id=request_id,
        since=since,
        deadline=deadline,
        poll_interval=poll_interval,
        rendered=rendered,
    )
    timeout = timedelta(seconds=max(0.0, deadline - now) + DEFERRAL_GRACE)
    task.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
    raise AssertionError("unreachable: defer() raises")


def restore(task: BaseOperator, event: Mapping[str, Any] | None) -> None:
    """
    Set the attributes of a resumed task to what they were when it was deferred: Airflow has rendered them again.

    :param task: The task, before it uses its hook.
    :param event: The event of its trigger, which has the attributes as ``rendered``, unless an older version of this
        package deferred the task.
    """
    for name, value in ((event or {}).get("rendered") or {}).items():
        setattr(task, name, value)


def is_lost(error: AssistantAPIError, request_id: str | None, hook: AssistantHook, ledger: Ledger | None) -> bool:
    """
    Record in the ledger that the service no longer knows a request, if that is what an error says.

    A retry or a cleared task then submits the question again.

    :param error: How a poll was answered.
    :param request_id: The request; None where it is not known.
    :param hook: The hook of its site.
    :param ledger: Where to record it, if anywhere.
    """
    if not errors.is_lost(error) or not request_id:
        return False
    if ledger:
        ledger.chat_ended(hook.target(), request_id, "lost")
    return True


def conclude(
    request: Mapping[str, Any],
    hook: AssistantHook,
    ledger: Ledger | None,
    failure: type[AssistantRequestFailed] = AssistantRequestFailed,
) -> dict[str, Any]:
    """
    Record how a request ended, and return it if it is complete.

    :param request: The ended request as :meth:`ChatRequest.as_dict` gives it, with ``polls`` and what
        :func:`~airflow_provider_assistant.triggers.chat.times_of` returns.
    :param hook: The hook of its site.
    :param ledger: Where to record it, if anywhere.
    :param failure: What to raise for a failed one.
    :raises AssistantRequestFailed: It ended in the failed status.
    """
    # An event of a triggerer with an older version of this package has one time only.
    request = {"noticed_after": request["seconds"], **request}
    request_id, state, site_id = request["request_id"], request["state"], hook.site()
    if ledger:
        # A task resumes later than its request ended.
        ended_at = request.get("ended_at")
        moment = datetime.fromtimestamp(ended_at, UTC) if ended_at else None
        try:
            ledger.chat_ended(hook.target(), request_id, state, at=moment)
        except AssistantLedgerError as error:
            # The answer has been received, and nothing else depends on the record of its end.
            log.warning("The end of chat request %r is not recorded: %s", request_id, error)
    took = f"noticed after {request['noticed_after']:.1f} s and {request['polls']} poll(s)"
    if request["seconds"] is not None:
        took = f"{request['seconds']:.1f} s by the service's times, {took}"
    if state == "failed":
        said = shortened(request["error"]) if request.get("error") else "the service does not say why"
        raise failure(
            f"Chat ended {request['status']!r}: {said} (request {request_id!r} on site {site_id!r}, {took}). "
            "Polling it again gives the same end: submit the question again.",
            request_id=request_id,
            status=request["status"],
        )
    log.info("Chat request %r on site %r is complete: %s.", request_id, site_id, took)
    return {name: value for name, value in request.items() if name != "ended_at"}
