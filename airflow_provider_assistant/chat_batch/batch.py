"""One chat batch: submit each question once, wait for all answers, write one table."""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer
from airflow_provider_assistant.chat_batch import answers, requests
from airflow_provider_assistant.chat_batch.conversations import next_turn
from airflow_provider_assistant.chat_batch.earlier import EarlierAttempts, earlier_turns, storable_texts
from airflow_provider_assistant.chat_batch.poller import Poller
from airflow_provider_assistant.chat_batch.question_findings import QuestionFindings
from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.chat_batch.requests import EarlierTurns, FinishedRequest, Mode, PendingRequest
from airflow_provider_assistant.chat_batch.sessions import (
    CLOSED,
    close_sessions,
    encoded_closed,
    ended_sessions,
)
from airflow_provider_assistant.chat_batch.state import AnswerWriter, BatchState, findings_of, folder_of
from airflow_provider_assistant.chat_batch.submission import QuestionRows, Submission
from airflow_provider_assistant.client.cancellation import CancellableRunner, run_coroutine
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger import Ledger, ScopeLedger
from airflow_provider_assistant.ledger.chats import RequestEnd
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import DAG_ID, FindingsFile
from airflow_provider_assistant.loading.options import MAX_BACKOFF, OnAmbiguous
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.sending.client import SendingClient
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath


log = logging.getLogger(__name__)


class ChatBatch:
    """
    Submit the questions of one task to one site, collect the answers, and write the output.

    :param settings: Settings of the client; ``max_concurrency`` applies to this batch.
    :param mode: ``async`` submits all questions and polls the chat requests (``POST …/chat/async``); ``sync`` waits for
        each answer in its own round trip (``POST …/chat``).
    :param output: Parquet file for the questions and answers.
    :param scope: Scope of the ledger entries and session ids: the task and, if it must ask again, which run.
    :param ledger: The ledger.
    :param attempts: The ledger of this batch's questions.
    :param on_ambiguous: What to do with a question that may have been asked although no usable reply came back.
    :param dag_id: The DAG of the task, for the metadata of the files. Default: empty, no task.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        mode: Mode,
        output: ObjectStoragePath,
        scope: str,
        ledger: Ledger,
        attempts: ScopeLedger,
        on_ambiguous: OnAmbiguous = "retry",
        dag_id: str = "",
    ) -> None:
        self.state = BatchState(folder_of(output, scope))
        # Time since which no poll was answered, in seconds since the epoch, if the last wait has ended in an outage.
        self.unanswered_since: float | None = None
        self._settings = settings
        self._site_id = site_id
        self._mode = mode
        self._output = output
        self._scope = scope
        self._dag_id = dag_id
        self._attempts = attempts
        self._on_ambiguous = on_ambiguous
        self._earlier = EarlierAttempts(
            self.state, output=output, scope=scope, mode=mode, ledger=ledger, ledger_scope=attempts.scope
        )
        # Counts of the submissions, and number of answers that arrived, in this attempt.
        self.counts: LoadCounts | None = None
        self.answered = 0
        # Questions that this attempt has submitted and that the ledger could not record.
        self.unrecorded = 0
        self._submission: Submission | None = None
        self._runner = CancellableRunner("the task was ended from outside; a retry takes up the requests that are open")

    # -- submitting --------------------------------------------------------------------------------

    def submit(self, questions: Questions, turn: int = 1) -> None:
        """
        Submit the questions of a turn that no earlier attempt has submitted, and save all questions in the batch state.

        :param turn: The turn of the conversations. The turns are submitted in order, each after :meth:`collect` for the
            one before.
        :raises AssistantStorageError: The batch state cannot be written.
        :raises AssistantError: No question was submitted, or the error is one that Airflow must not retry.
        """
        if turn == 1:
            self.state.check()
        questions = self._earlier.in_open_sessions(questions)
        earlier = EarlierTurns()
        if turn > 1:
            earlier = earlier_turns(self.state.read_questions(), self.table())
        questions_of_turn = questions
        # Reasons why questions are not submitted, by question id.
        reasons = dict(earlier.reasons)
        if questions.turns:
            sessions = questions.field("session_id")
            following = next_turn(turn, questions.turns, questions.question_ids, sessions, earlier.statuses)
            questions_of_turn = questions.at(following.positions)
            reasons |= following.blocked
        with FindingsFile(findings_of(self._output), always=False, dag_id=self._dag_id) as file:
            findings = QuestionFindings(file, questions_of_turn)
            if turn > 1:
                findings.keep_earlier()
            sent = run_coroutine(self._submit(questions_of_turn, findings))
        if not file.count:
            file.path.unlink(missing_ok=True)  # the file of an earlier run
        # What this attempt has just submitted is replaced by what the ledger and earlier turns know.
        recorded_submissions = self._earlier.recorded_submissions(questions.question_ids)
        submissions = sent.submissions | earlier.submissions | recorded_submissions
        if sent.error:
            if not submissions:
                raise sent.error
            for question_id in questions_of_turn.question_ids:
                reasons.setdefault(question_id, f"{answers.NOT_SUBMITTED}{sent.error}")
        facts = {
            "submitted": sent.counts.created + earlier.facts.get("submitted", 0),
            "possibly_duplicated": sent.counts.possibly_duplicated + earlier.facts.get("possibly_duplicated", 0),
            "findings": file.listed,
        }
        self._save_questions(questions, submissions, facts, reasons | findings.reasons, turn)
        self._save_pending(submissions)

    def submitted_turn(self) -> int:
        """Return the turn that was submitted last, from the batch state."""
        _, turn = answers.facts_of(self.state.read_questions())
        return turn

    async def _submit(self, questions: Questions, findings: QuestionFindings) -> _Sent:
        """Send the questions of a turn."""
        submissions: dict[str, requests.Submission] = {}
        client = SendingClient(self._settings, max_backoff=MAX_BACKOFF, retry_ambiguous=self._on_ambiguous == "retry")
        async with client, AnswerWriter(self.state) as writer:

            def on_accepted(question_id: str, reply: ApiReply) -> None:
                now = round(client.now(), 6)
                submissions[question_id] = requests.Submission(
                    request_id=reply.created_id, submitted_at=now, attempts=reply.call_info.attempts
                )
                if isinstance(reply, ChatAnswer):
                    self._record(writer, _answer_of(question_id, reply, now))

            self._submission = submission = Submission(
                client,
                self._attempts,
                findings,
                mode=self._mode,
                on_ambiguous=self._on_ambiguous,
                on_accepted=on_accepted,
            )
            self.counts = submission.counts
            if self._runner.is_cancelled:
                # end() was called while the questions were being prepared.
                submission.cancel()
            try:
                with tracing.span("submit", site_id=self._site_id, mode=self._mode):
                    await submission.run(QuestionRows(questions, self._call))
            except AssistantError as error:
                if self._runner.is_cancelled or isinstance(error, AirflowFailException):
                    raise
                log.warning("Not all questions could be submitted; waiting for those that were: %s", error)
                return _Sent(submission.counts, submissions, error)
            finally:
                self._submission = None
                self.unrecorded = submission.unrecorded
                log.info("Site %r, %s.", self._site_id, submission.counts.summary("question", "submitted"))
        return _Sent(submission.counts, submissions)

    def _call(self, message: ChatMessage) -> Call[Any]:
        if self._mode == "sync":
            return endpoints.chat(self._site_id, message)
        return endpoints.submit_chat(self._site_id, message)

    def _save_questions(
        self,
        questions: Questions,
        submissions: dict[str, requests.Submission],
        facts: dict[str, Any],
        reasons_by_id: dict[str, str],
        turn: int,
    ) -> None:
        """Write all questions to the batch state, with their submissions or the reasons why they have none."""
        request_ids: list[str | None] = []
        submission_times: list[datetime | None] = []
        attempts: list[int] = []
        for question_id in questions.question_ids:
            submission = submissions.get(question_id)
            if submission is None:
                request_ids.append(None)
                submission_times.append(None)
                attempts.append(0)
            else:
                request_ids.append(submission.request_id)
                submission_times.append(datetime.fromtimestamp(submission.submitted_at, UTC))
                attempts.append(submission.attempts)
        reasons = [reasons_by_id.get(question_id) for question_id in questions.question_ids]
        columns: dict[str, Sequence[Any]] = {
            answers.QUESTION_ID: questions.question_ids,
            "key": questions.display_keys,
            "repetition": questions.repetitions,
            "turn": questions.turns or [None] * len(questions),
            "message": storable_texts(questions.field("message")),
            "error": reasons,
            "request_id": request_ids,
            "session_id": storable_texts(questions.field("session_id")),
            "submitted_at": submission_times,
            "attempts": attempts,
        }
        # Equal rows are submitted once and share the request.
        with_submission = len(submission_times) - submission_times.count(None)
        reused = with_submission - facts["submitted"]
        # A reason begins with its kind, such as "rejected: …".
        kinds = Counter(reason.partition(":")[0] for reason in reasons if reason)
        counts = {"reused": reused, "rejected": kinds["rejected"], "ambiguous": kinds["ambiguous"]}
        table = answers.questions_table(
            columns,
            questions.passthrough_columns,
            facts | counts,
            own_sessions=questions.own_sessions,
            turn=turn,
        )
        self.state.write_questions(table)

    def _save_pending(self, submissions: dict[str, requests.Submission]) -> None:
        """Write the list of requests to wait for; in sync mode, each answer came with its request."""
        pending = []
        if self._mode == "async":
            for question_id, submission in submissions.items():
                if submission.request_id:
                    pending.append(
                        PendingRequest(
                            question_id=question_id,
                            request_id=submission.request_id,
                            submitted_at=submission.submitted_at,
                        )
                    )
        self.state.write_pending(pending)

    # -- waiting -----------------------------------------------------------------------------------

    def collect(self, *, interval: float, deadline: float) -> None:
        """
        Poll the open chat requests until all have ended or the deadline passes, and save the answers.

        :param interval: Maximum time between two polls of one chat request, in seconds.
        :param deadline: Time at which to stop polling, in seconds since the epoch; each chat request is polled at least
            once.
        :raises AssistantAPIError: The service answered a poll with 401 or 403.
        """
        pending = self.state.read_open()
        if pending:
            self._runner.run(self._collect(pending, interval, deadline))

    async def _collect(self, pending: list[PendingRequest], interval: float, deadline: float) -> None:
        async with RateLimitedClient(self._settings) as client, AnswerWriter(self.state) as writer:
            poller = Poller(
                client=client,
                site_id=self._site_id,
                interval=interval,
                deadline=deadline,
                max_concurrency=self._settings.max_concurrency,
                on_finished=functools.partial(self._record, writer),
            )
            await poller.run(pending)
            self.unanswered_since = poller.unanswered_since

    def _record(self, writer: AnswerWriter, answer: FinishedRequest) -> None:
        self.answered += 1
        writer.add(answer)

    def close_sessions(self, table: pa.Table) -> tuple[int, int]:
        """
        Close the sessions whose questions have all ended (``POST …/chat/session/close``).

        :return: How many sessions were closed, and how many could not be.
        """
        sessions = ended_sessions(table)
        if not sessions:
            return 0, 0
        # If the task is killed now, the next attempt knows which sessions may be closed.
        self.state.write_closed(sessions)
        return self._runner.run(close_sessions(self._settings, self._site_id, sessions))

    # -- the end -----------------------------------------------------------------------------------

    def table(self) -> pa.Table:
        """
        Return all questions with the answers so far, from the batch state.

        :return: The columns are those of :data:`.answers.COLUMNS` and the source's other columns.
        """
        questions = self.state.read_questions()
        saved = self.state.read_answers()
        if self._mode == "async":
            # A question whose request failed or was lost may have been submitted again since.
            current_ids = set(questions["request_id"].to_pylist())
            saved = [answer for answer in saved if storable(answer.request_id or "") in current_ids]
        # If a question has several answers, the last one replaces the others.
        saved.sort(key=lambda answer: answer.ended_at)
        answer_by_id = {answer.question_id: answer for answer in saved}
        return answers.joined(questions, answer_by_id, self.unanswered_since)

    def publish(self, table: pa.Table, site: Mapping[str, str | None] | None = None) -> None:
        """
        Write the output, record in the ledger how the chat requests ended, and remove the batch state.

        A later attempt asks the questions again whose requests failed or were lost.

        :param site: Service, tenant and site, for the file's metadata. Default: None.
        """
        metadata = {
            DAG_ID: self._dag_id.encode(),
            answers.SITE: json.dumps(site or {}).encode(),
            CLOSED: encoded_closed(table, self._earlier.closed_sessions()),
            answers.OWN_SESSIONS: json.dumps(answers.has_own_sessions(table)).encode(),
        }
        answers.publish(table, self._output, self._scope, metadata)
        ends: dict[str, RequestEnd] = {}
        for row in table.select(["request_id", "status", "completed_at", "session_id"]).to_pylist():
            request_id = row["request_id"]
            if request_id:
                ends[request_id] = RequestEnd(row["status"], row["completed_at"], row["session_id"])
        try:
            self._earlier.record_ends(ends)
        except AssistantLedgerError as error:
            # Do not fail: the answers are written, and submit() of a later attempt records the failed ones.
            log.warning("How the requests ended is not recorded: %s", error)
        self.state.remove()

    def end(self) -> None:
        """Stop sending, and make the running call return within a few seconds; safe in a signal handler."""
        self._runner.cancel()
        if self._submission:
            self._submission.cancel()


class _Sent(NamedTuple):
    """
    What one attempt to submit questions has done.

    :param submissions: The accepted questions by ``question_id``.
    """

    counts: LoadCounts
    submissions: dict[str, requests.Submission]
    error: AssistantError | None = None


def _answer_of(question_id: str, reply: ChatAnswer, now: float) -> FinishedRequest:
    """Return the answer of a question in sync mode."""
    seconds = round(reply.call_info.seconds, 6)
    # Earlier attempts and the waits after them are part of the seconds.
    latency_error = seconds
    if reply.call_info.attempts == 1:
        latency_error = 0.0
    return FinishedRequest(
        question_id=question_id,
        request_id=reply.request_id,
        status="complete",
        text=reply.text,
        error=None,
        raw=reply.raw_json,
        ended_at=now,
        seconds=seconds,
        polls=0,
        latency=seconds,
        latency_source="measured",
        latency_error=latency_error,
        confidence_level=reply.confidence_level,
        confidence_score=reply.confidence_score,
    )
