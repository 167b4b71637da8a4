"""One chat batch: submit each question once, wait for all answers, write one table."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import ApiReply, ChatAnswer, SessionClose, checked
from airflow_provider_assistant.chat_batch import answers
from airflow_provider_assistant.chat_batch.poller import FinishedRequest, Pending, Poller
from airflow_provider_assistant.chat_batch.questions import Questions, asked_as
from airflow_provider_assistant.chat_batch.state import BatchState, recording
from airflow_provider_assistant.client.cancellation import CancellableRunner
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantLedgerError,
    AssistantNotFoundError,
)
from airflow_provider_assistant.lake import storable, storing
from airflow_provider_assistant.ledger import BatchLedger, RequestEnd, key_of
from airflow_provider_assistant.loading.engine import Load, LoadOptions
from airflow_provider_assistant.loading.report import Counts, Findings, Kind
from airflow_provider_assistant.loading.rows import PreparedRow, RowFingerprint
from airflow_provider_assistant.observability import tracing

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.storage.paths import StoragePath

Mode: TypeAlias = Literal["async", "sync"]
# Final states without an answer: a later attempt submits the question again.
UNANSWERED = {"failed", "lost"}
# What a retry does after a file of the batch could not be written, for the message.
UNHARMED = "a retry takes up what was submitted"

log = logging.getLogger(__name__)


class Batch:
    """
    Submit the questions of one task to one site, collect the answers, and write the output.

    :param settings: Settings of the client; ``max_concurrency`` applies to this batch.
    :param site_id: Id of the site.
    :param mode: ``async`` submits all questions and polls the chat requests (``POST …/chat/async``); ``sync`` waits for
        each answer in its own round trip (``POST …/chat``).
    :param output: Parquet file for the questions and answers.
    :param scope: Scope of the ledger entries and session ids: the task and, if it must ask again, which run.
    :param ledger: Ledger entries of this scope; None to record nothing.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        mode: Mode,
        output: ObjectStoragePath,
        scope: str,
        ledger: BatchLedger | None,
    ) -> None:
        self.journal = BatchState(folder_of(output, scope))
        self._settings = settings
        self._site_id = site_id
        self._mode = mode
        self._output = output
        self._scope = scope
        self._ledger = ledger
        # Counts of the submissions in this attempt.
        self.counts: Counts | None = None
        self._running: Load | None = None
        self._work = CancellableRunner("the task was ended from outside; a retry takes up the requests that are open")

    # -- asking ------------------------------------------------------------------------------------

    def submit(self, questions: Questions) -> None:
        """
        Submit the questions that no earlier attempt has submitted, and save all of them in the batch state.

        :param questions: All questions of the source.
        :raises AssistantStorageError: The batch state cannot be written.
        :raises AssistantError: No question was submitted, or the error is one that Airflow must not retry.
        """
        self.journal.check()
        digests = questions.digests()
        names = [asked_as(digest) for digest in digests]
        earlier = self._earlier(questions, names)
        # publish() withdraws these entries too, but an earlier attempt may have been killed before it.
        self._withdraw_failed({end.asked_as for end in earlier.values() if end.status in UNANSWERED})
        if self._ledger and self._mode == "sync":
            self._withdraw_unanswered(digests, names, earlier)
        reasons: dict[int, str] = {}
        asked: dict[str, tuple[str | None, float, int]] = {}
        with _Findings(findings_of(self._output), reasons) as findings:
            counts, error = asyncio.run(self._submit(questions, findings, asked))
        if not findings.count:
            findings.path.unlink(missing_ok=True)  # the file of an earlier run
        if self._ledger:
            wanted = set(digests)
            for one in self._ledger.created_entries():
                if (one.key, one.content_hash) in wanted:
                    asked[one.key] = (one.created_id, one.recorded_at.timestamp(), one.attempts)
        if error and not asked:
            raise error
        # Duplicate questions are submitted once and share the outcome.
        keys = [digest.key for digest in digests]
        why = {keys[number - 1]: reason for number, reason in reasons.items()}
        facts = {
            "submitted": counts.created,
            "reused": sum(key in asked for key in keys) - counts.created,
            "rejected": sum(why.get(key, "").startswith("rejected") for key in keys),
            "possibly_duplicated": counts.possibly_duplicated,
            "findings": findings.listed,
        }
        self._write_down(questions, keys, names, asked, why, error, facts)

    async def _submit(
        self, questions: Questions, findings: Findings, asked: dict[str, tuple[str | None, float, int]]
    ) -> tuple[Counts, AssistantError | None]:
        # Each run may ask other questions, so a mass change is normal here.
        options = LoadOptions(max_concurrency=self._settings.max_concurrency, allow_mass_change=True)
        async with AssistantClient(self._settings) as client, recording(self.journal) as record:

            def note(item: PreparedRow, reply: ApiReply) -> None:
                now, exchange = round(client.now(), 6), reply.call_info
                asked[item.digest.key] = (reply.created_id, now, exchange.attempts)
                if isinstance(reply, ChatAnswer):
                    name, seconds = asked_as(item.digest), round(exchange.seconds, 6)
                    answer = (reply.text, None, reply.raw, now, seconds)
                    record(FinishedRequest(name, reply.request_id, "complete", *answer, polls=0, latency=seconds))

            load = Load(
                client,
                questions.rows(self._call),
                options,
                ledger=self._ledger,
                findings=findings,
                judge_stale=False,
                on_created=note,
            )
            self._running, self.counts = load, load.counts
            try:
                with tracing.span("submit", site_id=self._site_id, mode=self._mode):
                    return await load.run(), None
            except AssistantError as error:
                if self._work.is_ended or isinstance(error, AirflowFailException):
                    raise
                log.warning("Not all questions could be submitted; waiting for those that were: %s", error)
                return load.counts, error
            finally:
                self._running = None
                log.info("Site %r, %s.", self._site_id, load.counts)

    def _call(self, message: Any) -> Any:
        make = endpoints.chat if self._mode == "sync" else endpoints.submit_chat
        return make(self._site_id, message)

    def _earlier(self, questions: Questions, names: list[str]) -> dict[str, FinishedRequest]:
        """Return the answers of earlier attempts, and add those of the last output to the batch state."""
        known = {answer.asked_as: answer for answer in self.journal.read_answers()}
        before = answers.published(self._output, self._scope)
        identities = zip(
            questions.labels(), _texts(questions.field("message")), _texts(questions.field("session_id")), strict=True
        )
        again: list[FinishedRequest] = []
        for identity, name in zip(identities, names, strict=True):
            if answer := before.get(identity):
                again.append(replace(answer, asked_as=name if self._mode == "sync" else answer.asked_as))
        if again := [answer for answer in again if answer.asked_as not in known]:
            self.journal.write_answers(again)
        return known | {answer.asked_as: answer for answer in again}

    def _withdraw_unanswered(
        self, digests: list[RowFingerprint], names: list[str], known: dict[str, FinishedRequest]
    ) -> None:
        """
        Withdraw the ledger entries of questions whose answer was lost, so that they are submitted again.

        A previous attempt received such an answer, but was killed before saving it.
        """
        if self._ledger:
            unanswered = {digest for digest, name in zip(digests, names, strict=True) if name not in known}
            lost = [one.key for one in self._ledger.created_entries() if (one.key, one.content_hash) in unanswered]
            self._ledger.withdraw(lost, "its answer was lost with the attempt that asked", ambiguous=True)

    def _withdraw_failed(self, requests: set[str]) -> None:
        """Withdraw the ledger entries of failed and lost chat requests, so that a later attempt asks again."""
        if self._ledger and requests:
            keys = [one.key for one in self._ledger.created_entries() if one.created_id in requests]
            self._ledger.withdraw(keys, "its request failed or was lost")

    def _write_down(
        self,
        questions: Questions,
        keys: list[str],
        names: list[str],
        asked: dict[str, tuple[str | None, float, int]],
        why: dict[str, str],
        error: AssistantError | None,
        facts: dict[str, Any],
    ) -> None:
        nothing = (None, None, 0)
        found = [asked.get(key, nothing) for key in keys]
        reason = f"not submitted: {error}" if error else None
        is_sync = self._mode == "sync"
        columns: dict[str, list[Any]] = {
            "key": questions.labels(),
            "message": _texts(questions.field("message")),
            "error": [why.get(key, None if one[1] else reason) for key, one in zip(keys, found, strict=True)],
            "request_id": [request_id for request_id, _, _ in found],
            "session_id": _texts(questions.field("session_id")),
            "submitted_at": [at and datetime.fromtimestamp(at, UTC) for _, at, _ in found],
            "attempts": [attempts for _, _, attempts in found],
            answers.ASKED_AS: names if is_sync else [request_id for request_id, _, _ in found],
        }
        answers.snapshot(
            columns, questions.carried(), facts, self.journal.snapshot, own_sessions=questions.own_sessions
        )
        pending = [] if is_sync else [Pending(request_id, at) for request_id, at, _ in found if request_id and at]
        self.journal.write_pending({one.request_id: one for one in pending}.values())

    # -- waiting -----------------------------------------------------------------------------------

    def collect(self, *, interval: float, deadline: float) -> None:
        """
        Poll the open chat requests until all have ended or the deadline passes, and save the answers.

        :param interval: Maximum time between two polls of one chat request, in seconds.
        :param deadline: Time at which to stop polling, in seconds since the epoch; each chat request is polled at least
            once.
        :raises AssistantAPIError: The service answered a poll with 401 or 403.
        """
        if pending := self.journal.read_open():
            self._work.run(self._collect(pending, interval, deadline))

    async def _collect(self, pending: list[Pending], interval: float, deadline: float) -> None:
        async with self._limited() as client, recording(self.journal) as record:
            poller = Poller(
                client,
                site_id=self._site_id,
                interval=interval,
                deadline=deadline,
                max_concurrency=self._settings.max_concurrency,
                on_end=record,
            )
            try:
                await poller.run(pending)
            finally:
                log.info("%s", poller)

    def close_sessions(self, table: pa.Table) -> tuple[int, int]:
        """
        Close the sessions whose questions have all ended (``POST …/chat/session/close``).

        :param table: The table of :meth:`table`.
        :return: How many sessions were closed, and how many could not be.
        """
        rows = set(zip(table["session_id"].to_pylist(), table["status"].to_pylist(), strict=True))
        ended = {session for session, status in rows if session and status in {"complete", "failed"}}
        # Keep a session open if another of its questions is pending: a retry waits for it.
        sessions = sorted(ended - {session for session, status in rows if status == "timed_out"})
        return self._work.run(self._close_sessions(sessions)) if sessions else (0, 0)

    async def _close_sessions(self, sessions: Iterable[str]) -> tuple[int, int]:
        waiting, closed, failed = iter(sessions), 0, 0
        async with self._limited() as client:

            async def work() -> None:
                nonlocal closed, failed
                for session in waiting:
                    message = checked(SessionClose, {"session_id": session})
                    try:
                        # A 404 means that an earlier attempt has closed the session.
                        with contextlib.suppress(AssistantNotFoundError):
                            await client.asend(endpoints.close_session(self._site_id, message))
                        closed += 1
                    except AssistantError as error:
                        failed += 1
                        if failed == 1:
                            log.warning("A session could not be closed: %s", error)

            await asyncio.gather(*(work() for _ in range(self._settings.max_concurrency)))
        return closed, failed

    def _limited(self) -> RateLimitedClient:
        return RateLimitedClient(self._settings)

    # -- the end -----------------------------------------------------------------------------------

    def table(self) -> pa.Table:
        """
        Return all questions with the answers so far, from the batch state.

        :return: A table with the columns of :data:`.answers.COLUMNS` and the source's other columns.
        """
        ended = {answer.asked_as: answer for answer in sorted(self.journal.read_answers(), key=_ended_at)}
        return answers.joined(answers.read_snapshot(self.journal.snapshot), ended)

    def publish(self, table: pa.Table) -> None:
        """
        Write the output, record in the ledger how the chat requests ended, and remove the batch state.

        The ledger entries of failed and lost chat requests are withdrawn, so that a later attempt asks again.

        :param table: The table of :meth:`table`.
        :raises AssistantStorageError: The output cannot be written.
        """
        answers.publish(table, self._output, self._scope)
        columns = (table[name].to_pylist() for name in ("request_id", "status", "completed_at", "session_id"))
        ends = {request_id: RequestEnd(*end) for request_id, *end in zip(*columns, strict=True) if request_id}
        if self._ledger and self._mode == "async":
            try:
                self._ledger.record_ends(ends)
            except AssistantLedgerError as error:
                # Do not fail: the answers are written, and no other task depends on these entries.
                log.warning("How the requests ended is not recorded: %s", error)
        try:
            self._withdraw_failed({request_id for request_id, end in ends.items() if end.state in UNANSWERED})
        except AssistantLedgerError as error:
            # Do not fail: submit() of a later attempt withdraws them.
            log.warning("The failed and lost requests are not withdrawn from the ledger: %s", error)
        self.journal.remove()

    def end(self) -> None:
        """Stop sending, and make the running call return within a few seconds; safe in a signal handler."""
        self._work.end()
        if self._running:
            self._running.end()


def folder_of(output: ObjectStoragePath, scope: str) -> str:
    """
    Return the folder of a task's batch state: next to the output, with a name that dataset readers skip.

    :param output: Output file of the task.
    :param scope: Scope of the batch, as in :class:`Batch`.
    """
    return str(output.parent / f".{output.name}.{key_of(scope)[:8]}.chat-batch")


def findings_of(output: ObjectStoragePath) -> StoragePath:
    """
    Return the path of the findings: next to the output, with a name that dataset readers skip.

    :param output: Output file of the task.
    """
    return output.parent / f".{output.stem}.findings.parquet"


def _texts(values: list[Any]) -> list[str | None]:
    """Return texts that Parquet can store; None for other values, which were not sent."""
    return [storable(value) if isinstance(value, str) else None for value in values]


def _ended_at(answer: FinishedRequest) -> float:
    return answer.ended_at


class _Findings(Findings):
    """Findings whose reasons are also written to the output, by row."""

    def __init__(self, path: StoragePath, reasons: dict[int, str]) -> None:
        super().__init__(path, always=False)
        self._reasons = reasons

    def add(
        self, kind: Kind, key: str, reason: str, *, row: int | None = None, document_ids: list[str] | None = None
    ) -> None:
        with storing(self.path, UNHARMED):
            super().add(kind, key, reason, row=row, document_ids=document_ids)
        if row is not None and kind in {"rejected", "failed", "ambiguous", "skipped"}:
            self._reasons[row] = storable(f"{kind}: {reason}")

    def close(self) -> None:
        with storing(self.path, UNHARMED):
            super().close()
