"""Earlier attempts of a chat batch: what they left in the batch state, in the output file and in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.chat_batch import answers
from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.chat_batch.requests import EarlierTurns, FinishedRequest, Mode, Submission
from airflow_provider_assistant.chat_batch.sessions import decoded_closed, in_closed_sessions
from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.ledger import Ledger, Scope, chats
from airflow_provider_assistant.ledger.chats import AcceptedQuestion, RequestEnd
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

# Final states without an answer: a later attempt submits the question again.
UNANSWERED = {"failed", "lost"}


class EarlierAttempts:
    """
    Read what earlier attempts of the task left, and correct what a killed one could not record.

    The parameters are those of :class:`.ChatBatch`.
    """

    def __init__(
        self,
        state: BatchState,
        *,
        output: ObjectStoragePath,
        scope: str,
        mode: Mode,
        ledger: Ledger,
        ledger_scope: Scope,
    ) -> None:
        self._state = state
        self._output = output
        self._scope = scope
        self._mode = mode
        self._ledger = ledger
        self._ledger_scope = ledger_scope

    def accepted(self) -> Iterator[AcceptedQuestion]:
        """Yield the questions that the service has accepted, from this try and earlier ones."""
        return chats.accepted(self._ledger, self._ledger_scope)

    def in_open_sessions(self, questions: Questions) -> Questions:
        """
        Return the questions, none of which would be sent to a session that is closed, or may be.

        Questions that are not sent keep their sessions. What is sent depends on the answers that were saved in a
        session, so each step corrects the ledger first.
        """
        while True:
            self._correct_ledger(questions, self._saved_answers(questions))
            closed = self.closed_sessions()
            if not closed:
                return questions
            accepted_ids = {entry.question_id for entry in self.accepted() if entry.question_id}
            positions = in_closed_sessions(questions, closed, accepted_ids)
            if not positions:
                return questions
            if not questions.own_sessions:
                return questions.with_closed_sessions(positions)
            questions = questions.in_next_sessions(positions)

    def closed_sessions(self) -> set[str]:
        """Return the sessions that earlier attempts, or this one, closed or began to close."""
        closed = self._state.read_closed()
        published = answers.read_published(self._output, self._scope, ["session_id", "status", "turn"])
        if published is not None:
            closed |= decoded_closed(published)
        return closed

    def _saved_answers(self, questions: Questions) -> list[FinishedRequest]:
        """Return the answers of earlier attempts, and add those of the last output to the batch state."""
        saved = self._state.read_answers()
        saved_ids = {answer.question_id for answer in saved}
        messages = storable_texts(questions.field("message"))
        sessions = storable_texts(questions.field("session_id"))
        # The values of the columns answers.IDENTIFYING, one tuple per question.
        identifying_values = zip(questions.display_keys, messages, sessions, strict=True)
        rows = zip(questions.question_ids, identifying_values, strict=True)
        published = answers.published(self._output, self._scope, rows)
        added = [answer for answer in published if answer.question_id not in saved_ids]
        if added:
            self._state.write_answers(added)
        return saved + added

    def _correct_ledger(self, questions: Questions, saved: Sequence[FinishedRequest]) -> None:
        """Correct what a killed attempt left in the ledger, so that the questions without an answer are submitted."""
        # publish() records all ends, but an earlier attempt may have been killed before it.
        ends = {}
        for answer in saved:
            if answer.request_id and answer.status in UNANSWERED:
                ended_at = datetime.fromtimestamp(answer.ended_at, UTC)
                ends[answer.request_id] = RequestEnd(answer.status, ended_at)
        self.record_ends(ends)
        # An attempt may have saved an answer and not its outcome, because it was killed or the ledger failed.
        answer_by_id = {}
        for answer in saved:
            if self._mode == "sync" or answer.status not in UNANSWERED:
                answer_by_id[answer.question_id] = answer
        answered = []
        for key, question_id in zip(questions.keys, questions.question_ids, strict=True):
            if question_id in answer_by_id:
                answered.append(_accepted(key, answer_by_id[question_id]))
        chats.record_late(self._ledger, self._ledger_scope, answered)
        if self._mode == "sync":
            # It may also have recorded an outcome and not saved the answer.
            unanswered_ids = set(questions.question_ids) - answer_by_id.keys()
            lost = [entry for entry in self.accepted() if entry.question_id in unanswered_ids]
            if lost and not saved and questions.own_sessions:
                # No answer is left, as if the output was removed: an earlier attempt may have closed the sessions.
                lost_ids = {entry.question_id for entry in lost}
                sessions = zip(questions.question_ids, questions.field("session_id"), strict=True)
                self._state.write_closed({session for question_id, session in sessions if question_id in lost_ids})
            chats.withdraw(self._ledger, self._ledger_scope, lost, "its answer was lost with the attempt that asked")

    def record_ends(self, ends: Mapping[str, RequestEnd]) -> None:
        """Record how requests ended, so that a later attempt asks those without an answer again."""
        if not ends:
            return
        if self._mode == "sync":
            # The answer came with the reply, so the request never was open.
            return
        # Files have the ids as Parquet can store them, the ledger as the service sent them.
        ledger_id_by_file_id = {}
        for accepted in self.accepted():
            if accepted.request_id:
                ledger_id_by_file_id[storable(accepted.request_id)] = accepted.request_id
        end_by_ledger_id = {}
        for request_id, end in ends.items():
            file_id = storable(request_id)
            if file_id in ledger_id_by_file_id:
                end_by_ledger_id[ledger_id_by_file_id[file_id]] = end
        chats.record_ends(self._ledger.engine, self._ledger_scope.site, end_by_ledger_id)

    def recorded_submissions(self, question_ids: Iterable[str]) -> dict[str, Submission]:
        """Return the submissions of this and earlier attempts from the ledger, by question."""
        current_ids = set(question_ids)
        submissions = {}
        for accepted in self.accepted():
            if accepted.question_id in current_ids:
                submissions[accepted.question_id] = Submission(
                    request_id=accepted.request_id,
                    submitted_at=accepted.recorded_at.timestamp(),
                    attempts=accepted.requests,
                )
        return submissions


def earlier_turns(questions: pa.Table, table: pa.Table) -> EarlierTurns:
    """
    Return what is known of the earlier turns of the conversations.

    :param questions: The questions in the batch state.
    :param table: The same questions with their answers, in the same order.
    """
    facts, _ = answers.facts_of(questions)
    earlier = EarlierTurns(facts=facts)
    statuses = table["status"].to_pylist()
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


def storable_texts(values: list[Any]) -> list[str | None]:
    """Return texts that Parquet can store; None for other values, which were not sent."""
    return [storable(value) if isinstance(value, str) else None for value in values]


def _accepted(key: str, answer: FinishedRequest) -> AcceptedQuestion:
    """Return the ledger entry of a question whose answer is saved."""
    ended_at = datetime.fromtimestamp(answer.ended_at, UTC)
    return AcceptedQuestion(
        key=key,
        number=0,
        question_id=answer.question_id,
        request_id=answer.request_id,
        recorded_at=ended_at,
        requests=1,
    )
