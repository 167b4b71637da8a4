"""What is known of each question when a task begins or goes on: from the ledger, and from the record of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_assistant.asking.questions import Question
from airflow_provider_assistant.asking.record import End, Request
from airflow_provider_assistant.ledger import Known, Ledger, ScopeLedger, chats
from airflow_provider_assistant.loading.decide import ELSEWHERE
from airflow_provider_assistant.loading.options import OnAmbiguous

MAY_HAVE_ASKED = "an earlier attempt may or may not have asked it"
LOST = "its answer was lost with the attempt that asked"


class Standing(NamedTuple):
    """
    What the ledger knows of a question.

    :param latest: Number of its latest attempt; 0 if it has none.
    :param requests: Number of requests that were sent for it.
    :param may_exist: Whether it may have been asked by an attempt of which nobody knows the outcome.
    """

    latest: int = 0
    requests: int = 0
    may_exist: bool = False


@dataclass(slots=True)
class Standings:
    """
    What is known of all questions, each by its id.

    :param requests: Requests that were accepted.
    :param ends: Answers, and questions that are not asked in this try.
    :param corrections: What a killed try left in the ledger otherwise.
    """

    standings: dict[str, Standing] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    corrections: list[chats.Correction] = field(default_factory=list)


def standings(
    conversations: Sequence[Sequence[Question]],
    requests: Mapping[str, Request],
    ends: Mapping[str, End],
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    *,
    mode: str,
    on_ambiguous: OnAmbiguous,
) -> Standings:
    """
    Return what is known of the questions.

    :param requests: Saved requests.
    :param ends: Saved ends.
    """
    known = scope_ledger.known([question.key for conversation in conversations for question in conversation])
    sent = {(one.key, one.number): one for one in chats.sent(ledger, scope_ledger.scope)}
    look = _Look(requests, ends, known, sent, mode, on_ambiguous)
    for conversation in conversations:
        look.at(conversation)
    return look.found


class _Look:
    """Fold what ledger and record know of one conversation after the other."""

    def __init__(
        self,
        requests: Mapping[str, Request],
        ends: Mapping[str, End],
        known: Mapping[str, Sequence[Known]],
        sent: Mapping[tuple[str, int], chats.Sent],
        mode: str,
        on_ambiguous: OnAmbiguous,
    ) -> None:
        self.found = Standings()
        self._requests = requests
        self._ends = ends
        self._known = known
        self._sent = sent
        self._mode = mode
        self._on_ambiguous = on_ambiguous

    def at(self, conversation: Sequence[Question]) -> None:
        # Later turns depend on the answers before them: after a question that is to be asked, all are asked anew.
        goes_on = True
        for question in conversation:
            attempts = self._known.get(question.key, ())
            created = [one for one in attempts if one.state == "created"]
            unresolved = [one for one in attempts if one.state in {"claimed", "ambiguous"}]
            newest = created[-1].number if created else 0
            same = [one for one in created if one.content_hash == question.question_id]
            standing = Standing(
                latest=attempts[-1].number if attempts else 0,
                requests=sum(self._sent[one.key, one.number].requests for one in attempts),
                may_exist=any(one.number > newest for one in unresolved),
            )
            end = self._ends.get(question.question_id) if goes_on else None
            if end is None and question.problem:
                end = self._not_asked(question, f"rejected: {question.problem}")
            elif end is None and attempts and attempts[-1].is_alive:
                end = self._not_asked(question, f"skipped: {ELSEWHERE}")
            elif end is None and same and goes_on:
                standing = self._accepted_before(question, same[-1], standing)
            claim = next((one for one in unresolved[::-1] if self._is_claim(one, question)), None)
            if claim and end and end.status == "complete":
                self._correct(question, claim, end.request_id, end.ended_at)
            saved = self._requests.get(question.question_id)
            if claim and end is None and goes_on and self._mode == "async" and saved and saved.request_id:
                # A killed try could not record that its request was accepted.
                self._correct(question, claim, saved.request_id, saved.submitted_at)
                self.found.requests[question.question_id] = saved
            is_open = question.question_id in self.found.requests
            if end is None and not is_open and standing.may_exist and self._on_ambiguous == "skip":
                end = self._not_asked(question, f"ambiguous: {MAY_HAVE_ASKED}")
            self.found.standings[question.question_id] = standing
            if end:
                self.found.ends[question.question_id] = end
                self._keep_request(question.question_id)
            goes_on = goes_on and (is_open or (end is not None and end.status == "complete"))

    def _keep_request(self, question_id: str) -> None:
        if question_id in self._requests:
            self.found.requests[question_id] = self._requests[question_id]

    def _accepted_before(self, question: Question, attempt: Known, standing: Standing) -> Standing:
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
                    standing.requests,
                    is_reused=True,
                )
            return standing
        self.found.corrections.append(
            chats.Correction(question.key, attempt.number, "created", "ambiguous", error=LOST)
        )
        return standing._replace(may_exist=True)

    def _correct(self, question: Question, claim: Known, request_id: str | None, at: float) -> None:
        """Record what a killed try could not record."""
        self.found.corrections.append(
            chats.Correction(question.key, claim.number, "claimed", "created", request_id=request_id, ended_at=at)
        )

    @staticmethod
    def _is_claim(attempt: Known, question: Question) -> bool:
        return attempt.state == "claimed" and attempt.content_hash == question.question_id

    @staticmethod
    def _not_asked(question: Question, reason: str) -> End:
        return End(question.question_id, "not_submitted", 0.0, error=reason)
