"""Operators that talk to the assistant: endpoints 5, 6 and 9 of the specification."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import tracing
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.models import ChatMessage, checked
from airflow_provider_assistant.exceptions import AssistantRequestFailed, AssistantRequestTimeout
from airflow_provider_assistant.ledger import Ledger, RunRef, key_of, submissions
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.links import AssistantRequestLink
from airflow_provider_assistant.triggers.chat import ended_request
from airflow_provider_assistant.waiting import conclude, defer, is_deferrable


class _MessageOperator(AssistantOperator):
    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "message",
        "email",
        "response_language",
    )

    def __init__(
        self,
        *,
        session_id: str,
        message: str,
        email: str | None = None,
        response_language: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.message = message
        self.email = email
        self.response_language = response_language

    def _chat_message(self) -> ChatMessage:
        fields = {
            "session_id": self.session_id,
            "message": self.message,
            "email": self.email,
            "response_language": self.response_language,
        }
        return checked(ChatMessage, fields)


class AssistantChatOperator(_MessageOperator):
    """
    Ask the assistant and wait for the answer in the same round trip (endpoint 5).

    For answers that take long, :class:`AssistantSubmitChatOperator` holds no worker slot.

    :param session_id: Conversation; reusing it continues it.
    :param message: The user's text.
    :param email: E-mail address of the end user.
    :param response_language: Language code of the reply, such as ``en``.
    """

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """
        Ask, and return the answer.

        :return: ``text``, ``session_id``, ``site_id``, ``request_id`` (None where the service shows
            none), ``seconds``, and ``raw``, the reply as received.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        answer = self.hook.send(endpoints.chat(site_id, self._chat_message()))
        self.log.info("Site %r answered in %.1f s.", site_id, answer.exchange.seconds)
        return {
            **answer.as_dict(),
            "session_id": answer.session_id or self.session_id,
            "site_id": site_id,
        }


class AssistantSubmitChatOperator(_MessageOperator):
    """
    Ask the assistant without waiting (endpoint 6), or wait for the answer without holding a worker slot.

    The submission is recorded in the ledger before and after it is made: when the task is retried or
    cleared, it takes up the request it already submitted, unless that one ended failed.

    :param session_id: Conversation; reusing it continues it.
    :param message: The user's text.
    :param email: E-mail address of the end user.
    :param response_language: Language code of the reply, such as ``en``.
    :param wait_for_completion: Whether to wait for the answer and return it. By default it is waited for if
        ``deferrable=True`` is given.
    :param deferrable: Whether to wait in the triggerer instead of on the worker; by default what Airflow's
        ``[operators] default_deferrable`` says.
    :param poll_interval: Seconds between polls.
    :param timeout: Seconds to wait for the answer.
    :param ledger: Whether to use the ledger; without it a retry asks again.
    """

    operator_extra_links = (AssistantRequestLink(),)

    # What was submitted, for the link.
    request_id: str | None = None

    def __init__(
        self,
        *,
        wait_for_completion: bool | None = None,
        deferrable: bool | None = None,
        poll_interval: float = 5.0,
        timeout: float | timedelta = 3600.0,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_for_completion = bool(deferrable) if wait_for_completion is None else wait_for_completion
        self.deferrable = is_deferrable(deferrable)
        self.poll_interval = poll_interval
        self.timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self.ledger = ledger

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit, and wait if that is asked for.

        :return: ``request_id``, ``session_id``, ``site_id``, and ``submitted_at`` in seconds since the epoch;
            after waiting, in its place, ``state``, ``status``, ``text``, ``error`` (None), ``polls``, ``seconds``
            and ``raw``, the last reply as received.
        :raises AssistantRequestFailed: The request ended failed.
        :raises AssistantRequestTimeout: It did not end in time; a retry waits on for the same request.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        with Ledger.opened(self.ledger) as ledger:
            submitted = self._submitted(context, site_id, ledger)
            if not self.wait_for_completion:
                return submitted
            client = self.hook.client
            since = submitted["submitted_at"]
            deadline = client.now() + self.timeout
            if self.deferrable:
                defer(
                    self,
                    assistant_conn_id=self.assistant_conn_id,
                    site_id=site_id,
                    request_id=submitted["request_id"],
                    since=since,
                    deadline=deadline,
                    poll_interval=self.poll_interval,
                    now=client.now(),
                )
            call = endpoints.get_chat_request(site_id, submitted["request_id"], client.settings.words)
            steps = flow.wait_for(
                call,
                since=since,
                deadline=deadline,
                interval=self.poll_interval,
                now=client.now,
            )
            with tracing.span("wait", site_id=site_id, request_id=submitted["request_id"]):
                request, polls = client.run(steps)
            ended = {**request.as_dict(), "polls": polls, "seconds": round(client.now() - since, 3)}
            return {**conclude(ended, self.hook, ledger), "session_id": self.session_id, "site_id": site_id}

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what :meth:`execute` returns after waiting, or raise what it raises."""
        site_id = self.hook.site()
        with Ledger.opened(self.ledger, needed=False) as ledger:
            try:
                ended = conclude(ended_request(event), self.hook, ledger)
            except (AssistantRequestFailed, AssistantRequestTimeout) as error:
                self.request_id = error.request_id
                raise
        self.request_id = ended["request_id"]
        return {**ended, "session_id": self.session_id, "site_id": site_id}

    def _submitted(self, context: Context, site_id: str, ledger: Ledger | None) -> dict[str, Any]:
        message = self._chat_message()
        call = endpoints.submit_chat(site_id, message)
        if ledger is None:
            request_id, at = self.hook.send(call).request_id, time.time()
        else:
            run = RunRef.of(context)
            row, sent = ledger.once(
                submissions,
                self.hook.target(),
                key_of(str(run), *message.body().values()),
                run,
                lambda: {"request_id": self.hook.send(call).request_id},
                again_if=submissions.c.state == "failed",
                site_id=site_id,
                session_id=self.session_id,
                state=None,
                completed_at=None,
            )
            request_id, at = row.request_id, row.settled_at.timestamp()
            if not sent:
                self.log.info("An earlier try of this task submitted this chat; it is taken up, not sent again.")
        self.log.info("Site %r accepted the chat as request %r.", site_id, request_id)
        self.request_id = request_id
        return {
            "request_id": request_id,
            "session_id": self.session_id,
            "site_id": site_id,
            "submitted_at": at,
        }


class AssistantCloseSessionOperator(AssistantOperator):
    """
    End a conversation (endpoint 9).

    :param session_id: The conversation.
    """

    template_fields: Sequence[str] = (*AssistantOperator.template_fields, "session_id")

    def __init__(self, *, session_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """
        Close the session.

        :return: ``session_id``, ``site_id``, and ``raw``, the reply as received, None when it was empty.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        reply = self.hook.close_session(self.session_id)
        self.log.info("Closed session %r on site %r.", self.session_id, site_id)
        return {"session_id": self.session_id, "site_id": site_id, **reply.as_dict()}
