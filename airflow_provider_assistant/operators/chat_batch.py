"""The operator that runs a chat batch: many questions in one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.asking.answers import STATUSES, check_owner, reason_of_stop, rows_of_dataset
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.loading.options import OnAmbiguous
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset, table_at
from airflow_provider_assistant.operators.batch_counts import batch_failure, batch_summary
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.links import AssistantDataLink
from airflow_provider_assistant.operators.runs import check_own_path, warn_of_findings
from airflow_provider_assistant.operators.source import AssistantSourceOperator
from airflow_provider_assistant.operators.tries import note_result, recorded_as
from airflow_provider_assistant.storage.opening import object_storage_path, writable_parquet_file
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers import events
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger
from airflow_provider_assistant.triggers.deferral import defer, is_deferrable, restore_attributes
from airflow_provider_assistant.triggers.events import raise_failure

if TYPE_CHECKING:
    from airflow_provider_assistant.asking.batch import Batch
    from airflow_provider_assistant.asking.job import Mode


class AssistantChatBatchOperator(AssistantSourceOperator):
    """
    Ask many questions in one task, each once, and write the answers to one Parquet file.

    In ``async`` mode the task submits the questions (``POST …/chat/async``) and polls their requests
    (``GET …/chat/requests/{request_id}``), those that are left in one trigger if it defers. The operator records every
    submission in the ledger before it sends it, and saves every answer when it arrives: a retry, a cleared task or a
    restarted triggerer continues with the submitted requests and asks only the remaining questions. A later try also
    submits questions again whose request failed or was lost.

    The file has one row per question and repetition, with the columns of the source and those of the reference's
    section "What is in the file". The operator writes it even if the task fails.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/ask/chat-batch`

    The column ``message`` of the source is required; ``session_id``, ``email`` and ``response_language`` are optional.
    Without ``key_columns``, the message identifies a question.

    :param output_path: The Parquet file to write: a local path or an object storage URL that both worker and triggerer
        can reach. An existing file is replaced.
    :param repeat: Number of times to ask each question, each time in a session of its own. Default: 1.
    :param turn: Name of the column with the number of each question within its conversation. ``session`` is then the
        column with the conversation. The questions of a conversation are asked in order in a new session, each after
        the answer to the one before; if one gets no answer, the later ones are not asked. Default: None, the questions
        do not depend on each other.
    :param mode: ``async`` (default) submits the questions and polls for the answers; ``sync`` gets each answer in the
        round trip of its question (``POST …/chat``).
    :param session: Name of a column with session ids. Default: ``session_id`` if the source has it; otherwise each
        question gets its own session, which is closed when the question has ended.
    :param on_ambiguous: What to do with a question that may have been asked although no usable reply came back, or
        whose answer was lost with a killed worker. ``retry`` (default) asks it again: after a 5xx status or a broken
        connection at once, up to the connection's ``retries``; after a ``POST …/chat`` that timed out, only in a retry
        of the task, because the service may still be answering. ``skip`` never asks it again. Each such question
        is listed in the findings.
    :param deferrable: Whether to wait in the triggerer instead of on the worker. Default: Airflow's
        ``[operators] default_deferrable``.
    :param timeout: Longest wait for answers after all questions have been submitted, in seconds or as a timedelta; with
        ``turn``, for each turn. Default: 3600.
    :param poll_interval: Longest time between two polls of one request, in seconds or as a timedelta. Default: 20.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection, which is also the
        upper limit in the triggerer.
    :param max_failed: Number of questions without an answer that the task tolerates: a count, or a fraction below 1.
        Default: 0.
    :param lake_path: Folder of the datasets. If set, the operator also writes the answers to the dataset ``answers``.
        Default: None.
    The other parameters are those of :class:`~airflow_provider_assistant.operators.source.AssistantSourceOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantSourceOperator.template_fields,
        "output_path",
        "session",
        "lake_path",
    )
    parameter_checks: ClassVar[Checks] = {
        "output_path": parameters.path,
        "mode": parameters.choice("async", "sync"),
    }
    operator_extra_links = (AssistantDataLink(),)

    # State of the current try.
    _batch: Batch | None = None
    _result: Mapping[str, Any] | None = None
    # What a deferred task had submitted, as a sentence; empty if it was not deferred.
    submitted_before = ""

    def __init__(
        self,
        *,
        output_path: str,
        mode: Mode = "async",
        session: str | None = None,
        on_ambiguous: OnAmbiguous = "retry",
        repeat: int = 1,
        turn: str | None = None,
        deferrable: bool | None = None,
        timeout: float | timedelta = 3600.0,
        poll_interval: float | timedelta = 20.0,
        max_concurrency: int | None = None,
        max_failed: float = 0,
        lake_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.mode = mode
        self.session = session
        self.on_ambiguous = on_ambiguous
        self.repeat = repeat
        self.turn = turn
        self.deferrable = is_deferrable(deferrable)
        self.timeout: Any = timeout
        self.poll_interval: Any = poll_interval
        self.max_concurrency = max_concurrency
        self.max_failed = max_failed
        self.lake_path = lake_path
        check_given(self)

    @explained
    @recorded_as("chat_batch")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit the questions, wait for the answers, and write the file.

        :param context: Airflow's task context.
        :return: The counts ``rows = complete + failed + timed_out + lost + not_submitted``; ``rejected``, the rows that
            cannot be sent; ``ambiguous``, the questions that may have been asked and have no answer; ``submitted`` (by
            this try), ``reused`` (from an earlier try or an equal row) and ``possibly_duplicated`` (by any try);
            ``seconds_p50``, ``seconds_p95`` and ``seconds_p99`` of the complete questions, None if there are none;
            ``without_text``, the complete questions whose answer is empty; ``low_confidence``, the answers with low
            confidence, None if not known; ``sessions_closed`` and ``sessions_not_closed``; ``site_id``;
            ``output_path``; and ``findings``, the path of the findings or None if there are none.
        :raises AssistantInputError: The source cannot be read, and nothing was sent; or more than ``max_failed`` rows
            were rejected, and all others are answered. Airflow does not retry the task.
        :raises AssistantRequestFailedError: More than ``max_failed`` questions have no answer, most of them because
            their request failed.
        :raises AssistantRequestTimeoutError: The same, most of them because their request did not finish in time.
        :raises AssistantRequestLostError: The same, most of them because the service no longer knows their request.
        :raises AssistantIncompleteError: The same, most of them because they could not be submitted.
        :raises AssistantAPIError: The service answered 401, 403, 404 or 405, which stopped the task at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        return self._ask(context)

    @explained
    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Write the answers after a deferral.

        :param context: Airflow's task context.
        :param event: The trigger's event.
        :return: The same as :meth:`execute`.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        restore_attributes(self, event)
        return self._resume(context, event)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the target and the counts of this try, for the log lines of a failure."""
        doing = f"chat batch to {self.output_path} on {self.hook.location()}"
        result = self._result
        if result:
            counts = f"{result['complete']} of {counted(result['rows'], 'question')}"
            answered = f"Answered: {counts}, in {self.output_path}."
            if result["timed_out"]:
                answered += f" Still open: {counted(result['timed_out'], 'request')}"
                if self._batch and self._batch.silence:
                    answered += f"; {self._batch.silence}"
                answered += "."
            return FailureContext(doing, safe=answered, findings=result["findings"])
        return FailureContext(doing, safe=self._submitted_questions())

    def _submitted_questions(self) -> str:
        """Return how many questions were submitted, for a message; before the deferral if there was one."""
        batch = self._batch
        if not batch:
            return self.submitted_before
        submitted = [answer for answer in batch.answers.values() if answer.status != "not_submitted"]
        new = sum(not answer.is_reused for answer in submitted)
        text = f"This try submitted {new} of {counted(batch.size, 'question')}"
        if earlier := len(submitted) - new:
            text += f", and earlier tries {earlier}"
        text += "; a retry continues to wait for the answers"
        # In sync mode, the answers came with the replies and are saved.
        if batch.unrecorded and self.mode == "async":
            plan = "asks them again" if self.on_ambiguous == "retry" else "does not ask them again"
            text += f". The ledger could not record {batch.unrecorded} of them: a retry {plan}"
        return f"{text}."

    def on_kill(self) -> None:
        """Stop sending. The next try continues with the open requests."""
        if self._batch:
            self._batch.end()

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files with the questions, and the chat asset of the site."""
        return [*super().lineage_inputs(), LineageDataset(self.asset_uri("chat"))]

    @recorded_as("chat_batch")
    def _resume(self, context: Context, event: Mapping[str, Any] | None) -> dict[str, Any]:
        raise_failure(event)
        return self._ask(context, event or {})

    def _ask(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Ask what is left, and return the result.

        A trigger must not create anything. So the worker sends a turn and defers; the trigger polls its answers; and
        the task resumes on a worker, which sends the next turn.

        :param event: The trigger's event, if the task was deferred.
        """
        from airflow_provider_assistant.asking.batch import Batch
        from airflow_provider_assistant.asking.job import AskJob
        from airflow_provider_assistant.asking.questions import read_questions

        run = RunRef.of(context)
        check_own_path(self, context, "output_path")
        check_owner(writable_parquet_file(self.output_path, "output_path"), run)
        job = AskJob(
            settings=self.hook.client_settings(self.max_concurrency),
            site=self.hook.site(),
            output=object_storage_path(self.output_path),
            task=task_name(run.dag_id, run.task_id),
            run=run,
            scope=str(run),
            mode=self.mode,
            timeout=self.timeout,
            poll_interval=self.poll_interval,
            on_ambiguous=self.on_ambiguous,
        )
        with Ledger.open() as ledger:
            questions = None
            if event is None:
                questions = read_questions(
                    self.source,
                    columns=self.columns,
                    constants=self.constants,
                    key_columns=key_names(self.key_columns),
                    session=self.session,
                    repeat=self.repeat,
                    turn=self.turn,
                    allowed_root=self.allowed_root,
                    csv_options=self.csv_options,
                    allow_empty=self.allow_empty,
                )
            with Batch(job, ledger, questions).opened() as batch:
                self._batch = batch
                batch.silence = event.get("silence") if event else None
                if batch.run(waits=not self.deferrable):
                    self._defer(batch)
                # Again: another instance may have written it meanwhile.
                check_owner(job.output, run)
                return self._finish(batch, context)

    def _defer(self, batch: Batch) -> NoReturn:
        site_id = self.hook.resolve_site_id()
        now = self.hook.client.now()
        self.log.info(
            "Deferring: the triggerer polls %s for at most %.0f s.", counted(len(batch.open), "request"), self.timeout
        )
        trigger = AssistantChatBatchTrigger(
            assistant_conn_id=self.assistant_conn_id,
            site_id=site_id,
            folder=batch.folder,
            deadline=now + self.timeout,
            timeout=self.timeout,
            poll_interval=self.poll_interval,
            max_concurrency=self.hook.client_settings(self.max_concurrency).max_concurrency,
            not_before=now + events.SETTLING_SECONDS,
            rendered={
                "assistant_conn_id": self.assistant_conn_id,
                "tenant_id": self.tenant_id,
                "site_id": site_id,
                "output_path": str(self.output_path),
                "lake_path": self.lake_path,
                "submitted_before": self._submitted_questions(),
            },
        )
        defer(self, trigger, now=now)

    def _finish(self, batch: Batch, context: Context) -> dict[str, Any]:
        """Write the answers, and return the result of the batch, or raise the error that makes it fail."""
        table, counts = batch.finish()
        site = self.hook.site().columns()
        self.lineage_outputs = (table_at(self.output_path, table),)
        if self.lake_path is not None:
            common = {**site, "kind": "batch", "name": self.task_id}
            rows = [{**common, **row} for row in rows_of_dataset(table)]
            publish_run(self, context, rows, self.lake_path, datasets.ANSWERS)
        result = {**counts, "site_id": self.hook.resolve_site_id(), "output_path": self.output_path}
        self._result = result
        note_result(self, result)
        metrics.questions({status: result[status] for status in STATUSES})
        self.log.info("Site %r, %s: %s.", result["site_id"], counted(result["rows"], "question"), batch_summary(result))
        reason = reason_of_stop(table)
        failure = batch_failure(result, self.max_failed, self.on_ambiguous, silence=batch.silence, reason=reason)
        if failure:
            raise failure
        warn_of_findings(result["findings"])
        return self.emit_asset_events(context, result)
