"""Operators for feedback: endpoint 8 of the specification, and what was sent through it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import Feedback, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Ledger, RunRef, key_of, ratings
from airflow_provider_assistant.operators.base import AssistantOperator, ExportOperator


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


class AssistantFeedbackToParquetOperator(ExportOperator):
    """
    Write the feedback that was sent to the Parquet dataset ``feedback``: one row per rating.

    The rows are the ledger's, joined with how long each answer took; see :mod:`airflow_provider_assistant.lake`.
    Whole UTC days are replaced, so that a re-run doubles nothing.

    :param site_id: The one site whose ratings are written; without it, those of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: The last day to write, ``YYYY-MM-DD``; by default the day of the DAG run.
    :param days: How many days up to that one are written. Two, the default, complete the day before, whose
        last ratings were sent after yesterday's run.
    """

    def __init__(self, *, days: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if days < 1:
            raise AssistantInputError(f"days must be at least 1, not {days}", field="days")
        self.days = days

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :return: ``rows``, ``path`` of the last day's file, ``paths`` and ``bytes`` of all, and ``date``.
        :raises AssistantLedgerError: The ledger cannot be read.
        """
        last = self.day(context)
        written: list[lake.Published] = []
        scope = self.hook.target() if self.site_id else None
        with Ledger.open() as ledger:
            for back in reversed(range(self.days)):
                day = last - timedelta(days=back)
                start = datetime.combine(day, time(), UTC)
                table = lake.feedback_table(ledger.feedback_between(start, start + timedelta(days=1), scope))
                written.append(self.publish(context, table, "feedback", day))
        paths = [file.path for file in written]
        result = {
            "rows": sum(file.rows for file in written),
            "path": paths[-1],
            "paths": paths,
            "bytes": sum(file.bytes for file in written),
            "date": last.isoformat(),
        }
        self.log.info("Wrote %d ratings of %d day(s) up to %s to %s.", result["rows"], self.days, last, paths[-1])
        return self.tell(context, result)
