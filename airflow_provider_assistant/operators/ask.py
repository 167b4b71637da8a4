"""The operator that asks many questions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import Context, ObjectStoragePath

from airflow_provider_assistant import metrics
from airflow_provider_assistant.asking import answers
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantIncompleteLoad,
    AssistantInputError,
    AssistantRequestFailed,
    AssistantRequestLost,
    AssistantRequestTimeout,
)
from airflow_provider_assistant.failures import Situation, explained
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import Ledger, RunRef, key_of, questions_scope
from airflow_provider_assistant.lineage import Data, table_at
from airflow_provider_assistant.loading.source import files_in
from airflow_provider_assistant.operators.base import AssistantOperator, SourceField, allowed, warn_of_findings
from airflow_provider_assistant.operators.links import AssistantDataLink
from airflow_provider_assistant.triggers.batch import AssistantChatBatchTrigger, deadline_of
from airflow_provider_assistant.triggers.events import raise_failure
from airflow_provider_assistant.waiting import DEFERRAL_GRACE, is_deferrable, restore

if TYPE_CHECKING:
    from airflow_provider_assistant.asking.batch import Batch, Mode


class AssistantAskOperator(AssistantOperator):
    """
    Ask many questions, each once, and write their answers to one Parquet file.

    In ``async`` mode all questions are submitted (``POST …/chat/async``), and one trigger polls all requests
    (``GET …/chat/requests/{request_id}``). Every submission is in the ledger before it is sent, and every answer is
    saved when it comes: a retry, a cleared task or a restarted triggerer takes up what was submitted, and asks only
    the rest. A later try also submits questions again whose request failed or was lost.

    The file has one row for every question, in the order of the source: ``key``, ``message``, ``answer``, ``status``,
    ``error``, ``request_id``, ``session_id``, ``submitted_at``, ``completed_at``, ``seconds``, ``noticed_after``,
    ``polls``, ``attempts``, ``raw`` (the last reply as JSON), and all other columns of the source as they are.
    ``seconds`` is how long the service took, by its own times or, in ``sync`` mode, by the round trip; it is empty
    where the replies have no times. ``noticed_after`` is the time until a poll noticed the end: it depends on
    ``poll_interval``. ``status`` is ``complete``; ``failed``; ``timed_out``: no end before the deadline; ``lost``: the
    service no longer knows the request; or ``not_submitted``. The file is written even if the task fails.

    :param source: A dataframe, rows, files, or a callable, as for
        :class:`~airflow_provider_assistant.operators.documents.AssistantLoadQAOperator`. It needs a column
        ``message``, and may have ``session_id``, ``email`` and ``response_language``.
    :param output_path: The Parquet file: a local path or an object storage URL that worker and triggerer can both
        reach. It is replaced.
    :param columns: Mapping from a field to its column, for columns whose name differs.
    :param constants: Mapping from a field to one value for all questions.
    :param key_columns: Columns that identify a question. Default: the message itself.
    :param csv_options: How CSV files are written: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param allow_empty: Whether a source without rows or files is a success with zero counts and a file without rows.
        By default it is an error.
    :param mode: ``async``, or ``sync``: each answer in the round trip of its question (``POST …/chat``).
    :param session: ``per_row``: a session for each question; ``shared``: one for all, in no certain order; or the
        column with session ids. Default: the column ``session_id`` if there is one, otherwise per row.
    :param close_sessions: Which sessions to close once their questions have ended (``POST …/chat/session/close``):
        None, the default, closes those that this task created; True also those that the source names, such as a
        customer's; False none.
    :param deferrable: Whether to wait in the triggerer. Default: Airflow's ``[operators] default_deferrable``.
    :param deadline: How long to wait for answers once all questions are submitted, in seconds or as a timedelta.
    :param poll_interval: Longest time between two polls of one request, in seconds.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection, which also limits it
        in the triggerer.
    :param max_failed: How many questions may have no answer, as a count or as a fraction below 1, before the task
        fails.
    :param root: Folder that all files of the source must lie in, once symbolic links are followed: a local path or an
        object storage URL. By default they may lie anywhere.
    :param reuse: Whether a cleared task takes up what an earlier run of it has asked. A retry always does.
    :param ledger: Whether to record in the ledger what was submitted. Without it, a retry asks everything again.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "source",
        "output_path",
        "columns",
        "constants",
        "key_columns",
        "csv_options",
        "session",
        "root",
    )
    operator_extra_links = (AssistantDataLink(),)
    source = SourceField()

    # Of the current try.
    _batch: Batch | None = None
    _result: Mapping[str, Any] | None = None

    def __init__(
        self,
        *,
        source: Any,
        output_path: str,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = (),
        csv_options: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        mode: Mode = "async",
        session: str | None = None,
        close_sessions: bool | None = None,
        deferrable: bool | None = None,
        deadline: float | timedelta = 3600.0,
        poll_interval: float = 20.0,
        max_concurrency: int | None = None,
        max_failed: float = 0,
        root: str | None = None,
        reuse: bool = True,
        ledger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if mode not in {"async", "sync"}:
            raise ValueError(f"mode must be 'async' or 'sync', not {mode!r}")
        if max_failed < 0:
            raise ValueError(f"max_failed must be a count or a fraction below 1, not {max_failed!r}")
        if poll_interval <= 0:
            raise ValueError(f"poll_interval must be more than 0 seconds, not {poll_interval!r}")
        self.source = source
        self.output_path = output_path
        self.columns = columns
        self.constants = constants
        self.key_columns = key_columns
        self.csv_options = csv_options
        self.allow_empty = allow_empty
        self.mode = mode
        self.session = session
        self.close_sessions = close_sessions
        self.deferrable = is_deferrable(deferrable)
        self.deadline = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
        self.poll_interval = poll_interval
        self.max_concurrency = max_concurrency
        self.max_failed = max_failed
        self.root = root
        self.reuse = reuse
        self.ledger = ledger

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Ask, wait, and write the answers.

        :return: ``rows = complete + failed + timed_out + lost + not_submitted``; of the submissions ``submitted`` by
            this try, ``reused`` from earlier ones or from a row that asks the same, and ``possibly_duplicated``;
            ``seconds_p50``, ``seconds_p95`` and ``seconds_p99`` of the complete; ``sessions_closed`` and
            ``sessions_not_closed``; ``output_path``; and ``findings``, the path of the list of submissions that a
            person should look at, None if there are none. The percentiles are None where the replies have no times.
        :raises AssistantInputError: The source as a whole cannot be asked, and nothing was sent; or rows are bad, and
            the others are answered. Airflow does not retry it.
        :raises AssistantRequestFailed: More than ``max_failed`` questions have no answer, most of them because their
            requests failed.
        :raises AssistantRequestTimeout: The same, because they did not end before the deadline.
        :raises AssistantRequestLost: The same, because the service no longer knows them.
        :raises AssistantIncompleteLoad: The same, because they could not be submitted.
        :raises AssistantAPIError: 401, 403, 404: the task stopped at once.
        :raises AssistantLedgerError: The ledger cannot be used.
        """
        from airflow_provider_assistant.asking.questions import read_questions

        with self._opened(context) as batch:
            questions = read_questions(
                self.source,
                columns=self.columns,
                constants=self.constants,
                key_columns=key_names(self.key_columns),
                session=self.session,
                scope=self._scope(context),
                root=self.root,
                csv_options=self.csv_options,
                allow_empty=self.allow_empty,
            )
            batch.submit(questions)
            deadline = time.time() + self.deadline
            if self.deferrable and (count := len(batch.journal.read_open())):
                self.log.info("The triggerer waits for %d requests, for at most %.0f s.", count, self.deadline)
                self._defer(batch, deadline)
            return self._finished(batch, context, deadline)

    @explained
    def resume(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what :meth:`execute` returns, or raise what it raises."""
        restore(self, event)
        raise_failure(event)
        with self._opened(context) as batch:
            return self._finished(batch, context, deadline_of(event))

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return what the batch was asking, with the counts of this try."""
        doing = f"chat batch to {self.output_path} on {self.place()}"
        if result := self._result:
            kept = f"{result['complete']} of {result['rows']} questions have their answer in {self.output_path}."
            waiting = f" {result['timed_out']} requests are open at the service." if result["timed_out"] else ""
            return Situation(doing, kept + waiting, result["findings"])
        if self._batch and (counts := self._batch.counts):
            kept = f"{counts.created} of {counts.rows} questions were submitted by this try"
            again = f" and {counts.unchanged} before; a retry takes them up." if self.ledger else "."
            return Situation(doing, kept + again)
        return Situation(doing)

    def on_kill(self) -> None:
        """Send nothing more; requests that are open stay open for the next try."""
        if self._batch:
            self._batch.end()

    def reads(self) -> Sequence[Data]:
        """Return the files of questions, and the site's chat."""
        return [*files_in(self.source), Data(self.asset_uri("chat"))]

    @contextlib.contextmanager
    def _opened(self, context: Context) -> Iterator[Batch]:
        from airflow_provider_assistant.asking.batch import Batch

        site_id, scope, run = self.hook.site(), self._scope(context), RunRef.of(context)
        settings = self.hook.settings.client
        with contextlib.ExitStack() as stack:
            ledger = stack.enter_context(Ledger.opened(self.ledger))
            memory = None
            if ledger:
                memory = ledger.questions(
                    scope=questions_scope(self.hook.target(), self.mode, key_of(scope)),
                    site_id=site_id,
                    source=f"{run.dag_id}.{run.task_id}",
                    run=run,
                )
                stack.enter_context(memory)
            self._batch = Batch(
                replace(settings, max_concurrency=self.max_concurrency or settings.max_concurrency),
                site_id=site_id,
                mode=self.mode,
                output=ObjectStoragePath(self.output_path),
                scope=scope,
                memory=memory,
            )
            yield self._batch

    def _scope(self, context: Context) -> str:
        """Return what the questions are asked for; Airflow raises ``max_tries`` when a task is cleared."""
        run = str(RunRef.of(context))
        return run if self.reuse else f"{run}#{context['ti'].max_tries}"

    def _defer(self, batch: Batch, deadline: float) -> NoReturn:
        site_id = self.hook.site()
        trigger = AssistantChatBatchTrigger(
            assistant_conn_id=self.assistant_conn_id,
            site_id=site_id,
            folder=str(batch.journal.folder),
            deadline=deadline,
            poll_interval=self.poll_interval,
            max_concurrency=self.max_concurrency or self.hook.settings.client.max_concurrency,
            rendered={
                "assistant_conn_id": self.assistant_conn_id,
                "site_id": site_id,
                "output_path": str(self.output_path),
            },
        )
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.deadline + DEFERRAL_GRACE))
        raise AssertionError("unreachable: defer() raises")

    def _finished(self, batch: Batch, context: Context, deadline: float) -> dict[str, Any]:
        batch.collect(interval=self.poll_interval, deadline=deadline)
        table = batch.table()
        is_closing = answers.has_own_sessions(table) if self.close_sessions is None else self.close_sessions
        closed, not_closed = batch.close_sessions(table) if is_closing else (0, 0)
        batch.publish(table)
        self.written = (table_at(self.output_path, table),)
        result = {
            **answers.counts(table),
            "sessions_closed": closed,
            "sessions_not_closed": not_closed,
            "site_id": self.hook.site(),
            "output_path": self.output_path,
        }
        self._result = result
        metrics.questions({status: result[status] for status in answers.STATUSES})
        self.log.info("Site %r, %d questions: %s.", result["site_id"], result["rows"], _summary(result))
        self._judge(result)
        warn_of_findings(result["findings"])
        return self.tell(context, result)

    def _judge(self, result: Mapping[str, Any]) -> None:
        """Fail the task for questions without an answer."""
        unanswered = result["rows"] - result["complete"]
        if unanswered <= allowed(self.max_failed, result["rows"]):
            return
        if unanswered == result["rejected"]:
            raise AssistantInputError(
                f"{unanswered} of {result['rows']} questions cannot be asked ({_summary(result)}), more than "
                f"max_failed={self.max_failed:g} allows. Fix these rows in the source and re-run the task; the reasons "
                f"are in {self.output_path}.",
                field="source",
            )
        plans = {
            "failed": "asks those again that failed",
            "lost": "asks those again that were lost",
            "timed_out": "waits for those that are open",
            "not_submitted": "submits the rest",
        }
        # A retry cannot fix rejected rows.
        found = {**result, "not_submitted": result["not_submitted"] - result["rejected"]}
        worst = max(plans, key=lambda status: found[status])
        does = " and ".join(plan for status, plan in plans.items() if found[status])
        retry = f"keeps the answers and {does}" if self.ledger else "asks everything again: it has no ledger"
        raise _ERRORS[worst](
            f"{unanswered} of {result['rows']} questions have no answer ({_summary(result)}), more than "
            f"max_failed={self.max_failed:g} allows. A retry {retry}. All of them are in {self.output_path}."
        )


_ERRORS: dict[str, type[AssistantError]] = {
    "failed": AssistantRequestFailed,
    "timed_out": AssistantRequestTimeout,
    "lost": AssistantRequestLost,
    "not_submitted": AssistantIncompleteLoad,
}


def _summary(result: Mapping[str, Any]) -> str:
    found = [f"{result[status]} {status.replace('_', ' ')}" for status in answers.STATUSES if result[status]]
    return ", ".join(found) or "none"
