"""What is known of each question when a task begins or goes on: from the ledger, and from the batch state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_assistant.asking.questions import Question
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.ledger import Known, Ledger, ScopeLedger, chats
from airflow_provider_assistant.ledger.schema import UNRESOLVED
from airflow_provider_assistant.loading.decide import ELSEWHERE
from airflow_provider_assistant.loading.options import OnAmbiguous

MAY_HAVE_ASKED = "an earlier attempt may or may not have asked it"
LOST = "its answer was lost with the attempt that asked"


class Earlier(NamedTuple):
    """
    What the ledger knows of a question.

    :param latest: Number of its latest attempt; 0 if it has none.
    :param requests: Number of requests that were sent for it.
    :param may_exist: Whether it may have been asked by an attempt of which nobody knows the outcome.
    :param is_maybe_second: Whether the attempt that was accepted may not have been the first one to arrive.
    """

    latest: int = 0
    requests: int = 0
    may_exist: bool = False
    is_maybe_second: bool = False


@dataclass(slots=True)
class EarlierTries:
    """
    What is known of all questions, each by its id.

    :param requests: Requests that were accepted.
    :param ends: Answers, and questions that are not asked in this try.
    :param corrections: What a killed try left in the ledger otherwise.
    """

    questions: dict[str, Earlier] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    corrections: list[chats.Correction] = field(default_factory=list)


def earlier_tries(
    conversations: Sequence[Sequence[Question]],
    requests: Mapping[str, Request],
    ends: Mapping[str, End],
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    *,
    mode: str,
    on_ambiguous: OnAmbiguous,
) -> EarlierTries:
    """
    Return what is known of the questions.

    :param requests: Saved requests.
    :param ends: Saved ends.
    """
    known = scope_ledger.known([question.key for conversation in conversations for question in conversation])
    sent = {(one.key, one.number): one for one in chats.sent(ledger, scope_ledger.scope)}
    reader = _Reader(requests, ends, known, sent, mode, on_ambiguous)
    for conversation in conversations:
        reader.read(conversation)
    return reader.found


class _Reader:
    """Read what ledger and batch state know of one conversation after the other."""

    def __init__(
        self,
        requests: Mapping[str, Request],
        ends: Mapping[str, End],
        known: Mapping[str, Sequence[Known]],
        sent: Mapping[tuple[str, int], chats.Sent],
        mode: str,
        on_ambiguous: OnAmbiguous,
    ) -> None:
        self.found = EarlierTries()
        self._requests = requests
        self._ends = ends
        self._known = known
        self._sent = sent
        self._mode = mode
        self._on_ambiguous = on_ambiguous

    def read(self, conversation: Sequence[Question]) -> None:
        """Find out what is known of the questions of a conversation, in their order."""
        goes_on = True
        for question in conversation:
            # Later turns depend on the answers before them. If one is asked, all after it are asked again.
            goes_on = self._question(question, goes_on=goes_on) and goes_on

    def _question(self, question: Question, *, goes_on: bool) -> bool:
        """
        Find out what is known of a question.

        :param goes_on: Whether all turns before have answers, or are open.
        :return: Whether it has an answer, or is open.
        """
        question_id = question.question_id
        attempts = self._known.get(question.key, ())
        earlier = self._earlier(attempts)
        end = self._ends.get(question_id) if goes_on else None
        if end is None:
            end = self._refused(question, attempts)
        if end is None and goes_on:
            earlier = self._take_up(question, attempts, earlier)
        claim = self._claim(question, attempts)
        if claim and end and end.status == "complete":
            self._correct(question, claim, end.request_id, end.ended_at)
        is_open = question_id in self.found.requests
        if end is None and not is_open and earlier.may_exist and self._on_ambiguous == "skip":
            end = self._not_asked(question, f"ambiguous: {MAY_HAVE_ASKED}")
        self.found.questions[question_id] = earlier
        if end is None:
            return is_open
        self.found.ends[question_id] = end
        if question_id in self._requests:
            self.found.requests[question_id] = self._requests[question_id]
        return is_open or end.status == "complete"

    def _earlier(self, attempts: Sequence[Known]) -> Earlier:
        created = [one for one in attempts if one.state == "created"]
        unresolved = [one.number for one in attempts if one.state in UNRESOLVED]
        newest = created[-1].number if created else 0
        was_sent_again = any(self._sent[one.key, one.number].ambiguous for one in created)
        return Earlier(
            latest=attempts[-1].number if attempts else 0,
            requests=sum(self._sent[one.key, one.number].requests for one in attempts),
            may_exist=any(number > newest for number in unresolved),
            is_maybe_second=was_sent_again or any(number < newest for number in unresolved),
        )

    def _refused(self, question: Question, attempts: Sequence[Known]) -> End | None:
        """Return the end of a question that is not asked, whatever its attempts were; None for others."""
        if question.problem:
            return self._not_asked(question, f"rejected: {question.problem}")
        if attempts and attempts[-1].is_alive:
            return self._not_asked(question, f"skipped: {ELSEWHERE}")
        return None

    def _take_up(self, question: Question, attempts: Sequence[Known], earlier: Earlier) -> Earlier:
        """Take up the request of an earlier try, if there is one. Return what is known then."""
        question_id = question.question_id
        same = [one for one in attempts if one.state == "created" and one.content_hash == question_id]
        if same:
            earlier = self._accepted_before(question, same[-1], earlier)
        claim = self._claim(question, attempts)
        saved = self._requests.get(question_id)
        if claim and self._mode == "async" and saved and saved.request_id:
            # A killed try could not record that its request was accepted.
            self._correct(question, claim, saved.request_id, saved.submitted_at)
            self.found.requests[question_id] = saved
        return earlier

    def _accepted_before(self, question: Question, attempt: Known, earlier: Earlier) -> Earlier:
        """Take up the request of a question, or find that its answer was lost."""
        sent = self._sent[question.key, attempt.number]
        saved = self._requests.get(question.question_id)
        if self._mode == "async" and attempt.remote_id:
            if saved and saved.request_id == attempt.remote_id:
                self.found.requests[question.question_id] = saved
            else:
                self.found.requests[question.question_id] = Request(
                    question.question_id,
                    attempt.remote_id,
                    sent.session_id or "",
                    sent.recorded_at.timestamp() if sent.recorded_at else 0.0,
                    earlier.requests,
                    is_reused=True,
                )
            return earlier
        self.found.corrections.append(
            chats.Correction(question.key, attempt.number, "created", "ambiguous", error=LOST)
        )
        return earlier._replace(may_exist=True)

    def _correct(self, question: Question, claim: Known, request_id: str | None, at: float) -> None:
        """Record what a killed try could not record."""
        self.found.corrections.append(
            chats.Correction(question.key, claim.number, "claimed", "created", request_id=request_id, ended_at=at)
        )

    @staticmethod
    def _claim(question: Question, attempts: Sequence[Known]) -> Known | None:
        """Return the latest claim of the question whose outcome a killed try could not record."""
        claims = [one for one in attempts if one.state == "claimed" and one.content_hash == question.question_id]
        return claims[-1] if claims else None

    @staticmethod
    def _not_asked(question: Question, reason: str) -> End:
        return End(question.question_id, "not_submitted", 0.0, error=reason)
