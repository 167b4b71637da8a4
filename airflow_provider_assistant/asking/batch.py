"""One batch of questions: submitted once, waited for together, answered in one table."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant import tracing
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import ApiReply, ChatAnswer, SessionClose, checked
from airflow_provider_assistant.asking import answers
from airflow_provider_assistant.asking.journal import Journal, recording
from airflow_provider_assistant.asking.poller import Ended, Pending, Poller
from airflow_provider_assistant.asking.questions import Questions, asked_as
from airflow_provider_assistant.client import AssistantClient, ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantLedgerError,
    AssistantNotFoundError,
)
from airflow_provider_assistant.lake import storable, storing
from airflow_provider_assistant.ledger import BatchLedger, End, key_of
from airflow_provider_assistant.loading.interruptible import Interruptible
from airflow_provider_assistant.loading.limited import LimitedClient
from airflow_provider_assistant.loading.loader import Load, LoadOptions
from airflow_provider_assistant.loading.report import Counts, Findings, Kind
from airflow_provider_assistant.loading.rows import Digest, Item

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.loading.source import Path_

Mode: TypeAlias = Literal["async", "sync"]
# Ends after which polling the request again is of no use.
USELESS = {"failed", "lost"}
# What it means that a file of the batch cannot be written.
UNHARMED = "a retry takes up what was submitted"

log = logging.getLogger(__name__)


class Batch:
    """
    The questions of one task on one site.

    :param settings: Of the connection; ``max_concurrency`` holds for this batch.
    :param site_id: The site.
    :param mode: ``async`` submits and polls, ``sync`` holds a request for every answer.
    :param output: The table of questions and answers.
    :param scope: The task and, where it is told to ask anew, which time: what tells its requests from others.
    :param memory: The ledger's questions of this scope, or None.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        mode: Mode,
        output: ObjectStoragePath,
        scope: str,
        memory: BatchLedger | None,
    ) -> None:
        self.journal = Journal(folder_of(output, scope))
        self._settings = settings
        self._site_id = site_id
        self._mode = mode
        self._output = output
        self._scope = scope
        self._memory = memory
        # Of the submissions of this try.
        self.counts: Counts | None = None
        self._running: Load | None = None
        self._work = Interruptible("the task was ended from outside; a retry takes up the requests that are open")

    # -- asking ------------------------------------------------------------------------------------

    def submit(self, questions: Questions) -> None:
        """
        Submit what has not been submitted, and write down what was asked.

        :raises AssistantError: Nothing can be waited for: the service refused as a whole, or nothing came of it; or
            answers could not be noted down.
        """
        self.journal.check()
        digests = questions.digests()
        names = [asked_as(digest) for digest in digests]
        earlier = self._earlier(questions, names)
        # A try that was killed may have come so far, but not to this.
        self._forget_useless({end.asked_as for end in earlier.values() if end.status in USELESS})
        if self._memory and self._mode == "sync":
            self._forget_unanswered(digests, names, earlier)
        reasons: dict[int, str] = {}
        asked: dict[str, tuple[str | None, float, int]] = {}
        with _Findings(findings_of(self._output), reasons) as findings:
            counts, error = asyncio.run(self._submit(questions, findings, asked))
        if not findings.count:
            findings.path.unlink(missing_ok=True)  # an earlier run's
        if self._memory:
            wanted = set(digests)
            for one in self._memory.standing():
                if (one.key, one.content_hash) in wanted:
                    asked[one.key] = (one.document_id, one.settled_at.timestamp(), one.attempts)
        if error and not asked:
            raise error
        # Rows that ask the same have one fate.
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
        # Questions belong to one task, and every night may ask others.
        options = LoadOptions(max_concurrency=self._settings.max_concurrency, allow_mass_change=True)
        async with AssistantClient(self._settings) as client, recording(self.journal) as record:

            def note(item: Item, reply: ApiReply) -> None:
                now, exchange = round(client.now(), 6), reply.exchange
                asked[item.digest.key] = (reply.created_id, now, exchange.attempts)
                if isinstance(reply, ChatAnswer):
                    name, seconds = asked_as(item.digest), round(exchange.seconds, 6)
                    answer = (reply.text, None, reply.raw, now, seconds)
                    record(Ended(name, reply.request_id, "complete", *answer, polls=0, latency=seconds))

            load = Load(
                client,
                questions.rows(self._call),
                options,
                memory=self._memory,
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
                log.warning("Not all questions could be submitted; going on with those that were: %s", error)
                return load.counts, error
            finally:
                self._running = None
                log.info("Site %r, %s.", self._site_id, load.counts)

    def _call(self, message: Any) -> Any:
        make = endpoints.chat if self._mode == "sync" else endpoints.submit_chat
        return make(self._site_id, message)

    def _earlier(self, questions: Questions, names: list[str]) -> dict[str, Ended]:
        """Return the answers of earlier tries, and see to it that they are found in the journal."""
        known = {answer.asked_as: answer for answer in self.journal.read_answers()}
        before = answers.published(self._output, self._scope)
        identities = zip(
            questions.labels(), _texts(questions.field("message")), _texts(questions.field("session_id")), strict=True
        )
        again: list[Ended] = []
        for identity, name in zip(identities, names, strict=True):
            if answer := before.get(identity):
                again.append(replace(answer, asked_as=name if self._mode == "sync" else answer.asked_as))
        if again := [answer for answer in again if answer.asked_as not in known]:
            self.journal.write_answers(again)
        return known | {answer.asked_as: answer for answer in again}

    def _forget_unanswered(self, digests: list[Digest], names: list[str], known: dict[str, Ended]) -> None:
        """Ask again what was answered to a try that was killed before it had written the answer down."""
        if self._memory:
            unanswered = {digest for digest, name in zip(digests, names, strict=True) if name not in known}
            lost = [one.key for one in self._memory.standing() if (one.key, one.content_hash) in unanswered]
            self._memory.withdraw(lost, "its answer was lost with the try that asked", ambiguous=True)

    def _forget_useless(self, requests: set[str]) -> None:
        """Let a later try ask anew what failed or was lost."""
        if self._memory and requests:
            keys = [one.key for one in self._memory.standing() if one.document_id in requests]
            self._memory.withdraw(keys, "its request failed or was lost")

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
        Wait for what is open, and write down what came.

        :param interval: The longest time between two polls of one request, in seconds.
        :param deadline: When to give up, in seconds since the epoch; every request is polled at least once.
        :raises AssistantAPIError: 401 or 403.
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
        """Close the conversations of the questions that have ended; return how many were closed, and how many not."""
        rows = set(zip(table["session_id"].to_pylist(), table["status"].to_pylist(), strict=True))
        ended = {session for session, status in rows if session and status in {"complete", "failed"}}
        # A conversation may have another question, which a retry waits for.
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
                        # Not found is what an earlier try has closed.
                        with contextlib.suppress(AssistantNotFoundError):
                            await client.asend(endpoints.close_session(self._site_id, message))
                        closed += 1
                    except AssistantError as error:
                        failed += 1
                        if failed == 1:
                            log.warning("A session could not be closed: %s", error)

            await asyncio.gather(*(work() for _ in range(self._settings.max_concurrency)))
        return closed, failed

    def _limited(self) -> LimitedClient:
        return LimitedClient(self._settings)

    # -- the end -----------------------------------------------------------------------------------

    def table(self) -> pa.Table:
        """Return questions and answers as far as they are written down."""
        ended = {answer.asked_as: answer for answer in sorted(self.journal.read_answers(), key=_ended_at)}
        return answers.joined(answers.read_snapshot(self.journal.snapshot), ended)

    def publish(self, table: pa.Table) -> None:
        """
        Write the output, and have the ledger know how the requests ended.

        Those that failed or were lost are withdrawn from it: a later try makes them anew.
        """
        answers.publish(table, self._output, self._scope)
        columns = (table[name].to_pylist() for name in ("request_id", "status", "completed_at", "session_id"))
        ends = {request_id: End(*end) for request_id, *end in zip(*columns, strict=True) if request_id}
        if self._memory and self._mode == "async":
            try:
                self._memory.ended(ends)
            except AssistantLedgerError as error:
                # Nothing depends on it, and the answers are written.
                log.warning("How the requests ended is not recorded: %s", error)
        try:
            self._forget_useless({request_id for request_id, end in ends.items() if end.state in USELESS})
        except AssistantLedgerError as error:
            # A later try does it before it asks.
            log.warning("That requests failed or were lost is not recorded: %s", error)
        self.journal.remove()

    def end(self) -> None:
        """Send nothing more, and end within a few seconds; may be called by a signal handler."""
        self._work.end()
        if self._running:
            self._running.end()


def folder_of(output: ObjectStoragePath, scope: str) -> str:
    """Return the folder of a task's journal: beside the output, under a name that readers of datasets skip."""
    return str(output.parent / f".{output.name}.{key_of(scope)[:8]}.asking")


def findings_of(output: ObjectStoragePath) -> Path_:
    """Return where the list of questions that want attention goes, beside the output."""
    return output.parent / f".{output.stem}.findings.parquet"


def _texts(values: list[Any]) -> list[str | None]:
    """Return texts as Parquet can hold them; what is no text was not sent."""
    return [storable(value) if isinstance(value, str) else None for value in values]


def _ended_at(answer: Ended) -> float:
    return answer.ended_at


class _Findings(Findings):
    """Findings that also stand beside their question."""

    def __init__(self, path: Path_, reasons: dict[int, str]) -> None:
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
