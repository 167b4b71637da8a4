"""What is known of each question when a task begins or goes on: from the ledger, and from the batch state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_provider_assistant.asking.questions import Question
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.ledger import Known, Ledger, ScopeLedger, Site, chats
from airflow_provider_assistant.ledger.schema import UNRESOLVED
from airflow_provider_assistant.loading.decide import ELSEWHERE
from airflow_provider_assistant.loading.options import OnAmbiguous

MAY_HAVE_ASKED = "an earlier attempt may or may not have asked it"
LOST = "its answer was lost with the attempt that asked"


class Attempts(NamedTuple):
    """
    What the ledger knows of the attempts at a question.

    :param latest: Number of the latest attempt; 0 if there is none.
    :param requests: Number of requests that were sent.
    :param may_exist: Whether it may have been asked by an attempt of which nobody knows the outcome.
    :param is_maybe_second: Whether the attempt that was accepted may not have been the first one to arrive.
    """

    latest: int = 0
    requests: int = 0
    may_exist: bool = False
    is_maybe_second: bool = False


@dataclass(slots=True)
class Earlier:
    """
    What is known of all questions.

    :param attempts: Attempts at each question.
    :param answers: Answers, open requests, and questions that are not asked in this try.
    :param corrections: What a killed try left in the ledger otherwise.
    """

    attempts: dict[str, Attempts] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    corrections: list[chats.Correction] = field(default_factory=list)


def read_earlier(
    conversations: Sequence[Sequence[Question]],
    saved: Mapping[str, Answer],
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    *,
    mode: str,
    on_ambiguous: OnAmbiguous,
) -> Earlier:
    """
    Return what is known of the questions.

    :param saved: Saved answers and open requests.
    """
    known = scope_ledger.known([question.key for conversation in conversations for question in conversation])
    sent = {(one.key, one.number): one for one in chats.sent(ledger, scope_ledger.scope)}
    earlier = Earlier()
    for conversation in conversations:
        # Later turns depend on the answers before them. If one is asked, all after it are asked again.
        goes_on = True
        for question in conversation:
            attempts = [(one, sent[one.key, one.number]) for one in known.get(question.key, ())]
            one = saved.get(question.question_id) if goes_on else None
            if one and one.status == "open" and mode == "sync":
                one = None
            answer = _read_question(earlier, question, attempts, one, mode=mode, goes_on=goes_on)
            if answer is None and earlier.attempts[question.question_id].may_exist and on_ambiguous == "skip":
                answer = _not_asked(question, f"ambiguous: {MAY_HAVE_ASKED}")
            if answer:
                earlier.answers[question.question_id] = answer
            goes_on = goes_on and answer is not None and answer.status in {"open", "complete"}
    return earlier


def _read_question(
    earlier: Earlier,
    question: Question,
    attempts: Sequence[tuple[Known, chats.Sent]],
    saved: Answer | None,
    *,
    mode: str,
    goes_on: bool,
) -> Answer | None:
    """
    Read what is known of a question, and return its answer, if it has one or is not asked.

    :param goes_on: Whether all turns before have answers, or are open.
    """
    earlier.attempts[question.question_id] = _summary(attempts)
    if saved is None or saved.status == "open":
        if question.problem:
            return _not_asked(question, f"rejected: {question.problem}")
        if attempts and attempts[-1][0].is_alive:
            return _not_asked(question, f"skipped: {ELSEWHERE}")
    same = [(one, sent) for one, sent in attempts if one.content_hash == question.question_id]
    claims = [one for one, _ in same if one.state == "claimed"]
    if saved and claims and saved.status in {"open", "complete"}:
        # A killed try could not record that its request was accepted.
        number, at = claims[-1].number, saved.time
        earlier.corrections.append(
            chats.Correction(question.key, number, "claimed", "created", request_id=saved.request_id, ended_at=at)
        )
        return saved
    if saved and saved.status != "open":
        return saved
    accepted = [(one, sent) for one, sent in same if one.state == "created"]
    return _take_up(earlier, question, *accepted[-1], saved, mode) if accepted and goes_on else None


def _take_up(
    earlier: Earlier, question: Question, attempt: Known, sent: chats.Sent, saved: Answer | None, mode: str
) -> Answer | None:
    """Return the open request of an accepted attempt; None if its answer was lost."""
    attempts = earlier.attempts[question.question_id]
    if mode == "async" and attempt.remote_id:
        if saved and saved.request_id == attempt.remote_id:
            return saved
        return Answer(
            question.question_id,
            request_id=attempt.remote_id,
            session_id=sent.session_id or "",
            submitted_at=sent.recorded_at.timestamp() if sent.recorded_at else 0.0,
            attempts=attempts.requests,
            is_reused=True,
        )
    earlier.corrections.append(chats.Correction(question.key, attempt.number, "created", "ambiguous", error=LOST))
    earlier.attempts[question.question_id] = attempts._replace(may_exist=True)
    return None


def _summary(attempts: Sequence[tuple[Known, chats.Sent]]) -> Attempts:
    created = [(one, sent) for one, sent in attempts if one.state == "created"]
    unresolved = [one.number for one, _ in attempts if one.state in UNRESOLVED]
    newest = created[-1][0].number if created else 0
    return Attempts(
        latest=attempts[-1][0].number if attempts else 0,
        requests=sum(sent.requests for _, sent in attempts),
        may_exist=any(number > newest for number in unresolved),
        is_maybe_second=any(sent.ambiguous for _, sent in created) or any(number < newest for number in unresolved),
    )


def record_ends(ledger: Ledger, site: Site, answers: Iterable[Answer]) -> None:
    """Record in the ledger how async requests ended: a later try asks those again that have no answer."""
    ends: dict[str, chats.RequestEnd] = {}
    for answer in answers:
        if answer.request_id:
            state = "timed_out" if answer.status == "open" else answer.status
            ended_at = None if answer.ended_at is None else datetime.fromtimestamp(answer.ended_at, UTC)
            ends[answer.request_id] = chats.RequestEnd(state, ended_at, answer.session_id)
    chats.record_ends(ledger.engine, site, ends)


def _not_asked(question: Question, reason: str) -> Answer:
    return Answer(question.question_id, "not_submitted", ended_at=0.0, error=reason)
