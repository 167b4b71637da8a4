"""Operators for chats and sessions: ``POST …/chat`` and ``POST …/chat/session/close``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.message import AssistantMessageOperator

# Columns of the dataset of answers that are also keys of the result.
ANSWER_COLUMNS = ("session_id", "request_id", "seconds", "confidence_level", "confidence_score")


class AssistantChatOperator(AssistantMessageOperator):
    """
    Send a message and return the answer from the same round trip (``POST …/chat``).

    Use :class:`AssistantSubmitChatOperator` and the sensor for slow answers: they wait without a worker slot. If
    earlier attempts may have reached the service as well, the operator logs their number and pushes it to XCom as
    ``possibly_duplicated``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/ask/chat`

    :param lake_path: Folder of the datasets. If set, the operator also writes the answer to the dataset ``answers``.
        Default: None.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantMessageOperator`.
    """

    template_fields: Sequence[str] = (*AssistantMessageOperator.template_fields, "lake_path")

    def __init__(self, *, lake_path: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_path = lake_path
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the message and return the answer.

        :return: ``text``, ``confidence_level`` and ``confidence_score`` (None if the reply has none),
            ``session_id``, ``site_id``, ``request_id`` (None if the reply has none), ``seconds`` of the
            round trip, and ``raw``, the reply as received.
        :raises AssistantAmbiguousError: The message may or may not have reached the service.
            With ``on_ambiguous="fail"``, Airflow does not retry the task.
        :raises AirflowSkipException: The same, with ``on_ambiguous="skip"``.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        call = endpoints.chat(site_id, self._chat_message())
        # Nobody has the answer of an earlier run, so a cleared task asks again.
        key = self._key(context, call, is_new_after_clear=True)
        with self._attempts(context, "chat") as (_, ledger):
            answer = self._ask(context, ledger, call, key, ledger.known([key]).get(key, ()), "sync")
        self.log.info("Site %r answered in %.1f s.", site_id, answer.call_info.seconds)
        result = {**answer.as_dict(), "session_id": answer.session_id or self.session_id, "site_id": site_id}
        if self.lake_path is not None:
            publish_run(self, context, [self._answer_row(result)], self.lake_path, datasets.ANSWERS)
        return result

    def _answer_row(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of the dataset of answers."""
        return {
            **self.hook.site().columns(),
            "kind": "chat",
            "name": self.task_id,
            "repetition": 1,
            "asked_at": datetime.now(UTC) - timedelta(seconds=result["seconds"]),
            "question": self.message,
            "answer": result["text"],
            "status": "complete",
            **{name: result[name] for name in ANSWER_COLUMNS},
        }


class AssistantCloseSessionOperator(AssistantOperator):
    """
    Close a session (``POST …/chat/session/close``).

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/ask/chat`

    :param session_id: The session to close.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (*AssistantOperator.template_fields, "session_id")

    def __init__(self, *, session_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Close the session.

        Closing a session that is closed already is a success, so it may be sent twice and needs no ledger.

        :return: ``session_id``, ``site_id``, and ``raw``, the reply as received, or None if it was empty.
        :raises AssistantNotFoundError: The service does not know the site, or the API key may not use it.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        site_id = self.hook.resolve_site_id()
        reply = self.hook.close_session(self.session_id)
        self.log.info("Closed session %r on site %r.", self.session_id, site_id)
        return {"session_id": self.session_id, "site_id": site_id, **reply.as_dict()}

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the session, for the log lines of a failure."""
        return FailureContext(f"close of session {self.session_id!r} on {self.hook.location()}")
