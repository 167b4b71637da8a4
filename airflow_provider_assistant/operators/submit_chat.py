"""The operator that submits an async chat: ``POST …/chat/async`` and ``GET …/chat/requests/{request_id}``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import SubmittedChat
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousPermanentError,
    AssistantAPIError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_ledger import open_ledger, open_optional_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.ledger import Claim, Filter, Known, Ledger, RunRef, Scope, key_of, queries
from airflow_provider_assistant.ledger.chats import submitted_at
from airflow_provider_assistant.loading.decide import decide
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.operators.links import AssistantRequestLink
from airflow_provider_assistant.operators.message import AssistantMessageOperator
from airflow_provider_assistant.sending.once import send_once
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, ended_request, times_of
from airflow_provider_assistant.triggers.deferral import (
    defer,
    is_deferrable,
    record_and_return,
    record_loss,
    restore_attributes,
)


class AssistantSubmitChatOperator(AssistantMessageOperator):
    """
    Submit an async chat (``POST …/chat/async``) and optionally wait for the answer, on the worker or deferred.

    While it waits, it polls ``GET …/chat/requests/{request_id}``. The operator records the submission in the ledger
    before and after it sends it: a retried or cleared task continues with the request that it already submitted, unless
    that request failed or the service lost it. If earlier attempts may have been submitted as well, the operator logs
    their minimum number and pushes it to XCom as ``possibly_duplicated``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/ask/async-chat`

    :param wait_for_completion: Whether to wait for the answer and return it. Default: only with ``deferrable=True``.
    :param deferrable: Whether to wait in the triggerer instead of on the worker. Default: Airflow's
        ``[operators] default_deferrable``.
    :param poll_interval: Time between two polls, in seconds or as a timedelta. Default: 5.
    :param timeout: Longest wait for the answer, in seconds or as a timedelta. Default: 3600.
    :param reuse: Whether a cleared task continues with the request of its earlier run. A retry always does. Default:
        True.
    :param ledger: Whether to use the ledger. Default: True. Without it, a retry submits the message again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantMessageOperator`.
    """

    template_fields: Sequence[str] = (*AssistantMessageOperator.template_fields, "ledger_conn_id")
    parameter_checks: ClassVar[Checks] = {
        "wait_for_completion": parameters.flag,
        "deferrable": parameters.flag,
        "poll_interval": parameters.interval,
        "timeout": parameters.seconds,
        "reuse": parameters.flag,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
    }
    operator_extra_links = (AssistantRequestLink(),)

    # Read by AssistantRequestLink.
    request_id: str | None = None

    def __init__(
        self,
        *,
        wait_for_completion: bool | None = None,
        deferrable: bool | None = None,
        poll_interval: float | timedelta = 5.0,
        timeout: float | timedelta = 3600.0,
        reuse: bool = True,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_for_completion = bool(deferrable) if wait_for_completion is None else wait_for_completion
        self.deferrable = is_deferrable(deferrable)
        self.poll_interval: Any = poll_interval
        self.timeout: Any = timeout
        self.reuse = reuse
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit the chat, and wait for the answer if ``wait_for_completion`` is set.

        :param context: Airflow's task context.
        :return: Without waiting: ``request_id``, ``session_id``, ``site_id``, and ``submitted_at`` in seconds since the
            epoch. After waiting: ``request_id``, ``session_id``, ``site_id``, ``state``, ``status``, ``text``,
            ``confidence_level`` and ``confidence_score`` (None if the reply has none), ``error`` (None),
            ``polls``, ``seconds`` (latency by the service's timestamps, None if its reply has none),
            ``noticed_after`` (seconds from submission to the poll that found the request finished) and
            ``raw``, the last reply as received.
        :raises AssistantRequestFailedError: The request failed.
        :raises AssistantRequestTimeoutError: The request did not finish within ``timeout``. A retry continues to wait.
        :raises AssistantRequestLostError: The service no longer knows the request. A retry submits the message again.
        :raises AssistantAmbiguousError: The chat may or may not have been submitted.
        :raises AssistantAmbiguousPermanentError: The same, with ``on_ambiguous="fail"``. Airflow does not retry the
            task.
        :raises AirflowSkipException: The chat may have been submitted, and ``on_ambiguous`` is ``skip``.
        :raises AssistantError: Any other error, see :func:`airflow_provider_assistant.api.flow.perform`.
        """
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        with open_ledger(self) as ledger:
            with self._skipping():
                submitted = self._submitted(context, site_id, ledger)
            if not self.wait_for_completion:
                return submitted
            client = self.hook.client
            since = submitted["submitted_at"]
            deadline = client.now() + self.timeout
            if self.deferrable:
                trigger = AssistantChatRequestTrigger(
                    assistant_conn_id=self.assistant_conn_id,
                    site_id=site_id,
                    request_id=submitted["request_id"],
                    since=since,
                    deadline=deadline,
                    poll_interval=self.poll_interval,
                    rendered={
                        "assistant_conn_id": self.assistant_conn_id,
                        "tenant_id": self.tenant_id,
                        "site_id": site_id,
                        "session_id": self.session_id,
                        "message": self.message,
                        "request_id": submitted["request_id"],
                        "lake_path": self.lake_path,
                        "ledger_conn_id": self.ledger_conn_id,
                    },
                )
                defer(self, trigger, now=client.now())
            call = endpoints.get_chat_request(site_id, submitted["request_id"], client.settings.words)
            steps = flow.wait_for(
                call,
                since=since,
                deadline=deadline,
                interval=self.poll_interval,
                now=client.now,
            )
            with tracing.span("wait", site_id=site_id, request_id=submitted["request_id"]):
                try:
                    request, polls = client.run(steps)
                except AssistantAPIError as error:
                    self._raise_lost(error, ledger)
                    raise
            ended = {**request.as_dict(), "polls": polls, **times_of(request, since, client.now())}
            self._publish_ended(context, ended)
            return {**record_and_return(ended, self.hook, ledger), "session_id": self.session_id, "site_id": site_id}

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Return the answer after a deferral.

        :param context: Airflow's task context.
        :param event: The trigger's event.
        :return: The same as :meth:`execute` after waiting.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        restore_attributes(self, event)
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        with open_optional_ledger(self) as ledger:
            try:
                request = ended_request(event)
                self._publish_ended(context, request)
                ended = record_and_return(request, self.hook, ledger)
            except (AssistantRequestFailedError, AssistantRequestTimeoutError) as error:
                self.request_id = error.request_id
                raise
            except AssistantAPIError as error:
                self._raise_lost(error, ledger)
                raise
        self.request_id = ended["request_id"]
        return {**ended, "session_id": self.session_id, "site_id": site_id}

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the session and the request of the chat, for the log lines of a failure."""
        doing = f"async chat in session {self.session_id!r} on {self.hook.location()}"
        if not self.request_id:
            return FailureContext(doing)
        kept = " The ledger has it: a retry continues to wait for it." if self.ledger else ""
        return FailureContext(doing, f"The chat was submitted as request {self.request_id!r}.{kept}")

    def _publish_ended(self, context: Context, ended: Mapping[str, Any]) -> None:
        """
        Write the answer of an ended request to the dataset of answers.

        :param ended: Fields of the request, see :func:`.ended_request`.
        """
        if self.lake_path is None:
            return
        seconds = ended["seconds"]
        if seconds is None:
            seconds = ended["noticed_after"]
        asked_at = datetime.fromtimestamp(ended["ended_at"] - seconds, UTC)
        self._publish_answer(context, {**ended, "asked_at": asked_at, "status": ended["state"]})

    def _raise_lost(self, error: AssistantAPIError, ledger: Ledger | None) -> None:
        """Raise AssistantRequestLostError if the error of a poll means that the service lost the request."""
        if record_loss(error, self.request_id, self.hook, ledger):
            raise AssistantRequestLostError(
                f"Lost by the service: chat request {self.request_id!r} of site "
                f"{self.hook.resolve_site_id()!r}, which it had "
                f"accepted. Error of the last poll: {error.happened}",
                todo="A retry or a cleared task submits the question again.",
            ) from error

    def _submitted(self, context: Context, site_id: str, ledger: Ledger) -> dict[str, Any]:
        call = endpoints.submit_chat(site_id, self._chat_message())
        request_id, at = self._submitted_once(context, ledger, call)
        self.log.info("Site %r accepted the chat as request %r.", site_id, request_id)
        self.request_id = request_id
        return {
            "request_id": request_id,
            "session_id": self.session_id,
            "site_id": site_id,
            "submitted_at": at,
        }

    def _submitted_once(self, context: Context, ledger: Ledger, call: Call[SubmittedChat]) -> tuple[str, float]:
        """
        Submit the chat unless an earlier try did.

        :return: Id of the request, and time of its submission in seconds since the epoch.
        """
        run = RunRef.of(context)
        # Airflow increases max_tries when a task is cleared.
        identity = str(run) if self.reuse else f"{run}#{context['ti'].max_tries}"
        key = key_of(identity, *(call.json or {}).values())
        scope = Scope(self.hook.site(), "chat")
        with ledger.of(scope, task_name(run.dag_id, run.task_id), run) as requests:
            decision = decide(key, requests.known([key]).get(key, ()), requests.source)
            if decision.action == "unchanged" and decision.remote_id:
                self.log.info("An earlier try of this task submitted this chat. Continuing with its request.")
                at = submitted_at(ledger, scope.site, decision.remote_id)
                return decision.remote_id, at.timestamp() if at else time.time()
            if decision.is_repeat and self.on_ambiguous != "retry":
                raise _not_resubmitted(call, ledger, scope, key)
            if decision.is_repeat:
                self.log.warning("An earlier try may have submitted this chat. Submitting it again.")
            elif decision.latest:
                self.log.warning("The earlier request of this chat has no answer. Submitting the question again.")

            def claim_after(known: Sequence[Known]) -> Claim:
                number = known[-1].number + 1 if known else 1
                return Claim(
                    key, self.session_id, number, key, details={"session_id": self.session_id, "mode": "async"}
                )

            reply = send_once(requests, call, claim_after, key, lambda: self._send(call))
        self._note_duplicates(context, decision.is_repeat + reply.call_info.ambiguous)
        return reply.request_id, time.time()


def _not_resubmitted(call: Call[Any], ledger: Ledger, scope: Scope, key: str) -> AssistantAmbiguousPermanentError:
    selected = Filter(which="unresolved", scope=scope.id, keys=(key,))
    page = ledger.read(queries.entries, ledger.clock, selected)
    earlier = page.rows[0] if page.rows else {"error": None, "requests": 1}
    return AssistantAmbiguousPermanentError(
        f"Not submitted again: an earlier try may have submitted it ({call}). Its error: "
        f"{earlier['error'] or 'it ended before it had a reply'}",
        todo="Check at the service whether it was submitted, and record the result with "
        "'airflow assistant ledger resolve'.",
        endpoint=call.endpoint,
        attempts=earlier["requests"] or 1,
    )
