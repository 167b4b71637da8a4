"""Sensor that waits for an async chat request (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
)

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantError,
    AssistantLedgerError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.task_ledger import ledger_location, open_ledger, open_optional_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered, naming_task
from airflow_provider_assistant.ledger import check_location
from airflow_provider_assistant.ledger.chats import submitted_at
from airflow_provider_assistant.parameters import checked
from airflow_provider_assistant.sensors.base import check_waits, skipped_softly, start_of_wait
from airflow_provider_assistant.triggers import events
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, ended_request, times_of
from airflow_provider_assistant.triggers.deferral import (
    defer,
    is_deferrable,
    record_and_return,
    record_loss,
    restore_attributes,
)


class AssistantChatRequestSensor(BaseSensorOperator):
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
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param site_id: Site of the chat request. Default: None, the connection's.
    :param deferrable: Whether to wait in the triggerer. Default: None, Airflow's ``[operators] default_deferrable``.
    :param ledger: Whether to record in the ledger how the request ended. Default: True.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param poke_interval: Time between two polls, in seconds or as a timedelta. Default: 5.

    Airflow's own parameters of sensors: ``timeout``, the longest total wait, by default 7 days; ``mode``, ``poke`` or
    ``reschedule`` if the sensor is not deferrable; ``soft_fail``, whether to skip the task instead of failing it;
    ``exponential_backoff``, whether the time between two polls doubles each time, up to ``max_wait``. They mean the
    same in every mode.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "site_id", "request_id", "ledger_conn_id")

    parameter_checks: ClassVar[Checks] = {
        "request_id": parameters.text,
        "assistant_conn_id": parameters.text,
        "site_id": parameters.text,
        "deferrable": parameters.flag,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
        "poke_interval": parameters.interval,
    }
    ui_color = "#e4e9fb"

    def __init__(
        self,
        *,
        request_id: str,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        site_id: str | None = None,
        deferrable: bool | None = None,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        poke_interval: float | timedelta = 5.0,
        **kwargs: Any,
    ) -> None:
        # Makes task.output["request_id"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        # Airflow's own errors about these parameters name neither the parameter nor the task.
        task_id = kwargs.get("task_id")
        poke_interval = checked("poke_interval", poke_interval, parameters.interval, task_id)
        check_waits(kwargs)
        with naming_task(task_id):
            super().__init__(poke_interval=poke_interval, **kwargs)
        self.request_id = request_id
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.deferrable = is_deferrable(deferrable)
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        self._polls_before = 0
        # Time of the first poll of a sensor that was rescheduled.
        self._started: float | None = None
        check_given(self)

    @cached_property
    def hook(self) -> AssistantHook:
        """Hook of the sensor's connection and site."""
        return AssistantHook(self.assistant_conn_id, site_id=self.site_id)

    @explained
    def execute(self, context: Context) -> Any:
        """
        Wait for the answer and return it.

        :param context: Airflow's context of the task.
        :return: ``request_id``, ``state``, ``status``, ``text``, ``confidence_level`` and
            ``confidence_score`` (None if the reply has none), ``error``, ``polls``, ``seconds`` from the
            submission, or from the start of the wait if the ledger does not have the submission, to the poll that found
            the end, and ``raw``, the last reply as received.
        :raises AssistantRequestFailedError: The chat request failed.
        :raises AirflowSensorTimeout: The chat request did not end within ``timeout``.
        :raises AssistantAPIError: The service answered a poll with 400, 401, 403 or 404.
        """
        check_rendered(self, context)
        with skipped_softly(self):
            self._started = start_of_wait(self, context)
            if self.mode == "reschedule":
                # Each of the earlier polls was followed by a reschedule, and was in another process.
                self._polls_before = context.get("task_reschedule_count", 0)
            if self.deferrable:
                return self._poll_or_defer(context)
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                # Airflow's own error does not say what the polls met.
                late = self._polls.timed_out()
                raise AirflowSensorTimeout(str(late)) from late

    def _poll_or_defer(self, context: Context) -> Any:
        ended = self.poke(context)
        if ended:
            return ended.xcom_value
        now = self.hook.client.now()
        site_id = self.hook.resolve_site_id()
        rendered = {
            "assistant_conn_id": self.assistant_conn_id,
            "site_id": site_id,
            "request_id": self.request_id,
            "ledger_conn_id": self.ledger_conn_id,
        }
        trigger = AssistantChatRequestTrigger(
            assistant_conn_id=self.assistant_conn_id,
            site_id=site_id,
            request_id=self.request_id,
            since=self._since,
            deadline=now + self.timeout,
            poll_interval=self.poke_interval,
            longest_interval=self._longest_interval(),
            first_poll=now + self.poke_interval,
            polls=self._polls.count,
            not_before=now + events.SETTLING_SECONDS,
            rendered=rendered,
        )
        return defer(self, trigger, now=now)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """
        Poll the chat request once.

        :param context: Airflow's context of the task.
        :return: ``is_done``, and the answer as ``xcom_value`` once the chat request is complete.
        :raises AssistantRequestFailedError: The chat request failed.
        :raises AssistantAPIError: The service answered with 400, 401, 403 or 404.
        """
        client = self.hook.client
        try:
            request = client.run(flow.poll(self._polls.call, since=self._since, now=client.now))
        except AssistantAPIError as error:
            with open_ledger(self) as ledger:
                record_loss(error, self.request_id, self.hook, ledger)
            raise
        self._polls.take(request)
        if isinstance(request, AssistantError) or request.state == "pending":
            return PokeReturnValue(is_done=False)
        ended = {**request.as_dict(), "polls": self._polls.count, **times_of(self._since, client.now())}
        with open_optional_ledger(self) as ledger:
            answer = record_and_return(ended, self.hook, ledger)
        return PokeReturnValue(is_done=True, xcom_value=answer)

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Return the answer after a deferral.

        :param context: Airflow's context of the task.
        :param event: Payload of the trigger's event.
        :return: The same as :meth:`execute`.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        restore_attributes(self, event)
        check_rendered(self, context)
        with open_optional_ledger(self) as ledger:
            try:
                return record_and_return(ended_request(event), self.hook, ledger)
            except AssistantRequestTimeoutError as error:
                raise AirflowSensorTimeout(str(error)) from error
            except AssistantAPIError as error:
                record_loss(error, self.request_id, self.hook, ledger)
                raise

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """
        Return what the sensor was waiting for, for the log of a failure.

        :param context: Airflow's context of the task.
        """
        doing = f"wait for chat request {self.request_id!r} on {self.hook.location()}"
        return FailureContext(doing, "The chat was submitted before, and stays at the service: a sensor only reads.")

    @cached_property
    def _polls(self) -> flow.Polls:
        """The polls of this process, and the number of those before."""
        client = self.hook.client
        call = endpoints.get_chat_request(self.hook.resolve_site_id(), self.request_id, client.settings.words)
        return flow.Polls(call, since=self._since, now=client.now, count=self._polls_before)

    def _longest_interval(self) -> float | None:
        """Return the longest time between two polls of the trigger, in seconds; None if the time does not grow."""
        if not self.exponential_backoff:
            return None
        return self.max_wait.total_seconds() if self.max_wait else self.timeout

    @cached_property
    def _since(self) -> float:
        """Time of the submission by the ledger, or else the current time, in seconds since the epoch."""
        if self.ledger:
            # Fail before the first poll. A ledger that is only unreachable does not fail the sensor.
            check_location(ledger_location(self.hook, self.ledger_conn_id))
        with open_optional_ledger(self) as ledger:
            accepted_at = None
            try:
                if ledger:
                    accepted_at = submitted_at(ledger, self.hook.site(), self.request_id)
            except AssistantLedgerError as error:
                self.log.warning("The ledger cannot be read, so the time of submission is unknown: %s", error)
        since: float = self._started or self.hook.client.now()
        if accepted_at:
            since = accepted_at.timestamp()
        return since
