"""The operator that runs a chat batch: many questions in one task."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, get_args

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake, parameters
from airflow_provider_assistant.chat_batch import answers
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_ledger import open_ledger
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import RunRef, Scope, key_of
from airflow_provider_assistant.loading.options import OnAmbiguous
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset, table_at
from airflow_provider_assistant.operators.batch_counts import batch_failure, batch_summary
from airflow_provider_assistant.operators.datasets import publish_run
from airflow_provider_assistant.operators.links import AssistantDataLink
from airflow_provider_assistant.operators.runs import check_own_path, warn_of_findings
from airflow_provider_assistant.operators.source import AssistantSourceOperator
from airflow_provider_assistant.storage.paths import object_storage_path, writable_file
from airflow_provider_assistant.tables import Columns
from airflow_provider_assistant.tables.untemplated import Untemplated
from airflow_provider_assistant.tables.whole import table_of
from airflow_provider_assistant.texts import counted, no_poll_since
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger, deadline_of
from airflow_provider_assistant.triggers.deferral import defer, is_deferrable, restore_attributes
from airflow_provider_assistant.triggers.events import raise_failure

if TYPE_CHECKING:
    from airflow_provider_assistant.chat_batch.batch import ChatBatch
    from airflow_provider_assistant.chat_batch.questions import Questions
    from airflow_provider_assistant.chat_batch.requests import Mode


class AssistantChatBatchOperator(AssistantSourceOperator):
    """
    Ask many questions in one task, each once, and write the answers to one Parquet file.

    In ``async`` mode the task submits all questions (``POST …/chat/async``), and one trigger polls all requests
    (``GET …/chat/requests/{request_id}``). The operator records every submission in the ledger before it sends it, and
    saves every answer when it arrives: a retry, a cleared task or a restarted triggerer continues with the submitted
    requests and asks only the remaining questions. A later try also submits questions again whose request failed or was
    lost.

    The file has one row per question and repetition, in the order of the source. Its columns are ``key``,
    ``repetition``, ``turn``, ``message``,
    ``answer``, ``status``, ``error``, ``request_id``, ``session_id``, ``submitted_at``,
    ``completed_at``, ``seconds``, ``seconds_source``, ``seconds_error``, ``noticed_after``,
    ``confidence_level``, ``confidence_score``, ``polls``, ``attempts``, ``raw`` (the last reply as
    JSON), and all other columns of the source.
    ``status`` is ``complete``, ``failed``, ``timed_out`` (not finished before the deadline), ``lost`` (the service no
    longer knows the request) or ``not_submitted``. ``seconds`` is the latency of the service. Its
    ``seconds_source`` is ``service`` if the replies have timestamps. Otherwise it is ``measured``, by the
    round trip in ``sync`` mode or by the polls; the service may then have been faster, by up to
    ``seconds_error``. The latency is null if no poll came close to the end of the request.
    ``noticed_after`` is the time in seconds from submission to the poll that found the request
    finished; it depends on ``poll_interval``. The operator writes the file even if the task fails.

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
    :param session: ``per_row``: one session per question; ``shared``: one session for all questions, in no
        defined order; or the name of a column with session ids. Default: the column ``session_id`` if the source has
        it, otherwise ``per_row``.
    :param close_sessions: Which sessions to close after their questions have finished
        (``POST …/chat/session/close``). None (default): those that this task created; True: also those that the source
        names, each once all its questions have answers; False: none. A closed session takes no more messages: later
        tries use new sessions, and reject a row whose session the source names and an earlier try closed.
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
    :param reuse: Whether a cleared task continues with the requests and answers of its earlier run. A retry always
        does. Default: True.
    :param lake_path: Folder of the datasets. If set, the operator also writes the answers to the dataset ``answers``.
        Default: None.
    :param ledger: Whether to record the submissions in the ledger. Default: True. Without the ledger, a retry asks all
        questions again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.source.AssistantSourceOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantSourceOperator.template_fields,
        "output_path",
        "session",
        "lake_path",
        "ledger_conn_id",
    )
    parameter_checks: ClassVar[Checks] = {
        "output_path": parameters.path,
        "mode": parameters.choice("async", "sync"),
        "session": parameters.text,
        "close_sessions": parameters.flag,
        "on_ambiguous": parameters.choice(*get_args(OnAmbiguous)),
        "repeat": parameters.count,
        "turn": parameters.text,
        "deferrable": parameters.flag,
        "timeout": parameters.seconds,
        "poll_interval": parameters.interval,
        "max_concurrency": parameters.concurrency,
        "max_failed": parameters.tolerated,
        "reuse": parameters.flag,
        "lake_path": parameters.folder,
        "ledger": parameters.flag,
        "ledger_conn_id": parameters.text,
    }
    operator_extra_links = (AssistantDataLink(),)

    # State of the current try.
    _batch: ChatBatch | None = None
    _result: Mapping[str, Any] | None = None
    # What a deferred task had submitted, as a sentence; empty if it was not deferred.
    submitted_before = ""

    def __init__(
        self,
        *,
        output_path: str,
        mode: Mode = "async",
        session: str | None = None,
        close_sessions: bool | None = None,
        on_ambiguous: OnAmbiguous = "retry",
        repeat: int = 1,
        turn: str | None = None,
        deferrable: bool | None = None,
        timeout: float | timedelta = 3600.0,
        poll_interval: float | timedelta = 20.0,
        max_concurrency: int | None = None,
        max_failed: float = 0,
        reuse: bool = True,
        lake_path: str | None = None,
        ledger: bool = True,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.mode = mode
        self.session = session
        self.close_sessions = close_sessions
        self.on_ambiguous = on_ambiguous
        self.repeat = repeat
        self.turn = turn
        self.deferrable = is_deferrable(deferrable)
        self.timeout: Any = timeout
        self.poll_interval: Any = poll_interval
        self.max_concurrency = max_concurrency
        self.max_failed = max_failed
        self.reuse = reuse
        self.lake_path = lake_path
        self.ledger = ledger
        self.ledger_conn_id = ledger_conn_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit the questions, wait for the answers, and write the file.

        :param context: Airflow's task context.
        :return: The counts ``rows = complete + failed + timed_out + lost + not_submitted``; ``rejected``, the rows that
            cannot be sent; ``ambiguous``, the questions that may have been asked and have no answer; ``submitted`` (by
            this try), ``reused`` (from an earlier try or an equal row) and
            ``possibly_duplicated``; ``seconds_p50``, ``seconds_p95``, ``seconds_p99`` and ``noticed_after_p50``,
            ``noticed_after_p95``, ``noticed_after_p99`` of the complete questions, None if not known;
            ``seconds_measured`` and ``seconds_unknown``, the complete questions whose latency was measured
            or is not known; ``low_confidence``, the answers with low confidence, None if not known;
            ``sessions_closed`` and ``sessions_not_closed``; ``site_id``; ``output_path``; and ``findings``, the path of
            the findings or None if there are none.
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
        check_rendered(self, context)
        if self.is_function and self.deferrable and self.turn is not None:
            self.source = _repeatable(self.source)
        with self._open_batch(context) as batch:
            return self._ask(batch, context, self._questions(context), turn=1)

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
        check_rendered(self, context)
        raise_failure(event)
        deadline = deadline_of(event)
        with self._open_batch(context) as batch:
            batch.unanswered_since = (event or {}).get("unanswered_since")
            if self.turn is not None:
                batch.collect(interval=self.poll_interval, deadline=deadline)
                saved_source = batch.state.read_source()
                if saved_source is not None:
                    self.source = saved_source
                questions = self._questions(context)
                submitted_turn = batch.submitted_turn()
                if submitted_turn < questions.last_turn:
                    return self._ask(batch, context, questions, turn=submitted_turn + 1)
            return self._finish(batch, context, deadline)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the target and the counts of this try, for the log lines of a failure."""
        doing = f"chat batch to {self.output_path} on {self.hook.location()}"
        result = self._result
        if result:
            counts = f"{result['complete']} of {counted(result['rows'], 'question')}"
            answered = f"Answered: {counts}, in {self.output_path}."
            if result["timed_out"]:
                answered += f" Still open: {counted(result['timed_out'], 'request')}"
                if self._batch and self._batch.unanswered_since is not None:
                    answered += f"; {no_poll_since(self._batch.unanswered_since)}"
                answered += "."
            return FailureContext(doing, safe=answered, findings=result["findings"])
        return FailureContext(doing, safe=self._submitted_questions())

    def _submitted_questions(self) -> str:
        """Return how many questions were submitted, for a message; before the deferral if there was one."""
        load_counts = None
        if self._batch:
            load_counts = self._batch.counts
        if not load_counts:
            return self.submitted_before
        questions = f"{load_counts.created} of {counted(load_counts.rows, 'question')}"
        submitted = f"This try submitted {questions}"
        if self.ledger:
            if load_counts.unchanged:
                submitted += f", and earlier tries {load_counts.unchanged}"
            submitted += "; a retry continues to wait for the answers"
            unrecorded = self._batch.unrecorded if self._batch else 0
            # In sync mode, the answers came with the replies and are saved.
            if unrecorded and self.mode == "async":
                plan = "asks them again" if self.on_ambiguous == "retry" else "does not ask them again"
                submitted += f". The ledger could not record {unrecorded} of them: a retry {plan}"
        return f"{submitted}."

    def on_kill(self) -> None:
        """Stop sending. The next try continues with the open requests."""
        if self._batch:
            self._batch.end()

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files with the questions, and the chat asset of the site."""
        return [*super().lineage_inputs(), LineageDataset(self.asset_uri("chat"))]

    def _questions(self, context: Context) -> Questions:
        from airflow_provider_assistant.chat_batch.question_reading import read_questions

        return read_questions(
            self.source,
            columns=self.columns,
            constants=self.constants,
            key_columns=key_names(self.key_columns),
            session=self.session,
            scope=self._scope(context),
            repeat=self.repeat,
            turn=self.turn,
            allowed_root=self.allowed_root,
            csv_options=self.csv_options,
            allow_empty=self.allow_empty,
        )

    def _ask(self, batch: ChatBatch, context: Context, questions: Questions, *, turn: int) -> dict[str, Any]:
        """
        Submit a turn and the turns after it, and return the result.

        A trigger must not create anything. So the worker submits a turn and defers; the trigger polls its answers; and
        the task resumes on a worker, which submits the next turn.
        """
        while True:
            batch.submit(questions, turn)
            deadline = time.time() + self.timeout
            open_count = 0
            if self.deferrable:
                open_count = len(batch.state.read_open())
            if open_count:
                self.log.info(
                    "Deferring: the triggerer polls %s for at most %.0f s.",
                    counted(open_count, "request"),
                    self.timeout,
                )
                # The function must not be called again for the next turn.
                if self.is_function and turn < questions.last_turn:
                    self._keep_source(batch)
                # This raises TaskDeferred.
                self._defer(batch, deadline)
            if turn >= questions.last_turn:
                return self._finish(batch, context, deadline)
            batch.collect(interval=self.poll_interval, deadline=deadline)
            turn += 1

    @contextlib.contextmanager
    def _open_batch(self, context: Context) -> Iterator[ChatBatch]:
        from airflow_provider_assistant.chat_batch.batch import ChatBatch

        site_id = self.hook.resolve_site_id()
        scope = self._scope(context)
        run = RunRef.of(context)
        check_own_path(self, context, "output_path")
        answers.check_owner(writable_file(self.output_path, "output_path"), run)
        with contextlib.ExitStack() as stack:
            ledger = stack.enter_context(open_ledger(self))
            # Sync and async requests of a question are two things: an answer of one is none of the other.
            ledger_scope = Scope(self.hook.site(), "chat", key_of(scope, self.mode))
            attempts = stack.enter_context(ledger.of(ledger_scope, task_name(run.dag_id, run.task_id), run))
            self._batch = ChatBatch(
                self.hook.client_settings(self.max_concurrency),
                site_id=site_id,
                mode=self.mode,
                output=object_storage_path(self.output_path),
                scope=scope,
                ledger=ledger,
                attempts=attempts,
                on_ambiguous=self.on_ambiguous,
                dag_id=run.dag_id,
            )
            yield self._batch

    def _scope(self, context: Context) -> str:
        """Return the scope of the questions' keys. Airflow increases ``max_tries`` when a task is cleared."""
        run = str(RunRef.of(context))
        return run if self.reuse else f"{run}#{context['ti'].max_tries}"

    def _defer(self, batch: ChatBatch, deadline: float) -> NoReturn:
        site_id = self.hook.resolve_site_id()
        trigger = AssistantChatBatchTrigger(
            assistant_conn_id=self.assistant_conn_id,
            site_id=site_id,
            folder=str(batch.state.folder),
            deadline=deadline,
            poll_interval=self.poll_interval,
            max_concurrency=self.hook.client_settings(self.max_concurrency).max_concurrency,
            rendered={
                "assistant_conn_id": self.assistant_conn_id,
                "tenant_id": self.tenant_id,
                "site_id": site_id,
                "output_path": str(self.output_path),
                "lake_path": self.lake_path,
                "ledger_conn_id": self.ledger_conn_id,
                "submitted_before": self._submitted_questions(),
            },
        )
        defer(self, trigger, now=deadline - self.timeout)

    def _keep_source(self, batch: ChatBatch) -> None:
        """Save the rows of a function, which may return others when it is called for the next turn."""
        try:
            batch.state.write_source(table_of(self._source_rows(Columns(rest=True))))
        except AssistantInputError as error:
            self.log.warning("The questions cannot be kept: %s. The function will be called again.", error)

    def _finish(self, batch: ChatBatch, context: Context, deadline: float) -> dict[str, Any]:
        """Wait for the answers, write them, and return the result."""
        if batch.unanswered_since is None:
            # The triggerer has waited for a reply already.
            batch.collect(interval=self.poll_interval, deadline=deadline)
        table = batch.table()
        may_close = self.close_sessions
        if may_close is None:
            may_close = answers.has_own_sessions(table)
        closed = not_closed = 0
        if may_close:
            closed, not_closed = batch.close_sessions(table)
        site = self.hook.site().columns()
        # Again: another instance may have written it meanwhile.
        answers.check_owner(object_storage_path(self.output_path), RunRef.of(context))
        batch.publish(table, site)
        self.lineage_outputs = (table_at(self.output_path, table),)
        if self.lake_path is not None:
            common = {**site, "kind": "batch", "name": self.task_id}
            rows = [{**common, **row} for row in answers.rows_of_dataset(table)]
            publish_run(self, context, rows, self.lake_path, lake.ANSWERS)
        result = {
            **answers.counts(table),
            "sessions_closed": closed,
            "sessions_not_closed": not_closed,
            "site_id": self.hook.resolve_site_id(),
            "output_path": self.output_path,
        }
        self._result = result
        metrics.questions({status: result[status] for status in answers.STATUSES})
        self.log.info("Site %r, %s: %s.", result["site_id"], counted(result["rows"], "question"), batch_summary(result))
        failure = batch_failure(
            result,
            self.max_failed,
            self.on_ambiguous,
            has_ledger=self.ledger,
            unanswered_since=batch.unanswered_since,
            reason=answers.reason_of_stop(table),
        )
        if failure:
            raise failure
        warn_of_findings(result["findings"])
        return self.emit_asset_events(context, result)


def _repeatable(source: Any) -> Any:
    """Return the rows of a function so that they can be read twice."""
    rows = source.value if isinstance(source, Untemplated) else source
    if callable(rows) and not hasattr(rows, "__arrow_c_stream__"):
        rows = rows()
    if isinstance(rows, Iterator):
        return list(rows)
    return rows
