"""
A batch: ask questions, each once, wait for their answers, and write them.

What is done is what the ledger recorded or the batch state saved. So a first try, a retry and a task that was
deferred do the same: they look at what is known of each question, and send and poll what is left, turn by turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer
from airflow_provider_assistant.asking.answers import (
    NOT_SUBMITTED,
    counts,
    output_table,
    published,
    write_findings,
    write_output,
)
from airflow_provider_assistant.asking.earlier import Attempts, Earlier, read_earlier, record_ends
from airflow_provider_assistant.asking.job import AskJob
from airflow_provider_assistant.asking.poller import LAST_POLL, Poller
from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.asking.sessions import close_sessions, ended_sessions
from airflow_provider_assistant.asking.state import Answer, Writer, merged, state_of
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantLedgerError,
)
from airflow_provider_assistant.ledger import Claim, Ledger, Outcome, Scope, chats, key_of
from airflow_provider_assistant.loading.decide import ELSEWHERE
from airflow_provider_assistant.loading.options import MAX_BACKOFF
from airflow_provider_assistant.sending.outcomes import Item
from airflow_provider_assistant.sending.sender import Sender
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class Batch:
    """
    Ask the questions of one task at one site.

    :param questions: The questions; None to go on with those of a task that was deferred.
    :ivar answers: What is known of each question, by its id.
    :ivar silence: Polls without an answer at the end of the wait; None if polls were answered.
    :ivar unrecorded: Number of accepted questions that the ledger could not record.
    """

    def __init__(self, job: AskJob, ledger: Ledger, questions: Questions | None) -> None:
        self.answers: dict[str, Answer] = {}
        self.silence: str | None = None
        self.unrecorded = 0
        self._job = job
        self._ledger = ledger
        # Sync and async requests of a question are two things: an answer of one is none of the other.
        scope = Scope(job.site, "chat", key_of(job.scope, job.mode))
        self._scope_ledger = ledger.of(scope, job.task, job.run)
        self._state = state_of(job.output, job.scope)
        self._is_resumed = questions is None
        if questions is None:
            questions = self._state.read_questions()
        else:
            self._state.write_questions(questions)
        self._questions = questions
        self._conversations = list(questions.conversations())
        self._attempts: dict[str, Attempts] = {}
        # Why nothing is sent any more in this try.
        self._stopped: AssistantError | None = None
        self._sender: Sender | None = None
        self._runner = CancellableRunner(
            "the task was ended from outside; a retry takes up the requests that are open",
            grace=GRACE,
            on_cancel=self._stop,
        )

    @contextlib.contextmanager
    def opened(self) -> Iterator[Batch]:
        """
        Return the batch for a ``with`` block, after a look at what is done already.

        :raises AssistantStorageError: The batch state cannot be written, and nothing was sent.
        """
        with self._scope_ledger:
            if self._is_resumed:
                self._read_earlier(self._state.read())
            else:
                self._begin(published(self._job.output, self._job.scope))
            yield self

    def run(self, *, waits: bool = True, on_progress: Callable[[int, int], None] | None = None) -> bool:
        """
        Ask the questions that are left, and wait for their answers.

        :param waits: Whether to wait for all answers. If not, all questions are sent that may be sent now.
        :param on_progress: Called with the number of questions that have ended, and that of all.
        :return: Whether there are requests to wait for.
        :raises AssistantIncompleteError: :meth:`end` was called.
        :raises AssistantError: No question was sent, or the error is one that Airflow must not retry.
        """
        self._on_progress = on_progress
        self._done = len(self.answers) - len(self.open)
        return self._runner.run(self._run(waits=waits))

    def end(self) -> None:
        """Stop sending, and make :meth:`run` return within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    def finish(self) -> tuple[pa.Table, dict[str, Any]]:
        """
        Close the sessions, write the output and the findings, and record how the requests ended.

        :return: The output, and its counts: see :func:`~airflow_provider_assistant.asking.answers.counts`; with
            ``sessions_closed``, ``sessions_not_closed`` and ``findings``, the path of the findings or None.
        """
        job = self._job
        closed, not_closed = self.close_sessions()
        table = output_table(self._questions, self.answers, self.silence)
        findings = write_findings(job.output, self._questions, self.answers, self.maybe_second, job.run.dag_id)
        write_output(table, job.output, job.scope, job.site, job.run.dag_id)
        try:
            self._record_ends(self.answers.values())
        except AssistantLedgerError as error:
            # The answers are written, and the next try records the ends.
            log.warning("How the requests ended is not recorded: %s", error)
        self._state.remove()
        result = counts(table, self.answers, self.maybe_second)
        if result["without_text"]:
            answers = counted(result["without_text"], "answer has", "answers have")
            log.warning("%s no text, and count as complete: see the column answer of %s.", answers, job.output)
        sessions = {"sessions_closed": closed, "sessions_not_closed": not_closed}
        return table, {**result, **sessions, "findings": findings}

    def close_sessions(self) -> tuple[int, int]:
        """Close the sessions that no retry needs; return how many were closed, and how many could not be."""
        sessions = ended_sessions(self._conversations, self.answers)
        if not sessions:
            return 0, 0
        closed = self._runner.run(close_sessions(self._job.settings, self._job.site.site_id, sessions))
        return closed, len(sessions) - closed

    @property
    def folder(self) -> str:
        """Folder of the batch state, for the trigger."""
        return str(self._state.folder)

    @property
    def size(self) -> int:
        """Number of questions. Equal rows are one."""
        return len(self._attempts)

    @property
    def open(self) -> list[Answer]:
        """The requests without an end."""
        return [answer for answer in self.answers.values() if answer.status == "open"]

    @property
    def maybe_second(self) -> set[str]:
        """The questions that this try, or an earlier one, may have asked twice."""
        found = {question_id for question_id, attempts in self._attempts.items() if attempts.is_maybe_second}
        # The ledger may not have recorded it.
        return found | {question_id for question_id, answer in self.answers.items() if answer.is_maybe_second}

    def _record_ends(self, answers: Iterable[Answer]) -> None:
        # The answer of a sync chat came with its request, which never was open.
        if self._job.mode == "async":
            record_ends(self._ledger, self._job.site, answers)

    def _begin(self, published: Mapping[str, Answer]) -> None:
        """Begin a try: keep the answers of earlier tries, and correct what a killed one left in the ledger."""
        saved = merged([*published.values(), *self._state.read().values()])
        # An earlier try may have been killed before it recorded them.
        self._record_ends(answer for answer in saved.values() if answer.status != "open")
        # Questions that failed, were lost or were not submitted are asked again.
        kept = {name: answer for name, answer in saved.items() if answer.status in {"open", "complete"}}
        earlier = self._read_earlier(kept)
        chats.correct(self._ledger, self._scope_ledger.scope, earlier.corrections)
        self.answers = {question_id: answer._replace(is_reused=True) for question_id, answer in self.answers.items()}
        self._state.begin(list(self.answers.values()))

    def _read_earlier(self, saved: Mapping[str, Answer]) -> Earlier:
        """Find out what is known of each question."""
        found = read_earlier(
            self._conversations,
            saved,
            self._ledger,
            self._scope_ledger,
            mode=self._job.mode,
            on_ambiguous=self._job.on_ambiguous,
        )
        self._attempts, self.answers = found.attempts, found.answers
        return found

    def _items(self) -> list[Item]:
        """Return the questions that may be sent now: the next one of each conversation, after the answers before it."""
        items: list[Item] = []
        for conversation in self._conversations:
            session = None
            for question in conversation:
                answer = self.answers.get(question.question_id)
                if answer is None:
                    items.append(self._item(question, session))
                if answer is None or answer.status != "complete":
                    break
                session = answer.session_id
        return items

    def _item(self, question: Question, session: str | None) -> Item:
        number = self._attempts[question.question_id].latest + 1
        session = session or question.session(self._job.scope, number)
        message = question.message(session)
        site_id = self._job.site.site_id
        call: Any = endpoints.chat(site_id, message)
        if self._job.mode == "async":
            call = endpoints.submit_chat(site_id, message)
        details = {"mode": self._job.mode, "session_id": session}
        claim = Claim(question.key, question.label, number, question.question_id, details=details)
        return Item(claim, call, row=question)

    async def _run(self, *, waits: bool) -> bool:
        retries = self._job.on_ambiguous == "retry"
        client = AssistantClient(self._job.settings.retrying(max_backoff=MAX_BACKOFF, retry_ambiguous=retries))
        # The trigger has waited for the open requests of a task that was deferred.
        waited = self._is_resumed
        async with client, Writer(self._state) as writer:
            self._writer = writer
            self._now = client.now
            if waited and self.open and not self.silence:
                # An answer may have come late, or could not be saved.
                await self._round(client, [], self.open, seconds=0.0)
            while True:
                items = [] if self._stopped else self._items()
                waiting = [] if waited else self.open
                if not items and not (waiting and waits):
                    return bool(waiting)
                await self._round(client, items, waiting, waits=waits, seconds=self._job.timeout)
                if not waits and self.open:
                    return True
                waited = True

    async def _round(
        self,
        client: AssistantClient,
        items: Sequence[Item],
        waiting: Sequence[Answer],
        *,
        seconds: float,
        waits: bool = True,
    ) -> None:
        """
        Send questions and poll meanwhile; then wait for the answers, or leave that to the trigger.

        :param seconds: Longest wait.
        """
        now = client.now()
        wait = Wait(interval=self._job.poll_interval, deadline=now + seconds, now=now)
        limit = self._job.settings.max_concurrency
        poller = self._poller = Poller(client, self._job.site.site_id, wait, on_end=self._ended, max_concurrency=limit)
        try:
            async with poller:
                for request in waiting:
                    poller.add(request)
                if items:
                    await self._send(client, poller, items)
                if waits and self._stopped:
                    # The client of a sender that has stopped sends nothing any more.
                    async with AssistantClient(self._job.settings) as poller.client:
                        await poller.finish()
                elif waits:
                    await poller.finish()
        finally:
            # With the number of their polls.
            for request in poller.open.values():
                self._writer.add(request)
        if waits:
            self.silence = wait.silence(poller.now())

    async def _send(self, client: AssistantClient, poller: Poller, items: Sequence[Item]) -> None:
        """Send questions until all are sent, or nothing was accepted for as long as the batch waits for answers."""
        sender = self._sender = Sender(
            self._scope_ledger,
            client,
            on_outcome=self._submitted,
            on_lost=lambda item: self._not_submitted(item, f"skipped: {ELSEWHERE}"),
        )
        giving_up: asyncio.Task[None] | None = None
        limit = asyncio.timeout(None)
        try:
            async with limit:
                giving_up = asyncio.create_task(self._give_up(sender, poller, limit))
                await sender.run(iter(items))
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._sender = None
            if giving_up:
                giving_up.cancel()
            self.unrecorded += sum(outcome.state == "created" for outcome in sender.unrecorded)
        self._stopped = sender.breaker.error
        if self._stopped:
            self._leave(items, self._stopped)

    async def _give_up(self, sender: Sender, poller: Poller, limit: asyncio.Timeout) -> None:
        # A reply that is on its way is waited for.
        patience = min(self._job.settings.timeout, LAST_POLL)
        # Each question that is accepted moves the deadline.
        while (left := poller.wait.deadline + patience - poller.now()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        timeout = f"timeout={self._job.timeout:g} s"
        sender.breaker.open(AssistantIncompleteError(f"the service has accepted no question for {timeout}"))
        limit.reschedule(asyncio.get_running_loop().time() + GRACE)

    def _leave(self, items: Sequence[Item], error: AssistantError) -> None:
        """End the questions that were not sent, or raise the error that ends the task."""
        # Polls would meet a refused key as well.
        is_refused = not error.retryable or isinstance(error, AssistantAuthenticationError)
        if is_refused or self._runner.is_cancelled or not self.answers:
            raise error
        log.warning("Not all questions could be submitted; waiting for those that were: %s", error)
        for item in items:
            if item.row.question_id not in self.answers:
                self._not_submitted(item, f"{NOT_SUBMITTED}{error}")

    def _stop(self, error: AssistantIncompleteError) -> None:
        if self._sender:
            self._sender.breaker.open(error)

    def _submitted(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        """Poll the request of a question, or keep its answer, or the reason why it has none."""
        if reply is None:
            # A reason begins with its kind, such as "rejected: …".
            self._not_submitted(item, f"{outcome.state}: {outcome.error or ''}")
            return
        question: Question = item.row
        attempts = self._attempts[question.question_id]
        # The answer of a sync chat comes with its request.
        answer = reply if isinstance(reply, ChatAnswer) else None
        now = self._now()
        request = Answer(
            question.question_id,
            request_id=reply.created_id,
            session_id=(item.claim.details or {})["session_id"],
            submitted_at=round(now - (answer.call_info.seconds if answer else 0.0), 6),
            attempts=attempts.requests + item.attempts.sent,
            is_maybe_second=bool(outcome.ambiguous) or attempts.may_exist,
        )
        poller = self._poller
        poller.wait.deadline = poller.now() + self._job.timeout
        if answer is None:
            self.answers[question.question_id] = request
            self._writer.add(request)
            poller.add(request)
            return
        self._ended(request.ended("complete", now, reply=answer))

    def _not_submitted(self, item: Item, reason: str) -> None:
        now = round(self._now(), 6)
        answer = Answer(item.row.question_id, "not_submitted", ended_at=now, error=reason, attempts=item.attempts.sent)
        self._ended(answer)

    def _ended(self, answer: Answer) -> None:
        self.answers[answer.question_id] = answer
        self._writer.add(answer)
        self._done += 1
        if self._on_progress:
            self._on_progress(self._done, self.size)
