"""Operators that send feedback (``POST …/chat/feedback``) and export the feedback that was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import Feedback, checked
from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantIncompletePermanentError,
    AssistantInputError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.ledger import Ledger, RunRef, is_superseded, key_of, ratings
from airflow_provider_assistant.operators.base import (
    AssistantOperator,
    findings_of,
    warn_of_findings,
)
from airflow_provider_assistant.storage.paths import storage_path

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.feedback.sender import FeedbackSender
    from airflow_provider_assistant.loading.report import Findings


class AssistantFeedbackOperator(AssistantOperator):
    """
    Rate the answer to one chat request, or many answers by rules on their scores (``POST …/chat/feedback``).

    The API cannot return feedback, so the operator records in the ledger what it sent. It does not send a rating that
    is already the latest one of its request. It sends a rating again if the last attempt is ambiguous.

    Set either ``session_id``, ``request_id`` and ``feedback`` (one rating), or ``answers``, ``scores`` and ``rules``
    (ratings by rule).

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/feedback`

    :param session_id: Session of the chat request.
    :param request_id: The chat request.
    :param feedback: The rating: a word that the service accepts, such as ``good``.
    :param answers: Parquet file that
        :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` wrote: a local path or an
        object storage URL.
    :param scores: ``scores.parquet`` of the evaluation of these answers: a local path or an object storage URL.
    :param rules: Mapping from a rating to a condition on the scores: ``{"good": "token_f1 >= 0.8", "bad":
        "token_f1 < 0.3"}``. An answer gets the rating of the first condition that holds; if none holds, it is not
        rated.
    :param key_columns: Column or columns that identify a question, as in the evaluation. Default: ``key``.
    :param max_concurrency: Maximum number of ratings in flight. Default: that of the connection.
    :param ledger: Whether to use the ledger. Default: True. Without it, a retry sends all ratings again.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "session_id",
        "request_id",
        "feedback",
        "answers",
        "scores",
        "rules",
        "key_columns",
    )

    # State of the current try.
    _rater: FeedbackSender | None = None
    _listed: Findings | None = None

    def __init__(
        self,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        feedback: str | None = None,
        answers: str | None = None,
        scores: str | None = None,
        rules: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = "key",
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
        self.key_columns = key_columns
        self.max_concurrency = max_concurrency
        self.ledger = ledger

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the ratings that were not sent before.

        :param context: Airflow's task context.
        :return: For one rating: ``request_id``, ``session_id``, ``site_id``, ``feedback``, and ``sent``, whether this
            run sent it. For ratings by rule: the counts ``rows = sent + already_sent + not_rated + not_answered +
            failed``; ``by_rating``, the number of answers per rating; ``possibly_duplicated``; ``site_id``; and
            ``findings``, the path of the findings or None if there are none.
        :raises AssistantInputError: The files or the rules are invalid, and nothing was sent.
        :raises AssistantIncompleteError: Ratings by rule could not be sent. A retry sends those and no others.
        :raises AssistantIncompletePermanentError: The service rejected every rating that failed. Airflow does not retry
            the task.
        :raises AssistantError: Any other error, see :func:`airflow_provider_assistant.api.flow.perform`.
        """
        return (
            self._rate_one(context) if self.rules is None else self.emit_asset_events(context, self._rate_many(context))
        )

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the rating and the counts of this try, for the log lines of a failure."""
        if self.rules is None:
            return FailureContext(f"rating {self.feedback!r} of request {self.request_id!r} on {self.place()}")
        doing = f"ratings of {self.answers} on {self.place()}"
        if not self._rater:
            return FailureContext(doing)
        counts = self._rater.counts
        safe = (
            f"{counts.sent} ratings were sent by this try and {counts.already_sent} before. {counts.failed} are left."
        )
        return FailureContext(doing, safe, self._listed.listed if self._listed else None)

    def on_kill(self) -> None:
        """Stop sending ratings by rule. Requests in flight may still finish."""
        if self._rater:
            self._rater.end()

    def _rate_one(self, context: Context) -> dict[str, Any]:
        site_id = self.hook.resolve_site_id()
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

        with Ledger.open_optional(self.ledger) as ledger:
            if ledger is None:
                send()
            else:
                _, sent = ledger.run_once(
                    ratings,
                    self.hook.site_url(),
                    key_of(self.session_id, self.request_id, self.feedback),
                    RunRef.of(context),
                    send,
                    again_if=is_superseded(),
                    site_id=site_id,
                    session_id=self.session_id,
                    request_id=self.request_id,
                    rating=self.feedback,
                )
        what = "Rated" if sent else "An earlier run had already rated"
        self.log.info("%s request %r on site %r: %s.", what, self.request_id, site_id, self.feedback)
        return {**fields, "site_id": site_id, "sent": sent}

    def _rate_many(self, context: Context) -> dict[str, Any]:
        from airflow_provider_assistant.evaluation.cases import read_cases
        from airflow_provider_assistant.feedback.rules import rate
        from airflow_provider_assistant.feedback.sender import FeedbackSender

        key = self.key_columns if isinstance(self.key_columns, str) else list(self.key_columns)
        cases = read_cases(_table(self.answers, "answers"), key_columns=key)
        rated = rate(cases, _table(self.scores, "scores"), self.rules or {})
        site_id, run, settings = self.hook.resolve_site_id(), RunRef.of(context), self.hook.settings.client
        with Ledger.open_optional(self.ledger) as ledger, findings_of(run) as findings:
            self._listed = findings
            self._rater = FeedbackSender(
                replace(settings, max_concurrency=self.max_concurrency or settings.max_concurrency),
                site_id=site_id,
                scope=self.hook.site_url(),
                run=run,
                ledger=ledger,
                findings=findings,
            )
            try:
                self._rater.send(rated.ratings)
            finally:
                counts = self._rater.counts
                summary = (
                    f"of {rated.total} answers {counts.sent} were rated by this try and {counts.already_sent} before, "
                    f"{counts.failed} ratings failed, no rule holds for {rated.not_rated}, and {rated.not_answered} "
                    "have no answer"
                )
                self.log.info("Site %r: %s.", site_id, summary)
        if counts.failed and self._rater.is_final:
            raise AssistantIncompletePermanentError(
                f"The service refused {counts.failed} ratings ({summary}). It would refuse them again. Findings: "
                f"{findings.listed}."
            )
        if counts.failed:
            raise AssistantIncompleteError(
                f"{counts.failed} ratings were not sent ({summary}). A retry sends those and no others. Findings: "
                f"{findings.listed}."
            )
        warn_of_findings(findings.listed, findings.count)
        return {
            "rows": rated.total,
            **counts.as_dict(),
            "not_rated": rated.not_rated,
            "not_answered": rated.not_answered,
            "site_id": site_id,
            "findings": findings.listed,
        }


def _table(path: Any, field: str) -> pa.Table:
    """
    Read a Parquet file.

    :raises AssistantInputError: The file does not exist or is not a Parquet file.
    """
    import pyarrow.parquet as pq

    try:
        with storage_path(path).open("rb") as file:
            return pq.read_table(file)
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:
        raise AssistantInputError(
            f"{field} must be a Parquet file, but {path} cannot be read as one: {error}. Nothing was sent.",
            field=field,
        ) from error
