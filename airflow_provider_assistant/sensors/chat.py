"""Sensor that waits for an async chat request (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, Context, PokeReturnValue

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.errors import detail_of
from airflow_provider_assistant.asking.poller import poll_once
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantLedgerError,
    AssistantRequestFailedError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.chats import RequestEnd, record_ends, submitted_at
from airflow_provider_assistant.sensors.base import AssistantSensor
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers import events
from airflow_provider_assistant.triggers.chat import (
    AssistantChatRequestTrigger,
    ended_request,
    event_of_end,
    timed_out,
)
from airflow_provider_assistant.triggers.deferral import defer, restore_attributes

log = logging.getLogger(__name__)


class AssistantChatRequestSensor(AssistantSensor):
    """
    Wait until an async chat request ends (``GET …/chat/requests/{request_id}``), and return the answer through XCom.

    A complete request succeeds. A failed one raises
    :class:`~airflow_provider_assistant.exceptions.AssistantRequestFailedError`. A request that does not end
    within ``timeout`` raises Airflow's ``AirflowSensorTimeout``. Transient errors are logged, and polling continues;
    400, 401, 403 and 404 fail the task at once. Airflow retries none of these failures, because another poll would end
    the same way, and ``soft_fail`` turns each into a skip. This holds in every mode. After a 400 or 404, clear the task
    that submitted the chat request: it submits the question again.

    .. seealso::
        For more information on how to use this sensor, take a look at the guide:
        :doc:`/ask/chat`

    :param request_id: Id of the chat request, as ``POST …/chat/async`` returned it.
    :param poke_interval: Time between two polls, in seconds or as a timedelta. Default: 5.

    The other parameters are those of :class:`~airflow_provider_assistant.sensors.base.AssistantSensor`.
    """

    template_fields: Sequence[str] = (*AssistantSensor.template_fields, "request_id")

    # Start of the wait and number of polls, if earlier processes have polled.
    _started: float | None = None
    _polls_before = 0
    # The time until which the service asked not to be polled, in seconds since the epoch.
    _not_before = 0.0

    def __init__(self, *, request_id: str, poke_interval: float | timedelta = 5.0, **kwargs: Any) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.request_id = request_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> Any:
        """
        Wait for the answer and return it.

        :return: ``request_id``, ``state``, ``status``, ``text``, ``confidence_level`` and ``confidence_score`` (None if
            the reply has none), ``error``, ``polls``, ``seconds`` from the submission, or from the start of the wait if
            the ledger does not have the submission, to the poll that found the end, and ``raw``, the last reply as
            received.
        :raises AssistantRequestFailedError: The chat request failed.
        :raises AirflowSensorTimeout: The chat request did not end within ``timeout``.
        :raises AssistantAPIError: The service answered a poll with 400, 401, 403 or 404.
        """
        if self.mode == "reschedule":
            # Each of the earlier polls was followed by a reschedule, and was in another process.
            first = context["ti"].get_first_reschedule_date(context)
            self._started = first.timestamp() if first else None
            self._polls_before = context.get("task_reschedule_count", 0)
        return self._wait_in_any_mode(context)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """
        Poll the chat request once, unless the service asked for a longer pause.

        :return: ``is_done``, and the answer as ``xcom_value`` once the chat request is complete.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        client = self.hook.client
        if client.now() < self._not_before:
            return PokeReturnValue(is_done=False)
        request = self._request._replace(polls=self._polls_before + self._wait.polls)
        end = poll_once(client, self.hook.resolve_site_id(), self._wait, request)
        if end is None:
            error = self._wait.error
            self._not_before = client.now() + (error.retry_after or 0.0 if error else 0.0)
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self._answer(event_of_end(self._wait, end)))

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Return the answer after a deferral.

        :param event: Payload of the trigger's event.
        :return: The same as :meth:`execute`.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        restore_attributes(self, event)
        check_rendered(self, context)
        return self._answer(event)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return what the sensor was waiting for, for the log of a failure."""
        doing = f"wait for chat request {self.request_id!r} on {self.hook.location()}"
        return FailureContext(doing, "The chat was submitted before, and stays at the service: a sensor only reads.")

    @cached_property
    def _request(self) -> Answer:
        started = self._started or self.hook.client.now()
        return Answer("", request_id=self.request_id, submitted_at=started, polls=self._polls_before)

    @cached_property
    def _wait(self) -> Wait:
        """What the polls of this process have met. Airflow decides when a sensor polls, and when it stops."""
        now = self.hook.client.now()
        wait = Wait(interval=self.poke_interval, deadline=math.inf, now=now)
        wait.first_poll(self._request, now)
        return wait

    def _timed_out(self) -> Exception:
        return timed_out(self._wait, self.hook.resolve_site_id(), self._request, self.hook.client.now())

    def _poke_or_defer(self, context: Context) -> Any:
        ended = self.poke(context)
        if ended:
            return ended.xcom_value
        now = self.hook.client.now()
        site_id = self.hook.resolve_site_id()
        started = self._request.submitted_at or now
        longest_interval = None
        if self.exponential_backoff:
            longest_interval = self.max_wait.total_seconds() if self.max_wait else self.timeout
        rendered = {
            "assistant_conn_id": self.assistant_conn_id,
            "site_id": site_id,
            "request_id": self.request_id,
        }
        trigger = AssistantChatRequestTrigger(
            **rendered,
            since=started,
            deadline=started + self.timeout,
            poll_interval=self.poke_interval,
            longest_interval=longest_interval,
            polls=self._wait.polls,
            not_before=now + events.SETTLING_SECONDS,
            rendered=rendered,
        )
        return defer(self, trigger, now=now)

    def _answer(self, event: Mapping[str, Any] | None) -> dict[str, Any]:
        """Record the end of the chat request, and return its answer or raise the error that it ended with."""
        try:
            answer = ended_request(event)
        except AssistantRequestTimeoutError as error:
            raise AirflowSensorTimeout(str(error)) from error
        except AssistantAPIError as error:
            if errors.is_lost(error):
                self._record(RequestEnd("lost", datetime.now(UTC)))
            raise
        ended_at = datetime.fromtimestamp(answer.pop("ended_at"), UTC)
        submitted = self._record(RequestEnd(answer["state"], ended_at))
        if submitted:
            # If the clock was set back, the difference would be negative.
            answer["seconds"] = round(max(0.0, (ended_at - submitted).total_seconds()), 3)
        where = f"request {self.request_id!r} on site {self.hook.resolve_site_id()!r}"
        duration = f"after {answer['seconds']:.1f} s and {counted(answer['polls'], 'poll')}"
        if answer["state"] == "failed":
            reason = detail_of(answer["error"]) if answer["error"] else "the service does not say why"
            raise AssistantRequestFailedError(
                f"Chat ended {answer['status']!r}: {reason} ({where}, {duration})",
                todo="Polling it again gives the same end: submit the question again.",
                retryable=False,
                request_id=self.request_id,
                status=answer["status"],
            )
        log.info("The chat %s is complete %s.", where, duration)
        return answer

    def _record(self, end: RequestEnd) -> datetime | None:
        """
        Record the end in the ledger, for the task that submitted the chat request, and return the time of submission.

        The answer does not depend on the ledger: if it cannot be used, log a warning.
        """
        try:
            with Ledger.open_optional() as ledger:
                if ledger is None:
                    return None
                site = self.hook.site()
                record_ends(ledger.engine, site, {self.request_id: end})
                return submitted_at(ledger, site, self.request_id)
        except AssistantLedgerError as error:
            log.warning("The end of chat request %r is not recorded: %s", self.request_id, error)
            return None
