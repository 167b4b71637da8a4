"""Operators that chat with the assistant: ``POST …/chat``, ``…/chat/async`` and ``…/chat/session/close``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypeVar

from airflow.providers.common.compat.sdk import AirflowSkipException, Context

from airflow_provider_assistant import tracing
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Call, Exchange
from airflow_provider_assistant.api.models import ApiReply, ChatMessage, SubmittedChat, checked
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousErrorForGood,
    AssistantAPIError,
    AssistantNotFoundError,
    AssistantRequestFailed,
    AssistantRequestLost,
    AssistantRequestTimeout,
)
from airflow_provider_assistant.failures import Situation, explained
from airflow_provider_assistant.ledger import Ledger, RunRef, key_of, submissions
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.links import AssistantRequestLink
from airflow_provider_assistant.triggers.chat import ended_request, times_of
from airflow_provider_assistant.waiting import conclude, defer, is_deferrable, is_lost, restore

T = TypeVar("T")
OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]


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
        on_ambiguous: OnAmbiguous = "retry",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_ambiguous not in {"retry", "skip", "fail"}:
            raise ValueError(f"on_ambiguous must be 'retry', 'skip' or 'fail', not {on_ambiguous!r}")
        self.session_id = session_id
        self.message = message
        self.email = email
        self.response_language = response_language
        self.on_ambiguous = on_ambiguous

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return which chat the task was sending."""
        return Situation(f"chat in session {self.session_id!r} on {self.place()}")

    def _chat_message(self) -> ChatMessage:
        fields = {
            "session_id": self.session_id,
            "message": self.message,
            "email": self.email,
            "response_language": self.response_language,
        }
        return checked(ChatMessage, fields)

    def _send(self, call: Call[T]) -> T:
        return self.hook.send(call, "retry" if self.on_ambiguous == "retry" else "fail")

    @contextlib.contextmanager
    def _skipping(self) -> Iterator[None]:
        """
        Skip the task if its message may have arrived and ``on_ambiguous`` is ``skip``.

        :raises AirflowSkipException: Instead of the error, if ``on_ambiguous`` is ``skip``.
        """
        try:
            yield
        except AssistantAmbiguousErrorForGood as error:
            if self.on_ambiguous == "skip":
                raise AirflowSkipException(f"Skipped: {error}") from error
            raise

    def _note_duplicates(self, context: Context, count: int) -> None:
        """Log how many known earlier attempts may have been carried out as well, and push their number to XCom."""
        if count:
            self.log.warning(
                "At least %d earlier attempt(s) may have been carried out as well: session %r may hold the message "
                "more than once.",
                count, self.session_id,
            )  # fmt: skip
            context["ti"].xcom_push(key="possibly_duplicated", value=count)


class AssistantChatOperator(_MessageOperator):
    """
    Ask the assistant and get the answer in the same round trip (``POST …/chat``).

    For slow answers use :class:`AssistantSubmitChatOperator`, which can wait without a worker slot.

    :param session_id: The session; reusing it continues the conversation.
    :param message: The user's text.
    :param email: E-mail address of the end user.
    :param response_language: Language code of the reply, such as ``en``.
    :param on_ambiguous: What to do if the message may have arrived although there is no answer. ``retry``, the default,
        sends it again after a 5xx or a broken connection, as often as the connection's ``retries`` allow. After a
        timeout it does not, because the service may still be answering: the try fails, and only a retry of the task
        sends the message again. ``skip`` and ``fail`` never send it again: the task is skipped, or fails without
        retries. The number of earlier attempts that may have arrived as well is logged, and pushed to XCom as
        ``possibly_duplicated``.
    """

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Ask, and return the answer.

        :return: ``text``, ``session_id``, ``site_id``, ``request_id`` (None where the service shows
            none), ``seconds``, and ``raw``, the reply as received.
        :raises AssistantAmbiguousError: The message may or may not have arrived.
        :raises AssistantAmbiguousErrorForGood: The same, with ``on_ambiguous="fail"``.
        :raises AirflowSkipException: The same, with ``on_ambiguous="skip"``.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        with self._skipping():
            answer = self._send(endpoints.chat(site_id, self._chat_message()))
        self.log.info("Site %r answered in %.1f s.", site_id, answer.exchange.seconds)
        self._note_duplicates(context, answer.exchange.ambiguous)
        return {
            **answer.as_dict(),
            "session_id": answer.session_id or self.session_id,
            "site_id": site_id,
        }


class AssistantSubmitChatOperator(_MessageOperator):
    """
    Submit a chat (``POST …/chat/async``), and wait for the answer if asked to, without a worker slot if deferrable.

    The submission is recorded in the ledger before and after it is sent: a retried or cleared task takes up the request
    that it already submitted, unless that request failed or the service lost it.

    :param session_id: The session; reusing it continues the conversation.
    :param message: The user's text.
    :param email: E-mail address of the end user.
    :param response_language: Language code of the reply, such as ``en``.
    :param on_ambiguous: What to do if the chat may have been submitted, now or by an earlier try, although there is no
        usable reply. ``retry``, the default, submits it again. ``skip`` and ``fail`` never do: the task is skipped, or
        fails without retries. The minimum number of earlier attempts that may have been submitted as well is logged,
        and pushed to XCom as ``possibly_duplicated``.
    :param wait_for_completion: Whether to wait for the answer and return it. Default: only with ``deferrable=True``.
    :param deferrable: Whether to wait in the triggerer instead of on the worker. Default: Airflow's
        ``[operators] default_deferrable``.
    :param poll_interval: Seconds between two polls.
    :param timeout: How long to wait for the answer, in seconds or as a timedelta.
    :param reuse: Whether a cleared task takes up the request of an earlier run of it. A retry always does.
    :param ledger: Whether to use the ledger. Without it, a retry submits the question again.
    """

    operator_extra_links = (AssistantRequestLink(),)

    # For the link.
    request_id: str | None = None

    def __init__(
        self,
        *,
        wait_for_completion: bool | None = None,
        deferrable: bool | None = None,
        poll_interval: float = 5.0,
        timeout: float | timedelta = 3600.0,
        reuse: bool = True,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_for_completion = bool(deferrable) if wait_for_completion is None else wait_for_completion
        self.deferrable = is_deferrable(deferrable)
        self.poll_interval = poll_interval
        self.timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self.reuse = reuse
        self.ledger = ledger

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit, and wait if that is asked for.

        :return: ``request_id``, ``session_id``, ``site_id``, and ``submitted_at`` in seconds since the epoch;
            after waiting, in its place, ``state``, ``status``, ``text``, ``error`` (None), ``polls``, ``seconds``
            (by the service's own times, None where its reply has none), ``noticed_after`` (seconds from submission to
            the poll that noticed the end) and ``raw``, the last reply as received.
        :raises AssistantRequestFailed: The request ended failed.
        :raises AssistantRequestTimeout: It did not end in time; a retry waits on for the same request.
        :raises AssistantRequestLost: The service no longer knows it; a retry submits the question again.
        :raises AssistantAmbiguousError: The chat may or may not have been submitted.
        :raises AssistantAmbiguousErrorForGood: The same, with ``on_ambiguous="fail"``.
        :raises AirflowSkipException: The same, with ``on_ambiguous="skip"``.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        with Ledger.opened(self.ledger) as ledger:
            with self._skipping():
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
                    rendered={
                        "assistant_conn_id": self.assistant_conn_id,
                        "site_id": site_id,
                        "session_id": self.session_id,
                        "request_id": submitted["request_id"],
                    },
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
                try:
                    request, polls = client.run(steps)
                except AssistantAPIError as error:
                    self._raise_lost(error, ledger)
                    raise
            ended = {**request.as_dict(), "polls": polls, **times_of(request, since, client.now())}
            return {**conclude(ended, self.hook, ledger), "session_id": self.session_id, "site_id": site_id}

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what :meth:`execute` returns after waiting, or raise what it raises."""
        restore(self, event)
        site_id = self.hook.site()
        with Ledger.opened(self.ledger, needed=False) as ledger:
            try:
                ended = conclude(ended_request(event), self.hook, ledger)
            except (AssistantRequestFailed, AssistantRequestTimeout) as error:
                self.request_id = error.request_id
                raise
            except AssistantAPIError as error:
                self._raise_lost(error, ledger)
                raise
        self.request_id = ended["request_id"]
        return {**ended, "session_id": self.session_id, "site_id": site_id}

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return which chat the task was submitting or waiting for."""
        doing = f"async chat in session {self.session_id!r} on {self.place()}"
        if not self.request_id:
            return Situation(doing)
        kept = " It is recorded: a retry takes it up." if self.ledger else ""
        return Situation(doing, f"The chat was submitted as request {self.request_id!r}.{kept}")

    def _raise_lost(self, error: AssistantAPIError, ledger: Ledger | None) -> None:
        """Raise what a poll's error means, if it means that the service lost the request."""
        if is_lost(error, self.request_id, self.hook, ledger):
            raise AssistantRequestLost(
                f"Lost by the service: chat request {self.request_id!r} of site {self.hook.site()!r}, which it had "
                f"accepted. A retry or a cleared task submits the question again. The last poll: {error}"
            ) from error

    def _submitted(self, context: Context, site_id: str, ledger: Ledger | None) -> dict[str, Any]:
        call = endpoints.submit_chat(site_id, self._chat_message())
        if ledger is None:
            reply = self._send(call)
            self._note_duplicates(context, reply.exchange.ambiguous)
            request_id, at = reply.request_id, time.time()
        else:
            row = self._submitted_once(context, site_id, ledger, call)
            request_id, at = row.request_id, row.settled_at.timestamp()
        self.log.info("Site %r accepted the chat as request %r.", site_id, request_id)
        self.request_id = request_id
        return {
            "request_id": request_id,
            "session_id": self.session_id,
            "site_id": site_id,
            "submitted_at": at,
        }

    def _submitted_once(self, context: Context, site_id: str, ledger: Ledger, call: Call[SubmittedChat]) -> Any:
        """Submit the chat, unless an earlier try did; return its row in the ledger."""
        run = RunRef.of(context)
        # Airflow raises max_tries when a task is cleared.
        scope = str(run) if self.reuse else f"{run}#{context['ti'].max_tries}"
        target, key = self.hook.target(), key_of(scope, *(call.json or {}).values())
        earlier = ledger.find(submissions, target, key)
        is_ambiguous = earlier is not None and earlier.outcome in {"intended", "ambiguous"}
        if is_ambiguous and self.on_ambiguous != "retry":
            raise _left(call, earlier)
        if earlier is not None and earlier.outcome == "done" and earlier.state == "lost":
            self.log.warning("The service lost request %r; the question is submitted again.", earlier.request_id)
        ambiguous = int(is_ambiguous)

        def send() -> dict[str, Any]:
            nonlocal ambiguous
            reply = self._send(call)
            ambiguous += reply.exchange.ambiguous
            return {"request_id": reply.request_id}

        row, sent = ledger.once(
            submissions,
            target,
            key,
            run,
            send,
            again_if=submissions.c.state.in_(["failed", "lost"]),
            site_id=site_id,
            session_id=self.session_id,
            state=None,
            completed_at=None,
        )
        if sent:
            self._note_duplicates(context, ambiguous)
        else:
            self.log.info("An earlier try of this task submitted this chat; it is taken up, not sent again.")
        return row


def _left(call: Call[Any], earlier: Any) -> AssistantAmbiguousErrorForGood:
    return AssistantAmbiguousErrorForGood(
        f"Not submitted again: an earlier try may have submitted it ({call}). Its error: "
        f"{earlier.error or 'it ended before it had a reply'} Look at the service whether it was submitted, and tell "
        "the ledger with 'airflow assistant ledger resolve'.",
        endpoint=call.endpoint,
        attempts=earlier.attempts,
    )


class AssistantCloseSessionOperator(AssistantOperator):
    """
    Close a session (``POST …/chat/session/close``).

    :param session_id: The session.
    """

    template_fields: Sequence[str] = (*AssistantOperator.template_fields, "session_id")

    def __init__(self, *, session_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Close the session.

        A 404 in a later try of the task is a success: an earlier try has closed the session.

        :return: ``session_id``, ``site_id``, and ``raw``, the reply as received, None when it was empty.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        try:
            reply = self.hook.close_session(self.session_id)
        except AssistantNotFoundError as error:
            if context["ti"].try_number <= 1:
                raise
            self.log.info("An earlier try has closed the session: %s", error)
            reply = ApiReply(None, Exchange(error.status))
        self.log.info("Closed session %r on site %r.", self.session_id, site_id)
        return {"session_id": self.session_id, "site_id": site_id, **reply.as_dict()}

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return which session the task was closing."""
        return Situation(f"close of session {self.session_id!r} on {self.place()}")
