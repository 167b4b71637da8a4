"""Operators for feedback: endpoint 8 of the specification, and what was sent through it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import Feedback, checked
from airflow_provider_assistant.ledger import Ledger, RunRef, feedback_between, key_of, ratings
from airflow_provider_assistant.operators.base import AssistantOperator, LedgerExportOperator

if TYPE_CHECKING:
    import pyarrow as pa


class AssistantFeedbackOperator(AssistantOperator):
    """
    Rate the answer to a chat request (endpoint 8).

    The API has no endpoint that reads feedback back, so the ledger records what was sent; the same rating of
    the same request is sent once, however often the task runs.

    :param session_id: Conversation of the request.
    :param request_id: The chat request.
    :param feedback: Rating word; ``good`` is the one that the specification shows.
    :param ledger: Whether to use the ledger; without it nothing is recorded and a retry rates again.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "request_id",
        "feedback",
    )

    def __init__(self, *, session_id: str, request_id: str, feedback: str, ledger: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_id = session_id
        self.request_id = request_id
        self.feedback = feedback
        self.ledger = ledger

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the rating, unless it was sent before.

        :return: ``request_id``, ``session_id``, ``site_id``, ``feedback``, and ``sent``: whether this run sent it.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id = self.hook.site()
        fields = {
            "session_id": self.session_id,
            "request_id": self.request_id,
            "feedback": self.feedback,
        }
        call = endpoints.send_feedback(site_id, checked(Feedback, fields))
        sent = True

        def send() -> dict[str, Any]:
            self.hook.send(call)
            return {}

        with Ledger.opened(self.ledger) as ledger:
            if ledger is None:
                send()
            else:
                _, sent = ledger.once(
                    ratings,
                    self.hook.target(),
                    key_of(self.session_id, self.request_id, self.feedback),
                    RunRef.of(context),
                    send,
                    site_id=site_id,
                    session_id=self.session_id,
                    request_id=self.request_id,
                    rating=self.feedback,
                )
        what = "Rated" if sent else "An earlier run had already rated"
        self.log.info("%s request %r on site %r: %s.", what, self.request_id, site_id, self.feedback)
        return {**fields, "site_id": site_id, "sent": sent}


class AssistantFeedbackToParquetOperator(LedgerExportOperator):
    """
    Write the feedback that was sent to the Parquet dataset ``feedback``: one row per rating, on the day it was sent.

    The rows are the ledger's, joined with how long each answer took; see :mod:`airflow_provider_assistant.lake`.

    The parameters are those of :class:`~airflow_provider_assistant.operators.base.LedgerExportOperator`.
    """

    dataset = "feedback"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """Return the ratings of a span of time."""
        return lake.feedback_table(feedback_between(ledger.engine, start, end, scope))
