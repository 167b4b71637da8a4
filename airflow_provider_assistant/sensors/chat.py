"""The sensor for async chat requests (endpoint 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
)

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantError,
    AssistantLedgerError,
    AssistantRequestFailedForGood,
    AssistantRequestTimeout,
)
from airflow_provider_assistant.failures import Situation, explained, place_of
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.triggers.chat import ended_request, times_of
from airflow_provider_assistant.waiting import conclude, defer, is_deferrable, is_lost, restore


class AssistantChatRequestSensor(BaseSensorOperator):
    """
    Wait until an async chat request has its answer (endpoint 7), and return the answer through XCom.

    Three ends are told apart: complete succeeds; failed raises
    :class:`~airflow_provider_assistant.exceptions.AssistantRequestFailed`; a request that does not end within
    ``timeout`` raises Airflow's ``AirflowSensorTimeout``. Transient errors while polling are logged and polled
    through; 400, 401, 403 and 404 fail at once. None of these is retried by Airflow, because polling again
    would end the same way, and ``soft_fail`` turns each into a skip: all of it in every mode. After a 400 or 404, clear
    the task that submitted the request: it submits the question again.

    :param request_id: The request, as endpoint 6 returned it.
    :param assistant_conn_id: The Airflow connection.
    :param site_id: Site of the request, if it is not the connection's.
    :param deferrable: Whether to wait in the triggerer; by default what Airflow's
        ``[operators] default_deferrable`` says. ``poke_interval``, ``timeout``, ``mode`` and ``soft_fail`` are
        Airflow's.
    :param ledger: Whether to record in the ledger how the request ended.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "site_id", "request_id")
    ui_color = "#e4e9fb"

    def __init__(
        self,
        *,
        request_id: str,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        site_id: str | None = None,
        deferrable: bool | None = None,
        ledger: bool = True,
        poke_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("multiple_outputs", True)
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.request_id = request_id
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.deferrable = is_deferrable(deferrable)
        self.ledger = ledger
        self._polls = 0

    @cached_property
    def hook(self) -> AssistantHook:
        """The hook of this task."""
        return AssistantHook(self.assistant_conn_id, site_id=self.site_id)

    @explained
    def execute(self, context: Context) -> Any:
        """
        Wait for the answer.

        :return: ``request_id``, ``state``, ``status``, ``text``, ``error``, ``polls``, ``seconds`` (by the service's
            own times, None where its reply has none), ``noticed_after`` (seconds from submission, where the ledger
            knows it, to the poll that noticed the end), and ``raw``, the last reply as received.
        :raises AssistantRequestFailed: The request ended failed.
        :raises AirflowSensorTimeout: It did not end in time.
        :raises AssistantAPIError: 400, 401, 403 or 404.
        """
        if not self.deferrable:
            return super().execute(context)
        try:
            ended = self.poke(context)
        except AirflowException as error:
            # As Airflow does when a deferred sensor resumes.
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise
        if ended:
            return ended.xcom_value
        now = self.hook.client.now()
        names = {
            "assistant_conn_id": self.assistant_conn_id,
            "site_id": self.hook.site(),
            "request_id": self.request_id,
        }
        return defer(
            self,
            **names,
            rendered=names,
            since=self._since,
            deadline=now + self.timeout,
            poll_interval=self.poke_interval,
            now=now,
        )

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """Poll once."""
        client, site_id = self.hook.client, self.hook.site()
        self._polls += 1
        call = endpoints.get_chat_request(site_id, self.request_id, client.settings.words)
        try:
            request = client.run(flow.poll(call, since=self._since, now=client.now))
        except AssistantAPIError as error:
            with Ledger.opened(self.ledger) as ledger:
                is_lost(error, self.request_id, self.hook, ledger)
            raise
        if isinstance(request, AssistantError):
            self.log.warning(flow.POLLING_GOES_ON, request)
            return PokeReturnValue(is_done=False)
        if request.state == "pending":
            return PokeReturnValue(is_done=False)
        ended = {
            **request.as_dict(),
            "polls": self._polls,
            **times_of(request, self._since, client.now()),
        }
        with Ledger.opened(self.ledger, needed=False) as ledger:
            answer = conclude(ended, self.hook, ledger, AssistantRequestFailedForGood)
        return PokeReturnValue(is_done=True, xcom_value=answer)

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what :meth:`execute` returns, or raise what it raises."""
        restore(self, event)
        with Ledger.opened(self.ledger, needed=False) as ledger:
            try:
                return conclude(ended_request(event), self.hook, ledger, AssistantRequestFailedForGood)
            except AssistantRequestTimeout as error:
                raise AirflowSensorTimeout(str(error)) from error
            except AssistantAPIError as error:
                is_lost(error, self.request_id, self.hook, ledger)
                raise

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return which request the sensor was waiting for."""
        return Situation(f"wait for chat request {self.request_id!r} on {place_of(self.hook)}")

    @cached_property
    def _since(self) -> float:
        """When the chat was submitted, as far as the ledger knows, or else now."""
        with Ledger.opened(self.ledger, needed=False) as ledger:
            submitted = None
            try:
                submitted = ledger and ledger.submission_of(self.hook.target(), self.request_id)
            except AssistantLedgerError as error:
                self.log.warning("When the chat was submitted is not known: %s", error)
        return submitted.settled_at.timestamp() if submitted else self.hook.client.now()
