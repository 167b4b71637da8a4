"""The operator that rates many answers by rules on their scores (``POST …/chat/feedback``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api.ratings import check_rating
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantIncompleteError,
    AssistantIncompletePermanentError,
    AssistantInputError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_ledger import open_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.ledger import RunRef, Scope
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.runs import findings_file, warn_of_findings
from airflow_provider_assistant.storage.paths import storage_path
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.feedback.rules import Ratings
    from airflow_provider_assistant.feedback.sender import FeedbackSender, RatingCounts


class AssistantRateAnswersOperator(AssistantOperator):
    """
    Rate many answers by rules on their scores (``POST …/chat/feedback``), each answer once.

    The API cannot return feedback, so the operator records in the ledger what it sent. It does not send a rating that
    is already the latest one of its request. It sends a rating again if the last attempt is ambiguous.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/evaluate/feedback`

    :param answers: Parquet file that
        :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` wrote: a local path or an
        object storage URL.
    :param scores: ``scores.parquet`` of the evaluation of these answers: a local path or an object storage URL.
    :param rules: Mapping from a rating, ``good``, ``bad`` or another word in ``rating_words`` of the
        connection, to a condition on the scores: ``{"good": "token_f1 >= 0.8", "bad":
        "token_f1 < 0.3"}``. An answer gets the rating of the first condition that holds; if none holds, it is not
        rated.
    :param key_columns: Column or columns that identify a question, as in the evaluation. Default: ``key``.
    :param max_concurrency: Maximum number of ratings in flight. Default: that of the connection.
    :param ledger: Whether to use the ledger. Default: True. Without it, a retry sends all ratings again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "answers",
        "scores",
        "rules",
        "key_columns",
        "ledger_conn_id",
    )

    parameter_checks: ClassVar[Checks] = {
        "answers": parameters.path,
        "scores": parameters.path,
        "rules": parameters.text_map,
        "key_columns": parameters.names,
        "max_concurrency": parameters.concurrency,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
    }

    # State of the current try.
    _sender: FeedbackSender | None = None
    _findings: FindingsFile | None = None

    def __init__(
        self,
        *,
        answers: str,
        scores: str,
        rules: Mapping[str, str],
        key_columns: str | Sequence[str] = "key",
        max_concurrency: int | None = None,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.answers = answers
        self.scores = scores
        self.rules = rules
        self.key_columns = key_columns
        self.max_concurrency = max_concurrency
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the ratings that were not sent before.

        :param context: Airflow's task context.
        :return: The counts ``rows = sent + already_sent + repeated + not_rated + not_answered + failed``;
            ``by_rating``, the number of answers per rating; ``possibly_duplicated``; ``site_id``; and
            ``findings``, the path of the findings or None if there are none.
        :raises AssistantInputError: The files or the rules are invalid, and nothing was sent.
        :raises AssistantIncompleteError: Ratings could not be sent. A retry sends those and no others.
        :raises AssistantIncompletePermanentError: The service rejected every rating that failed. Airflow does not retry
            the task.
        :raises AssistantLedgerError: The ledger cannot be used.
        :raises AssistantError: Any other error, see :func:`airflow_provider_assistant.api.flow.perform`.
        """
        check_rendered(self, context)
        from airflow_provider_assistant.evaluation.cases import read_cases
        from airflow_provider_assistant.feedback.rules import rate
        from airflow_provider_assistant.feedback.sender import FeedbackSender

        for word in self.rules:
            check_rating(word, self.hook.settings.client.rating_words, field="rules")
        answers = _table(self.answers, "answers")
        cases = read_cases(answers, key_columns=self.key_columns)
        scores = _table(self.scores, "scores")
        rated = rate(cases, scores, self.rules)
        site_id = self.hook.resolve_site_id()
        run = RunRef.of(context)
        findings_of_run = FindingsFile(findings_file(run), always=False, dag_id=run.dag_id)
        scope = Scope(self.hook.site(), "rating")
        source = task_name(run.dag_id, run.task_id)
        with (
            open_ledger(self) as ledger,
            ledger.of(scope, source, run) as ratings,
            findings_of_run as findings,
        ):
            self._findings = findings
            self._sender = FeedbackSender(
                self.hook.client_settings(self.max_concurrency),
                site_id=site_id,
                ledger=ratings,
                findings=findings,
            )
            try:
                self._sender.send(rated.ratings)
            finally:
                counts = self._sender.counts
                summary = _summary(rated, counts)
                self.log.info("Site %r: %s.", site_id, summary)
        if counts.failed and self._sender.is_final:
            raise AssistantIncompletePermanentError(
                f"The service refused {counted(counts.failed, 'rating')} ({summary})",
                todo=f"It would refuse them again: read the reasons. Findings: {findings.listed}.",
            )
        if counts.failed:
            raise AssistantIncompleteError(
                f"Not sent: {counted(counts.failed, 'rating')} ({summary})",
                todo=f"A retry sends those and no others. Findings: {findings.listed}.",
            )
        warn_of_findings(findings.listed, findings.count)
        result = {
            "rows": rated.total,
            **counts.as_dict(),
            "not_rated": rated.not_rated,
            "not_answered": rated.not_answered,
            "site_id": site_id,
            "findings": findings.listed,
        }
        return self.emit_asset_events(context, result)

    def written_assets(self) -> Sequence[str]:
        """Return the URI of the site's feedback, which has no name in lineage."""
        return [self.asset_uri("feedback")]

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the answers and the counts of this try, for the log lines of a failure."""
        doing = f"ratings of {self.answers} on {self.hook.location()}"
        if not self._sender:
            return FailureContext(doing)
        counts = self._sender.counts
        safe = f"Ratings: {counts.sent} sent by this try, {counts.already_sent} before, {counts.failed} left."
        findings = None
        if self._findings:
            findings = self._findings.listed
        return FailureContext(doing, safe, findings)

    def on_kill(self) -> None:
        """Stop sending. Requests in flight may still finish."""
        if self._sender:
            self._sender.cancel()


def _summary(rated: Ratings, counts: RatingCounts) -> str:
    """Return a text with the number of questions for each outcome."""
    numbers = {
        "rated by this try": counts.sent,
        "rated before": counts.already_sent,
        "not accepted because of an earlier rating": counts.repeated,
        "failed": counts.failed,
        "without a rule that holds": rated.not_rated,
        "without an answer": rated.not_answered,
    }
    parts = [f"{number:,} {what}" for what, number in numbers.items() if number]
    return f"{counted(rated.total, 'question')}: {', '.join(parts)}"


def _table(path: Any, field: str) -> pa.Table:
    """
    Read a Parquet file.

    :raises AssistantInputError: The file does not exist or is not a Parquet file.
    """
    import pyarrow.parquet as pq

    try:
        with storage_path(path).open("rb") as file:
            return pq.ParquetFile(file).read()
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:
        raise AssistantInputError(
            f"{field} must be a Parquet file, but {path} cannot be read as one: {error}",
            safe=NOTHING_SENT,
            field=field,
        ) from error
