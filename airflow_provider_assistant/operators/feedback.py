"""Operators for feedback: endpoint 8 of the specification, and what was sent through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import Feedback, checked
from airflow_provider_assistant.asking.rating import Rater
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.ratings import rate
from airflow_provider_assistant.exceptions import AssistantIncompleteLoad, AssistantInputError
from airflow_provider_assistant.ledger import Ledger, RunRef, key_of, ratings
from airflow_provider_assistant.loading.source import storage_path
from airflow_provider_assistant.operators.base import AssistantOperator, ExportOperator, findings_of

if TYPE_CHECKING:
    import pyarrow as pa


class AssistantFeedbackOperator(AssistantOperator):
    """
    Rate the answer to one chat request, or many answers by rules on their scores (endpoint 8).

    The API has no endpoint that reads feedback back, so the ledger records what was sent; the same rating of
    the same request is sent once, however often the task runs. An attempt that may have been received is repeated.

    Give either ``session_id``, ``request_id`` and ``feedback``, or ``answers``, ``scores`` and ``rules``.

    :param session_id: Conversation of the request.
    :param request_id: The chat request.
    :param feedback: Rating word; ``good`` is the one that the specification shows.
    :param answers: What :class:`~airflow_provider_assistant.operators.ask.AssistantAskOperator` wrote: a local path or
        an object storage URL.
    :param scores: What the evaluation of these answers wrote, ``scores.parquet``.
    :param rules: A condition on the scores for each rating word, such as ``{"good": "token_f1 >= 0.8", "bad":
        "token_f1 < 0.3"}``. An answer gets the word of the first rule that holds; if none does, it is not rated.
    :param key: The columns that tell the questions apart, as in the evaluation.
    :param max_concurrency: The most ratings in flight; by default the connection's.
    :param ledger: Whether to use the ledger; without it nothing is recorded and a retry rates again.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "request_id",
        "feedback",
        "answers",
        "scores",
        "rules",
        "key",
    )

    _rater: Rater | None = None

    def __init__(
        self,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        feedback: str | None = None,
        answers: str | None = None,
        scores: str | None = None,
        rules: Mapping[str, str] | None = None,
        key: str | Sequence[str] = "key",
        max_concurrency: int | None = None,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        one = {"session_id": session_id, "request_id": request_id, "feedback": feedback}
        many = {"answers": answers, "scores": scores, "rules": rules}
        given = {name for name, value in {**one, **many}.items() if value is not None}
        if given not in ({*one}, {*many}):
            raise AssistantInputError(
                f"give {', '.join(one)} for one rating, or {', '.join(many)} for ratings by rule, "
                f"not {', '.join(sorted(given)) or 'none of them'}"
            )
        self.session_id = session_id
        self.request_id = request_id
        self.feedback = feedback
        self.answers = answers
        self.scores = scores
        self.rules = rules
        self.key = key
        self.max_concurrency = max_concurrency
        self.ledger = ledger

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send what was not sent before.

        :return: Of one rating: ``request_id``, ``session_id``, ``site_id``, ``feedback``, and ``sent``: whether this
            run sent it. Of ratings by rule: ``rows = sent + already_sent + not_rated + not_answered + failed``,
            ``by_rating``, how many answers have which rating now, ``possibly_duplicated``, ``site_id``, and
            ``findings``, the path of the list of ratings that want attention, None if there are none.
        :raises AssistantInputError: The files or the rules are wrong, and nothing was sent.
        :raises AssistantIncompleteLoad: Ratings by rule could not be sent; a retry sends those and no others.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        return self._rate_one(context) if self.rules is None else self.tell(context, self._rate_many(context))

    def on_kill(self) -> None:
        """Send no more ratings by rule; what is in flight gets the time to end."""
        if self._rater:
            self._rater.end()

    def _rate_one(self, context: Context) -> dict[str, Any]:
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

    def _rate_many(self, context: Context) -> dict[str, Any]:
        key = self.key if isinstance(self.key, str) else list(self.key)
        cases = read_cases(_table(self.answers, "answers"), key=key)
        rated = rate(cases, _table(self.scores, "scores"), self.rules or {})
        site_id, run, settings = self.hook.site(), RunRef.of(context), self.hook.settings.client
        with Ledger.opened(self.ledger) as ledger, findings_of(run) as findings:
            self._rater = Rater(
                replace(settings, max_concurrency=self.max_concurrency or settings.max_concurrency),
                site_id=site_id,
                scope=self.hook.target(),
                run=run,
                ledger=ledger,
                findings=findings,
            )
            try:
                self._rater.send(rated.ratings)
            finally:
                counts = self._rater.counts
                said = (
                    f"of {rated.total} answers {counts.sent} were rated, {counts.already_sent} had been before, "
                    f"{counts.failed} ratings failed, {rated.not_rated} are not rated, {rated.not_answered} are missing"
                )
                self.log.info("Site %r: %s.", site_id, said)
        listed = str(findings.path) if findings.count else None
        if counts.failed:
            raise AssistantIncompleteLoad(
                f"{said}. A retry sends those that failed and no others. They are listed in {listed}."
            )
        return {
            "rows": rated.total,
            **counts.as_dict(),
            "not_rated": rated.not_rated,
            "not_answered": rated.not_answered,
            "site_id": site_id,
            "findings": listed,
        }


def _table(path: Any, field: str) -> pa.Table:
    """
    Read a Parquet file.

    :raises AssistantInputError: It is not there, or something else.
    """
    import pyarrow.parquet as pq

    try:
        with storage_path(path).open("rb") as file:
            return pq.read_table(file)
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:
        raise AssistantInputError(
            f"{field} must be a Parquet file, and {path} is none that can be read: {error}. Nothing was sent.",
            field=field,
        ) from error


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
