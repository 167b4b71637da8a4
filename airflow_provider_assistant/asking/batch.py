"""
A batch: ask questions, each once, and wait for their answers.

What is done is what the ledger recorded or the batch state saved. So a first try, a retry and a task that was
deferred do the same: they look at what is known of each question, and send and poll what is left, turn by turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer
from airflow_provider_assistant.asking.answers import NOT_SUBMITTED
from airflow_provider_assistant.asking.earlier import Earlier, EarlierTries, earlier_tries
from airflow_provider_assistant.asking.poller import LAST_POLL, Poller
from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.asking.schedule import Schedule, Silence
from airflow_provider_assistant.asking.sessions import close_sessions, ended_sessions
from airflow_provider_assistant.asking.state import BatchState, End, Request, Writer
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantLedgerError,
)
from airflow_provider_assistant.ledger import Claim, Ledger, Outcome, ScopeLedger, chats
from airflow_provider_assistant.loading.decide import ELSEWHERE
from airflow_provider_assistant.loading.options import MAX_BACKOFF, OnAmbiguous
from airflow_provider_assistant.sending.decide import Item, outcome_of_reply
from airflow_provider_assistant.sending.sender import Sender

log = logging.getLogger(__name__)

Mode: TypeAlias = Literal["async", "sync"]


@dataclass(frozen=True, slots=True)
class AskJob:
    """
    Describe a batch.

    :param settings: Settings of the client; ``max_concurrency`` applies to this batch.
    :param mode: ``async`` submits questions and polls their requests (``POST …/chat/async``); ``sync`` waits for each
        answer in its own round trip (``POST …/chat``).
    :param scope: The task instance, of which sessions are made.
    :param timeout: Longest wait for answers after the last question was sent, in seconds.
    :param poll_interval: Longest time between two polls of one request, in seconds.
    :param on_ambiguous: What to do with a question that may have been asked although no usable reply came back.
    """

    settings: ClientSettings
    site_id: str
    mode: Mode
    scope: str
    timeout: float
    poll_interval: float
    on_ambiguous: OnAmbiguous = "retry"


class Batch:
    """
    Ask the questions of one task at one site.

    :param questions: The questions.
    :param state: The files of the batch, shared by worker and triggerer.
    :param ledger: The ledger.
    :param scope_ledger: The ledger of this batch's questions and of this try.
    :ivar requests: Latest request by question.
    :ivar ends: End by question.
    :ivar silence: Polls without an answer at the end of the wait; None if polls were answered.
    :ivar unrecorded: Number of accepted questions that the ledger could not record.
    """

    def __init__(
        self, job: AskJob, questions: Questions, state: BatchState, ledger: Ledger, scope_ledger: ScopeLedger
    ) -> None:
        self.requests: dict[str, Request] = {}
        self.ends: dict[str, End] = {}
        self.silence: Silence | None = None
        self.unrecorded = 0
        self._job = job
        self._conversations = list(questions.conversations())
        self._state = state
        self._ledger = ledger
        self._scope_ledger = scope_ledger
        self._earlier: dict[str, Earlier] = {}
        # Why nothing is sent any more in this try.
        self._stopped: AssistantError | None = None
        self._sender: Sender | None = None
        self._runner = CancellableRunner(
            "the task was ended from outside; a retry takes up the requests that are open",
            grace=GRACE,
            on_cancel=self._stop,
        )

    def begin(self, published: Mapping[str, End]) -> None:
        """
        Begin a try: keep the answers of earlier tries, and correct what a killed one left in the ledger.

        :param published: Answers in the output of an earlier try.
        :raises AssistantStorageError: The batch state cannot be written, and nothing was sent.
        """
        requests, saved = self._state.read()
        # An earlier try may have been killed before it recorded them.
        self._record_ends({**saved, **published})
        answers = {question_id: end for question_id, end in saved.items() if end.status == "complete"}
        found = self._read_earlier(requests, {**published, **answers})
        chats.correct(self._ledger, self._scope_ledger.scope, found.corrections)
        self.requests = {
            question_id: request._replace(is_reused=True) for question_id, request in self.requests.items()
        }
        self._state.begin(self.requests.values(), self.ends.values())

    def resume(self) -> None:
        """Go on with a try after it was deferred."""
        self._read_earlier(*self._state.read())

    def run(self, *, waits: bool = True, waited: bool = False) -> bool:
        """
        Ask the questions that are left, and wait for their answers.

        :param waits: Whether to wait for all answers. If not, all questions are sent that may be sent now.
        :param waited: Whether the open requests have been waited for already.
        :return: Whether there are requests to wait for.
        :raises AssistantIncompleteError: :meth:`end` was called.
        :raises AssistantError: No question was sent, or the error is one that Airflow must not retry.
        """
        return self._runner.run(self._run(waits=waits, waited=waited))

    def end(self) -> None:
        """Stop sending, and make :meth:`run` return within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    def close_sessions(self) -> tuple[int, int]:
        """
        Close the sessions of this batch that no retry needs (``POST …/chat/session/close``).

        Sessions that the source names stay open.

        :return: How many sessions were closed, and how many could not be.
        """
        sessions = ended_sessions(self._conversations, self.ends)
        if not sessions:
            return 0, 0
        return self._runner.run(close_sessions(self._job.settings, self._job.site_id, sessions))

    @property
    def size(self) -> int:
        """Number of questions. Equal rows are one."""
        return len(self._earlier)

    @property
    def maybe_second(self) -> set[str]:
        """The questions that this try, or an earlier one, may have asked twice."""
        found = {question_id for question_id, earlier in self._earlier.items() if earlier.is_maybe_second}
        # The ledger may not have recorded it.
        return found | {question_id for question_id, request in self.requests.items() if request.is_maybe_second}

    @property
    def open(self) -> list[Request]:
        """The requests without an end."""
        return [request for question_id, request in self.requests.items() if question_id not in self.ends]

    def record_ends(self) -> None:
        """Record in the ledger how the requests ended: a later try asks those again that have no answer."""
        try:
            self._record_ends(self.ends)
        except AssistantLedgerError as error:
            # The answers are written, and the next try records the ends.
            log.warning("How the requests ended is not recorded: %s", error)

    def _record_ends(self, ends: Mapping[str, End]) -> None:
        if self._job.mode == "sync":
            # The answer came with its request, which never was open.
            return
        found: dict[str, chats.RequestEnd] = {}
        for end in ends.values():
            if end.request_id:
                ended_at = datetime.fromtimestamp(end.ended_at, UTC)
                found[end.request_id] = chats.RequestEnd(end.status, ended_at, end.session_id)
        for request in self.open:
            if request.request_id:
                found[request.request_id] = chats.RequestEnd("timed_out", None, request.session_id)
        chats.record_ends(self._ledger.engine, self._scope_ledger.scope.site, found)

    # -- what is left --------------------------------------------------------------------------------

    def _read_earlier(self, requests: Mapping[str, Request], ends: Mapping[str, End]) -> EarlierTries:
        """Find out what is known of each question."""
        found = earlier_tries(
            self._conversations,
            requests,
            ends,
            self._ledger,
            self._scope_ledger,
            mode=self._job.mode,
            on_ambiguous=self._job.on_ambiguous,
        )
        self._earlier = found.questions
        self.requests, self.ends = found.requests, found.ends
        return found

    def _items(self) -> list[Item]:
        """Return the questions that may be sent now: the next one of each conversation, after the answers before it."""
        items: list[Item] = []
        for conversation in self._conversations:
            session = None
            for question in conversation:
                end = self.ends.get(question.question_id)
                if end is None and question.question_id not in self.requests:
                    items.append(self._item(question, session))
                if end is None or end.status != "complete":
                    break
                session = end.session_id
        return items

    def _item(self, question: Question, session: str | None) -> Item:
        number = self._earlier[question.question_id].latest + 1
        session = session or question.session(self._job.scope, number)
        message = question.message(session)
        site_id = self._job.site_id
        call: Any = endpoints.chat(site_id, message)
        if self._job.mode == "async":
            call = endpoints.submit_chat(site_id, message)
        details = {"mode": self._job.mode, "session_id": session}
        claim = Claim(question.key, question.label, number, question.question_id, details=details)
        return Item(claim, call, row=question)

    # -- rounds --------------------------------------------------------------------------------------

    async def _run(self, *, waits: bool, waited: bool) -> bool:
        retries = self._job.on_ambiguous == "retry"
        client = AssistantClient(self._job.settings.retrying(max_backoff=MAX_BACKOFF, retry_ambiguous=retries))
        async with client, Writer(self._state) as writer:
            self._writer = writer
            self._now = client.now
            if waited and self.open and not self.silence:
                # An answer may have come late, or could not be saved.
                await self._poll_once(client)
            while True:
                items = [] if self._stopped else self._items()
                waiting = [] if waited else self.open
                if not items and not (waiting and waits):
                    return bool(waiting)
                await self._round(client, items, waiting, waits=waits)
                if not waits and self.open:
                    return True
                waited = True

    async def _round(
        self, client: AssistantClient, items: Sequence[Item], waiting: Sequence[Request], *, waits: bool
    ) -> None:
        """Send questions and poll meanwhile; then wait for the answers, or leave that to the trigger."""
        poller = self._poller = self._new_poller(client, self._job.timeout)
        polling = asyncio.create_task(poller.run(waiting))
        try:
            if items:
                await self._send(client, poller, items)
            if waits:
                await self._wait(poller, polling)
            else:
                poller.stop()
                await asyncio.wait({polling}, timeout=GRACE)
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            for request in poller.schedule.waiting:
                self._writer.add(request)

    async def _poll_once(self, client: AssistantClient) -> None:
        poller = self._new_poller(client, timeout=0.0)
        poller.close()
        await poller.run(self.open)

    def _new_poller(self, client: AssistantClient, timeout: float) -> Poller:
        now = client.now()
        schedule = Schedule(interval=self._job.poll_interval, deadline=now + timeout, now=now)
        limit = self._job.settings.max_concurrency
        return Poller(client, self._job.site_id, schedule, on_end=self._ended, max_concurrency=limit)

    async def _wait(self, poller: Poller, polling: asyncio.Task[None]) -> None:
        """Wait until all requests have ended, or the deadline has passed."""
        if not self._stopped:
            poller.close()
            await polling
        else:
            # The client of a sender that has stopped sends nothing any more.
            async with AssistantClient(self._job.settings) as other:
                poller.use(other)
                poller.close()
                await polling
        self.silence = poller.schedule.silence(poller.now())

    async def _send(self, client: AssistantClient, poller: Poller, items: Sequence[Item]) -> None:
        """Send questions until all are sent, or nothing was accepted for as long as the batch waits for answers."""
        sender = self._sender = Sender(
            self._scope_ledger, client, on_outcome=self._count, on_lost=self._lost, outcome_of=outcome_of_reply
        )
        sending = asyncio.create_task(sender.run(iter(items)))
        # A reply that is on its way is waited for.
        patience = min(client.settings.timeout, LAST_POLL)
        try:
            while not sending.done():
                await asyncio.wait({sending}, timeout=max(0.0, poller.schedule.deadline + patience - poller.now()))
                if not sending.done() and poller.now() >= poller.schedule.deadline + patience:
                    await self._give_up(sender, sending)
            await sending
        except asyncio.CancelledError:
            if not sending.cancelled():
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                raise
        finally:
            self._sender = None
            self.unrecorded += sum(outcome.state == "created" for outcome in sender.unrecorded)
        self._stopped = sender.breaker.error
        if self._stopped:
            self._leave(items, self._stopped)

    async def _give_up(self, sender: Sender, sending: asyncio.Task[None]) -> None:
        timeout = f"timeout={self._job.timeout:g} s"
        sender.breaker.open(AssistantIncompleteError(f"the service has accepted no question for {timeout}"))
        await asyncio.wait({sending}, timeout=GRACE)
        sending.cancel()
        await asyncio.wait({sending})

    def _leave(self, items: Sequence[Item], error: AssistantError) -> None:
        """End the questions that were not sent, or raise the error that ends the task."""
        # Polls would meet a refused key as well.
        is_refused = not error.retryable or isinstance(error, AssistantAuthenticationError)
        is_fatal = is_refused or self._runner.is_cancelled
        if is_fatal or not (self.requests or self.ends):
            raise error
        log.warning("Not all questions could be submitted; waiting for those that were: %s", error)
        for item in items:
            question_id = item.row.question_id
            if question_id not in self.requests and question_id not in self.ends:
                self._not_submitted(item, f"{NOT_SUBMITTED}{error}")

    def _stop(self, error: AssistantIncompleteError) -> None:
        if self._sender:
            self._sender.breaker.open(error)

    # -- what happened to a question -------------------------------------------------------------------

    def _count(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        if reply is None:
            # A reason begins with its kind, such as "rejected: …".
            self._not_submitted(item, f"{outcome.state}: {outcome.error or ''}")
            return
        question: Question = item.row
        earlier = self._earlier[question.question_id]
        # The answer of a sync chat comes with its request.
        answer = reply if isinstance(reply, ChatAnswer) else None
        seconds = answer.call_info.seconds if answer else 0.0
        request = Request(
            question_id=question.question_id,
            request_id=reply.created_id,
            session_id=item.claim.details["session_id"],  # type: ignore[index]
            submitted_at=round(self._now() - seconds, 6),
            attempts=earlier.requests + item.attempts.sent,
            is_maybe_second=bool(outcome.ambiguous) or earlier.may_exist,
        )
        self.requests[question.question_id] = request
        self._writer.add(request)
        poller = self._poller
        poller.schedule.deadline = poller.now() + self._job.timeout
        if answer is None:
            poller.add(request)
        else:
            self._ended(
                request.end(
                    "complete",
                    seconds,
                    answer=answer.text,
                    raw=answer.raw_json,
                    confidence_level=answer.confidence_level,
                    confidence_score=answer.confidence_score,
                )
            )

    def _lost(self, item: Item) -> None:
        self._not_submitted(item, f"skipped: {ELSEWHERE}")

    def _not_submitted(self, item: Item, reason: str) -> None:
        question: Question = item.row
        now = round(self._now(), 6)
        self._ended(End(question.question_id, "not_submitted", now, error=reason, attempts=item.attempts.sent))

    def _ended(self, end: End) -> None:
        self.ends[end.question_id] = end
        self._writer.add(end)
