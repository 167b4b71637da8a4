"""One chat batch: submit each question once, wait for all answers, write one table."""

from __future__ import annotations

import functools
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer
from airflow_provider_assistant.chat_batch import answers
from airflow_provider_assistant.chat_batch.conversations import next_turn
from airflow_provider_assistant.chat_batch.poller import Poller
from airflow_provider_assistant.chat_batch.question_findings import QuestionFindings
from airflow_provider_assistant.chat_batch.questions import QuestionRows, Questions
from airflow_provider_assistant.chat_batch.requests import EarlierTurns, FinishedRequest, PendingRequest, Submission
from airflow_provider_assistant.chat_batch.sessions import (
    CLOSED,
    close_sessions,
    decoded_closed,
    encoded_closed,
    ended_sessions,
    in_closed_sessions,
)
from airflow_provider_assistant.chat_batch.state import AnswerWriter, BatchState, findings_of, folder_of
from airflow_provider_assistant.client.cancellation import CancellableRunner, run_coroutine
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger import AcceptedQuestion, ChatLedger, RequestEnd
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.options import LoadOptions, OnAmbiguous
from airflow_provider_assistant.loading.report import LoadCounts
from airflow_provider_assistant.loading.rows import PreparedRow
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath


Mode: TypeAlias = Literal["async", "sync"]
# Final states without an answer: a later attempt submits the question again.
UNANSWERED = {"failed", "lost"}

log = logging.getLogger(__name__)


class ChatBatch:
    """
    Submit the questions of one task to one site, collect the answers, and write the output.

    :param settings: Settings of the client; ``max_concurrency`` applies to this batch.
    :param mode: ``async`` submits all questions and polls the chat requests (``POST …/chat/async``); ``sync`` waits for
        each answer in its own round trip (``POST …/chat``).
    :param output: Parquet file for the questions and answers.
    :param scope: Scope of the ledger entries and session ids: the task and, if it must ask again, which run.
    :param ledger: None to record nothing.
    :param on_ambiguous: What to do with a question that may have been asked although no usable reply came back.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        mode: Mode,
        output: ObjectStoragePath,
        scope: str,
        ledger: ChatLedger | None,
        on_ambiguous: OnAmbiguous = "retry",
    ) -> None:
        self.state = BatchState(folder_of(output, scope))
        self._settings = settings
        self._site_id = site_id
        self._mode = mode
        self._output = output
        self._scope = scope
        self._ledger = ledger
        # Each run may ask other questions, so a mass change is normal here, and none of them is stale.
        self._options = LoadOptions(
            settings.max_concurrency,
            on_ambiguous=on_ambiguous,
            allow_mass_change=True,
            on_missing="ignore",
        )
        # Counts of the submissions, and number of answers that arrived, in this attempt.
        self.counts: LoadCounts | None = None
        self.answered = 0
        self._load: Load | None = None
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
        questions = self._in_open_sessions(questions)
        earlier = EarlierTurns()
        if turn > 1:
            earlier = self._earlier_turns()
        questions_of_turn = questions
        # Reasons why questions are not submitted, by question id.
        reasons = dict(earlier.reasons)
        if questions.turns:
            sessions = questions.field("session_id")
            following = next_turn(turn, questions.turns, questions.question_ids, sessions, earlier.statuses)
            questions_of_turn = questions.at(following.positions)
            reasons |= following.blocked
        with FindingsFile(findings_of(self._output), always=False) as file:
            findings = QuestionFindings(file, questions_of_turn)
            if turn > 1:
                findings.keep_earlier()
            sent = run_coroutine(self._submit(questions_of_turn, findings))
        if not file.count:
            file.path.unlink(missing_ok=True)  # the file of an earlier run
        # What this attempt has just submitted is replaced by what the ledger and earlier turns know.
        recorded_submissions = self._recorded_submissions(questions.question_ids)
        submissions = sent.submissions | earlier.submissions | recorded_submissions
        if sent.error:
            if not submissions:
                raise sent.error
            for question_id in questions_of_turn.question_ids:
                reasons.setdefault(question_id, f"not submitted: {sent.error}")
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

    def _in_open_sessions(self, questions: Questions) -> Questions:
        """
        Return the questions, none of which would be sent to a session that is closed, or may be.

        Questions that are not sent keep their sessions. What is sent depends on the answers that were saved in a
        session, so each step corrects the ledger first.
        """
        closed = self._closed_sessions()
        while True:
            self._correct_ledger(questions, self._saved_answers(questions))
            if not closed:
                return questions
            accepted_ids = set()
            if self._ledger:
                accepted_ids = {entry.question_id for entry in self._ledger.accepted() if entry.question_id}
            positions = in_closed_sessions(questions, closed, accepted_ids)
            if not positions:
                return questions
            if not questions.own_sessions:
                return questions.with_closed_sessions(positions)
            questions = questions.in_next_sessions(positions)

    def _closed_sessions(self) -> set[str]:
        """Return the sessions that earlier attempts, or this one, closed or began to close."""
        closed = self.state.read_closed()
        published = answers.read_published(self._output, self._scope, ["session_id", "status", "turn"])
        if published is not None:
            closed |= decoded_closed(published)
        return closed

    def _earlier_turns(self) -> EarlierTurns:
        questions = self.state.read_questions()
        facts, _ = answers.facts_of(questions)
        earlier = EarlierTurns(facts=facts)
        # The table has the questions in the same order.
        statuses = self.table()["status"].to_pylist()
        columns = [answers.QUESTION_ID, "request_id", "submitted_at", "attempts", "error"]
        for row, status in zip(questions.select(columns).to_pylist(), statuses, strict=True):
            question_id = row[answers.QUESTION_ID]
            earlier.statuses[question_id] = status
            if row["submitted_at"]:
                submitted_at = row["submitted_at"].timestamp()
                earlier.submissions[question_id] = Submission(
                    request_id=row["request_id"],
                    submitted_at=submitted_at,
                    attempts=row["attempts"],
                )
            elif row["error"]:
                earlier.reasons[question_id] = row["error"]
        return earlier

    def _saved_answers(self, questions: Questions) -> list[FinishedRequest]:
        """Return the answers of earlier attempts, and add those of the last output to the batch state."""
        saved = self.state.read_answers()
        saved_ids = {answer.question_id for answer in saved}
        messages = _texts(questions.field("message"))
        sessions = _texts(questions.field("session_id"))
        # The values of the columns answers.IDENTIFYING, one tuple per question.
        identifying_values = zip(questions.display_keys, messages, sessions, strict=True)
        rows = zip(questions.question_ids, identifying_values, strict=True)
        published = answers.published(self._output, self._scope, rows)
        added = [answer for answer in published if answer.question_id not in saved_ids]
        if added:
            self.state.write_answers(added)
        return saved + added

    def _correct_ledger(self, questions: Questions, saved: Iterable[FinishedRequest]) -> None:
        """Correct what a killed attempt left in the ledger, so that the questions without an answer are submitted."""
        if not self._ledger:
            return
        # publish() records all ends, but an earlier attempt may have been killed before it.
        ends = {}
        for answer in saved:
            if answer.request_id and answer.status in UNANSWERED:
                ended_at = datetime.fromtimestamp(answer.ended_at, UTC)
                ends[answer.request_id] = RequestEnd(answer.status, ended_at)
        self._record_ends(ends)
        if self._mode == "sync":
            # A killed attempt may have saved an answer and not yet its outcome, or the other way round.
            answer_by_id = {answer.question_id: answer for answer in saved}
            answered = []
            for key, question_id in zip(questions.keys, questions.question_ids, strict=True):
                if question_id in answer_by_id:
                    answered.append(_accepted(key, answer_by_id[question_id]))
            self._ledger.record_late(answered)
            unanswered_ids = set(questions.question_ids) - answer_by_id.keys()
            accepted = self._ledger.accepted()
            lost_keys = [entry.key for entry in accepted if entry.question_id in unanswered_ids]
            self._ledger.withdraw(lost_keys, "its answer was lost with the attempt that asked")

    def _record_ends(self, ends: Mapping[str, RequestEnd]) -> None:
        """Record how requests ended, so that a later attempt asks those without an answer again."""
        if not self._ledger or not ends:
            return
        if self._mode == "sync":
            # The answer came with the reply, so the request never was open.
            return
        # Files have the ids as Parquet can store them, the ledger as the service sent them.
        ledger_id_by_file_id = {}
        for accepted in self._ledger.accepted():
            if accepted.request_id:
                ledger_id_by_file_id[storable(accepted.request_id)] = accepted.request_id
        end_by_ledger_id = {}
        for request_id, end in ends.items():
            file_id = storable(request_id)
            if file_id in ledger_id_by_file_id:
                end_by_ledger_id[ledger_id_by_file_id[file_id]] = end
        self._ledger.record_ends(end_by_ledger_id)

    def _recorded_submissions(self, question_ids: Iterable[str]) -> dict[str, Submission]:
        """Return the submissions of this and earlier attempts from the ledger, by question."""
        if not self._ledger:
            return {}
        current_ids = set(question_ids)
        submissions = {}
        for accepted in self._ledger.accepted():
            if accepted.question_id in current_ids:
                submissions[accepted.question_id] = Submission(
                    request_id=accepted.request_id,
                    submitted_at=accepted.recorded_at.timestamp(),
                    attempts=accepted.attempts,
                )
        return submissions

    async def _submit(self, questions: Questions, findings: QuestionFindings) -> _Sent:
        """Send the questions with the engine of loads, to which the id of a question is its content hash."""
        submissions: dict[str, Submission] = {}
        options = self._options
        async with LoadClient(self._settings, options) as client, AnswerWriter(self.state) as writer:

            def on_created(row: PreparedRow, reply: ApiReply) -> None:
                question_id = row.fingerprint.content_hash
                now = round(client.now(), 6)
                submissions[question_id] = Submission(
                    request_id=reply.created_id, submitted_at=now, attempts=reply.call_info.attempts
                )
                if isinstance(reply, ChatAnswer):
                    self._record(writer, _answer_of(question_id, reply, now))

            self._load = load = Load(
                client,
                QuestionRows(questions, self._call),
                options,
                ledger=self._ledger,
                findings=findings,
                on_created=on_created,
            )
            self.counts = load.counts
            try:
                with tracing.span("submit", site_id=self._site_id, mode=self._mode):
                    await load.run()
            except AssistantError as error:
                if self._runner.is_cancelled or isinstance(error, AirflowFailException):
                    raise
                log.warning("Not all questions could be submitted; waiting for those that were: %s", error)
                return _Sent(load.counts, submissions, error)
            finally:
                self._load = None
                log.info("Site %r, %s.", self._site_id, load.counts.summary("questions", "submitted"))
        return _Sent(load.counts, submissions)

    def _call(self, message: ChatMessage) -> Call[Any]:
        if self._mode == "sync":
            return endpoints.chat(self._site_id, message)
        return endpoints.submit_chat(self._site_id, message)

    def _save_questions(
        self,
        questions: Questions,
        submissions: dict[str, Submission],
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
            "message": _texts(questions.field("message")),
            "error": reasons,
            "request_id": request_ids,
            "session_id": _texts(questions.field("session_id")),
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

    def _save_pending(self, submissions: dict[str, Submission]) -> None:
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
        return answers.joined(questions, answer_by_id)

    def publish(self, table: pa.Table) -> None:
        """
        Write the output, record in the ledger how the chat requests ended, and remove the batch state.

        A later attempt asks the questions again whose requests failed or were lost.
        """
        metadata = {
            CLOSED: encoded_closed(table, self._closed_sessions()),
            answers.OWN_SESSIONS: json.dumps(answers.has_own_sessions(table)).encode(),
        }
        answers.publish(table, self._output, self._scope, metadata)
        ends: dict[str, RequestEnd] = {}
        for row in table.select(["request_id", "status", "completed_at", "session_id"]).to_pylist():
            request_id = row["request_id"]
            if request_id:
                ends[request_id] = RequestEnd(row["status"], row["completed_at"], row["session_id"])
        try:
            self._record_ends(ends)
        except AssistantLedgerError as error:
            # Do not fail: the answers are written, and submit() of a later attempt records the failed ones.
            log.warning("How the requests ended is not recorded: %s", error)
        self.state.remove()

    def end(self) -> None:
        """Stop sending, and make the running call return within a few seconds; safe in a signal handler."""
        self._runner.cancel()
        if self._load:
            self._load.cancel()


class _Sent(NamedTuple):
    """
    What one attempt to submit questions has done.

    :param submissions: The accepted questions by ``question_id``.
    """

    counts: LoadCounts
    submissions: dict[str, Submission]
    error: AssistantError | None = None


def _texts(values: list[Any]) -> list[str | None]:
    """Return texts that Parquet can store; None for other values, which were not sent."""
    return [storable(value) if isinstance(value, str) else None for value in values]


def _accepted(key: str, answer: FinishedRequest) -> AcceptedQuestion:
    """Return the ledger entry of a question in sync mode whose answer is saved."""
    ended_at = datetime.fromtimestamp(answer.ended_at, UTC)
    return AcceptedQuestion(
        key=key,
        question_id=answer.question_id,
        request_id=answer.request_id,
        recorded_at=ended_at,
        attempts=1,
    )


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
