"""The operator that rates many answers by rules on their scores (``POST …/chat/feedback``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api.ratings import check_rating
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantBadRequestError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantNotFoundError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.feedback.ratings import outcome_of_rating
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from airflow_provider_assistant.operators.message import AssistantLedgerOperator
from airflow_provider_assistant.operators.runs import findings_file, warn_of_findings
from airflow_provider_assistant.operators.tries import note_result, recorded_as
from airflow_provider_assistant.sending.batch import Batch
from airflow_provider_assistant.storage.opening import storage_path
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.feedback.counts import RatingCounts


class AssistantRateAnswersOperator(AssistantLedgerOperator):
    """
    Rate many answers by rules on their scores (``POST …/chat/feedback``), each answer once.

    The ledger decides which ratings are sent again, as for
    :class:`~airflow_provider_assistant.operators.feedback.AssistantFeedbackOperator`.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/evaluate/feedback`

    :param answers: Parquet file that
        :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` wrote: a local path or an
        object storage URL.
    :param scores: ``scores.parquet`` of the evaluation of these answers: a local path or an object storage URL.
    :param rules: Mapping from a rating, ``good`` or ``bad``, to a condition on the scores, such as ``{"good":
        "token_f1 >= 0.8", "bad": "token_f1 < 0.3"}``. An answer gets the rating of the first condition that holds; if
        none holds, it is not rated.
    :param max_concurrency: Maximum number of ratings in flight. Default: that of the connection.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantLedgerOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLedgerOperator.template_fields, "answers", "scores", "rules")

    # State of the current try.
    _findings: FindingsFile | None = None
    _counts: RatingCounts

    def __init__(
        self,
        *,
        answers: str,
        scores: str,
        rules: Mapping[str, str],
        max_concurrency: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.answers = answers
        self.scores = scores
        self.rules = rules
        self.max_concurrency = max_concurrency
        check_given(self)

    @explained
    @recorded_as("rating")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Send the ratings that were not sent before.

        :return: The counts ``rows = sent + already_sent + repeated + not_rated + not_answered + failed``;
            ``by_rating``, the number of answers per rating; ``possibly_duplicated``; ``site_id``; and
            ``findings``, the path of the findings or None if there are none.
        :raises AssistantInputError: The files or the rules are invalid, and nothing was sent.
        :raises AssistantIncompleteError: Ratings could not be sent. A retry sends those and no others.
            If the service rejected every rating that failed, Airflow does not retry the task.
        :raises AssistantLedgerError: The ledger cannot be used.
        :raises AssistantError: Any other error.
        """
        from airflow_provider_assistant.feedback.rules import rate

        self._findings = None
        site_id = self.hook.resolve_site_id()
        for word in self.rules:
            check_rating(word, field="rules")
        rated = rate(_table(self.answers, "answers"), _table(self.scores, "scores"), self.rules)
        self._counts = counts = rated.counts
        run = RunRef.of(context)
        with (
            self._attempts(context, "rating") as (_, ledger),
            FindingsFile(findings_file(run), always=False, dag_id=run.dag_id) as findings,
        ):
            self._findings = findings
            for key, reason in rated.left_out:
                findings.add(Finding("skipped", key, f"not rated: {reason}"))
            self._batch = batch = Batch(
                ledger,
                self.hook.client_settings(self.max_concurrency),
                outcome_of=outcome_of_rating,
                # A 404 may mean that the service does not know one request.
                refusals=(AssistantBadRequestError, AssistantNotFoundError),
            )
            try:
                batch.send(counts.items(rated.ratings, ledger, site_id))
            finally:
                for finding in filter(None, map(counts.add, batch.results)):
                    findings.add(finding)
                self.log.info("Site %r: %s.", site_id, counts)
            result = {**counts.as_dict(), "site_id": site_id, "findings": findings.listed}
            note_result(self, result)
            _raise_failure(batch, counts, findings.listed)
        warn_of_findings(findings.listed, findings.count)
        return self.emit_asset_events(context, result)

    def written_assets(self) -> Sequence[str]:
        """Return the URI of the site's feedback, which has no name in lineage."""
        return [self.asset_uri("feedback")]

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the answers and the counts of this try, for the log lines of a failure."""
        doing = f"ratings of {self.answers} on {self.hook.location()}"
        if not self._findings:
            return FailureContext(doing)
        number = self._counts.outcomes
        safe = f"Ratings: {number['sent']} sent by this try, {number['already_sent']} before, {number['failed']} left."
        return FailureContext(doing, safe, self._findings.listed)


def _raise_failure(batch: Batch, counts: RatingCounts, findings: str | None) -> None:
    """Raise the error of a run that left ratings unsent; return if it left none."""
    breaker = batch.breaker
    if breaker.error and breaker.is_fatal(breaker.error):
        # Such as a missing permission, which concerns every rating.
        raise breaker.error
    if breaker.error:
        raise AssistantIncompleteError(
            f"{counted(breaker.failures, 'rating')} in a row could not be sent, the others were not tried: "
            f"{breaker.error.happened}",
            todo=breaker.error.todo,
        )
    failed = counts.outcomes["failed"]
    if not failed:
        return
    refused = [result for result in batch.results if result.reply is None and result.outcome.state == "rejected"]
    if len(refused) == failed:
        raise AssistantIncompleteError(
            f"The service refused {counted(failed, 'rating')} ({counts})",
            retryable=False,
            todo=f"It would refuse them again: read the reasons. Findings: {findings}.",
        )
    raise AssistantIncompleteError(
        f"Not sent: {counted(failed, 'rating')} ({counts})",
        todo=f"A retry sends those and no others. Findings: {findings}.",
    )


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
