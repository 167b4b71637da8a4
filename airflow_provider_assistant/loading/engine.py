"""
Create documents concurrently, each exactly once.

A load runs in six steps: the preflight reads the whole source; :func:`.decisions.decide` selects the rows to send;
the tenant's limits are read before the first of them; :class:`.ledger_writer.LedgerWriter` claims them in groups; the
worker pool sends them through one rate-limited client; and the ledger writer records the outcomes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeAlias

from airflow_provider_assistant.api.document_routes import described
from airflow_provider_assistant.api.document_state import DEFAULT_WORDS
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
)
from airflow_provider_assistant.ledger import (
    Claim,
    ClaimOutcome,
    LedgerEntry,
    ScopeLedger,
    StaleDocument,
    outcome_of_error,
    outcome_of_reply,
)
from airflow_provider_assistant.ledger.document_changes import KnownDocument
from airflow_provider_assistant.loading import decisions
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decisions import NotSentError
from airflow_provider_assistant.loading.findings import Findings
from airflow_provider_assistant.loading.groups import SharedGroups, regroup
from airflow_provider_assistant.loading.guards import check_plan
from airflow_provider_assistant.loading.ledger_writer import Attempt, LedgerWriter
from airflow_provider_assistant.loading.limits import (
    NO_ROOM,
    ReadLimits,
    check_limits,
    known_limits,
    warn_of_unknown_documents,
)
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.managed_site import ManagedSite
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.preflight import LoadPlan, RowAction, plan_load
from airflow_provider_assistant.loading.report import PROGRESS, LoadReport, report_progress
from airflow_provider_assistant.loading.rows import PreparedRow, Rows
from airflow_provider_assistant.loading.settling import settle
from airflow_provider_assistant.loading.site_changes import SiteChanges, check_routes
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Rows looked up in the ledger per query. The lookup may be outdated by the time of the claim; the claim checks again.
LOOK_AHEAD = 200
# Consecutive rows that fail, after which the circuit breaker opens; at least max_concurrency.
BREAKER = 25
CANCELLED = "the load was ended from outside; a retry goes on with the others"

_RowWithEntry: TypeAlias = "tuple[PreparedRow, LedgerEntry | None]"


class Load:
    """
    Load one source once.

    :param ledger: None sends every row and records nothing.
    :param findings: Takes the rows that a person should look at.
    :param read_limits: Reads the tenant's limits. Called once, before the first row is sent, and not at all if no row
        is sent. None for no limits.
    :param site: The site, if the connection describes the routes of its documents. Ambiguous rows are looked up in its
        list before the first row is sent, and outdated documents are changed after the last one. Default: None.
    :param on_created: Called with the row and the reply each time the service acknowledges a row.
    """

    def __init__(
        self,
        client: LoadClient,
        rows: Rows,
        options: LoadOptions,
        *,
        ledger: ScopeLedger | None,
        findings: Findings,
        read_limits: ReadLimits | None = None,
        site: ManagedSite | None = None,
        on_created: Callable[[PreparedRow, ApiReply], None] = lambda _, __: None,
    ) -> None:
        self.counts = LoadCounts()
        self._report = LoadReport(
            self.counts,
            findings,
            site.routes.words if site else DEFAULT_WORDS,
            replaces=options.on_change == "replace",
            activates=options.activate,
        )
        self.gap = self._report.gap
        self.cause: AssistantError | None = None
        """Error of the last request whose row failed or is ambiguous; None if there is none."""
        self._client = client
        self._limiter = client.limiter
        self._rows = rows
        self._options = options
        self._ledger = ledger
        self._read_limits = read_limits
        self._site = site
        self._on_created = on_created
        # Number of rows that another task loads, or that do not fit into the tenant's limits.
        self._left_out = 0
        self._has_groups = ledger is not None and ledger.has_groups
        # Where to look for documents whose row is gone; what to do with them is in the options.
        self._missing_in = options.missing_in
        if ledger is None or (self._missing_in == "groups" and not self._has_groups):
            self._missing_in = None
        # All rows go to one site, so a 403 or a 404 concerns all of them.
        fatal = (AssistantPermissionError, AssistantNotFoundError)
        self._breaker = CircuitBreaker(
            max(BREAKER, options.max_concurrency),
            *fatal,
            on_open=self._stop_sending,
            waits=client.settings.retry.outage_seconds > 0,
        )
        client.limiter.progress = self._progress
        self._runner = CancellableRunner(CANCELLED, grace=GRACE, on_cancel=self._breaker.open)
        self._writer = LedgerWriter(
            ledger,
            options.max_concurrency,
            on_lost=self._count_lost,
            on_unsent=self._record_unsent,
            on_taken_over=self._report.taken_over,
        )
        self._started = self._last_report = time.monotonic()

    async def run(self) -> LoadCounts:
        """
        Load the rows and return their counts by outcome.

        :return: The counts, also available as :attr:`counts` while the load runs and after it failed.
        :raises AssistantInputError: The source as a whole cannot be loaded; nothing was sent.
        :raises AssistantError: An error stopped the load. :attr:`counts` and the ledger contain everything up to
            that point.
        """
        return await self._runner.arun(self._run())

    def cancel(self) -> None:
        """Stop sending and end the load within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    async def _run(self) -> LoadCounts:
        self._started = time.monotonic()
        check_routes(self._options, self._site)
        plan = plan_load(self._rows, self._ledger, has_groups=self._has_groups, tick=self._report_preflight)
        self.counts.rows = plan.rows
        if self._missing_in and not self._knows_what_is_gone(plan):
            self._missing_in = None
        self.counts.unchanged = plan.count(RowAction.UNCHANGED) + plan.count(RowAction.DUPLICATE)
        missing_documents = None
        try:
            self._report.source(self._rows.account)
            if self._options.strict:
                self._rows.account.check()
            if self._ledger:
                missing_documents = check_plan(plan, self._ledger, self._options, self._missing_in)
                if self._site and self._site.routes.list:
                    await self._settle(self._site, self._ledger, plan)
                self._report.created_earlier(self._ledger.documents_of_earlier_tries())
                self._mark_seen(self._ledger, plan)
            if plan.count(RowAction.SEND):
                await self._send_all(plan)
            if self._ledger and not self._breaker.is_open:
                await self._finish(self._ledger, plan, missing_documents)
        finally:
            # A stopped load counts the rows that it did not reach as failed.
            unreached_rows = plan.rows - self.counts.done
            self.counts.failed += unreached_rows
            self.counts.throttled = self._limiter.throttled
            self.counts.seconds = time.monotonic() - self._started
        if self._breaker.error:
            raise self._breaker.error
        return self.counts

    def _knows_what_is_gone(self, plan: LoadPlan) -> bool:
        """Return whether the plan has the key of every row, or of every row of a group."""
        if self._missing_in == "groups":
            return bool(plan.groups) or not plan.without_key
        if plan.without_key:
            log.warning(
                "%s without a key, or that cannot be read: no stale documents are looked for, because each document "
                "of the source may be that of such a row.",
                counted(plan.without_key, "row"),
            )
        # An empty source does not make every document stale.
        return plan.rows > 0 and not plan.without_key

    async def _settle(self, site: ManagedSite, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Record ambiguous rows as created whose documents are on the site."""
        await settle(site, self._client, ledger, self._rows, plan)

    async def _finish(self, ledger: ScopeLedger, plan: LoadPlan, missing_documents: int | None) -> None:
        """Update the ledger after all rows were sent, and list or remove the outdated documents."""
        if self._options.adopt:
            self._adopt(ledger, plan)
        if plan.is_regrouped:
            self._regroup(ledger)
        stale = self._stale(ledger, plan, missing_documents)
        if self._missing_in and self._options.removal is None:
            self._mark_stale(ledger, self._report.stale(stale))
            stale = iter(())
        if self._site and self._options.changes_site:
            removable = list(stale)
            self._mark_stale(ledger, [document.key for document in removable])
            await self._change_site(ledger, self._site, removable)

    def _mark_seen(self, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Record which rows that were gone are in the source again."""
        ledger.mark_seen(plan.has)

    def _mark_stale(self, ledger: ScopeLedger, keys: Sequence[str]) -> None:
        """Record which rows are gone. The pages list their documents until somebody has deleted them."""
        ledger.mark_stale(keys)

    def _stale(self, ledger: ScopeLedger, plan: LoadPlan, missing_documents: int | None) -> Iterator[StaleDocument]:
        """Yield the documents whose row is gone."""
        # Reading all entries to find none would take as long as a third of the preflight.
        if self._missing_in == "source" and missing_documents != 0:
            yield from ledger.stale(plan.has)
        if self._missing_in == "groups":
            shared = SharedGroups()
            yield from ledger.stale_in_groups(plan.groups, plan.has, on_shared=shared.add)
            shared.check()

    async def _change_site(self, ledger: ScopeLedger, site: ManagedSite, stale: Sequence[StaleDocument]) -> None:
        """Activate the source's documents, and remove outdated ones from use."""
        removable = self._removable(stale)
        created = ledger.created_ids() if removable else []
        changes = SiteChanges(self._client, site, self._options, ledger.changes(), self._report)
        await changes.apply(removable, created)

    def _removable(self, stale: Sequence[StaleDocument]) -> list[KnownDocument]:
        """Return the stale documents to remove, and report those that are kept."""
        if not stale:
            return []
        self.counts.stale = len(stale)
        documents = [KnownDocument.stale(document) for document in stale]
        if self.counts.failed or self.counts.ambiguous or self._left_out:
            # The row of such a document may be one of these.
            self._report.kept(documents, "rows of the source are not loaded yet")
            return []
        with_id = [document for document in documents if document.document_id]
        without_id = [document for document in documents if not document.document_id]
        self._report.kept(without_id, "the service returned no id when it was created")
        return with_id

    def _regroup(self, ledger: ScopeLedger) -> None:
        """Record the groups of rows that the ledger knows without a group, or in another one."""
        regroup(self._rows.fingerprints(), ledger)

    def _adopt(self, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Assign keys of other sources that are also in this source to this source."""
        adopted_keys = ledger.adopt(plan.has)
        if adopted_keys:
            log.warning("%s of other sources moved to source %r.", counted(adopted_keys, "key"), ledger.source)

    # -- decide and claim --------------------------------------------------------------------------

    async def _attempts(self, plan: LoadPlan, thread: ThreadPoolExecutor) -> AsyncIterator[Attempt]:
        """
        Yield the rows to send for which the tenant has room; count all others by their outcome.

        The thread reads the source and the ledger, so that reading does not delay requests.
        """
        # None for no limit.
        documents_left: int | None = None
        is_first = True
        async for row, entry in self._decided(plan, thread):
            if is_first:
                # Read the limits only if there is a row to send.
                documents_left = await self._documents_left(plan, thread)
                is_first = False
            if documents_left == 0:
                self._left_out += 1
                self._report.not_created("skipped", row, NO_ROOM)
                continue
            if documents_left is not None:
                documents_left -= 1
            fingerprint = row.fingerprint
            claim = Claim(
                key=fingerprint.key,
                label=row.readable_key,
                entry=entry,
                group=fingerprint.group,
                content_hash=fingerprint.content_hash,
            )
            yield Attempt(row, claim)

    async def _decided(self, plan: LoadPlan, thread: ThreadPoolExecutor) -> AsyncIterator[_RowWithEntry]:
        """Yield the rows that are new or to be created again; count all others by their outcome."""
        loop = asyncio.get_running_loop()
        groups = self._with_entries(plan)
        while not self._breaker.is_open:
            # None after the last group.
            group = await loop.run_in_executor(thread, next, groups, None)
            if group is None:
                return
            for row, entry in group:
                decision = decisions.decide(row, entry, self._options)
                self._apply(row, decision)
                if decision.is_sent:
                    yield row, entry
                if self._breaker.error:
                    return

    def _with_entries(self, plan: LoadPlan) -> Iterator[list[_RowWithEntry]]:
        """Yield groups of LOOK_AHEAD rows, each row with its ledger entry."""
        rows = self._rows.prepared(plan.to_send)
        while group := list(islice(rows, LOOK_AHEAD)):
            entry_by_key: Mapping[str, LedgerEntry] = {}
            if self._ledger:
                entry_by_key = self._ledger.entries([row.fingerprint.key for row in group])
            yield [(row, entry_by_key.get(row.fingerprint.key)) for row in group]

    def _apply(self, row: PreparedRow, decision: decisions.Decision) -> None:
        """Count a row that is not sent, and stop the load if the decision says so."""
        if decision.outcome:
            self._left_out += decision.reason == decisions.CLAIMED_ELSEWHERE
            self._report.not_created(decision.outcome, row, decision.reason, decision.document_id)
        if decision.error:
            self._breaker.open(decision.error)

    async def _documents_left(self, plan: LoadPlan, thread: ThreadPoolExecutor) -> int | None:
        """Read the tenant's limits, and return how many documents to create; None for all."""
        if self._read_limits is None:
            return None
        limits_reply = await self._read_limits()
        if limits_reply is None:
            return None
        limits = known_limits(limits_reply, self._options)
        to_send = plan.count(RowAction.SEND)
        loop = asyncio.get_running_loop()
        if self._ledger:
            await loop.run_in_executor(thread, warn_of_unknown_documents, limits, self._ledger, to_send)
        if limits.left is None or to_send <= limits.left:
            return None
        # Some of these rows may be bad, or not sent for another reason.
        documents = await loop.run_in_executor(thread, self._count_documents, plan)
        return check_limits(limits, documents, self._options.on_limit)

    def _count_documents(self, plan: LoadPlan) -> int:
        """Return how many documents the load would create."""
        count = 0
        for group in self._with_entries(plan):
            for row, entry in group:
                decision = decisions.decide(row, entry, self._options)
                if decision.is_sent:
                    count += 1
        return count

    # -- send and record ---------------------------------------------------------------------------

    async def _send_all(self, plan: LoadPlan) -> None:
        await self._client.prepare()
        try:
            async with asyncio.TaskGroup() as tasks:
                progress = tasks.create_task(report_progress(self.counts, self._limiter, self._started))
                tasks.create_task(
                    for_each(
                        self._writer,
                        self._send,
                        max_concurrency=self._options.max_concurrency,
                        breaker=self._breaker,
                        on_error=self._record_failure,
                        on_result=self._record_reply,
                        on_held=self._writer.hold,
                    )
                )
                await self._write_ledger(plan)
                progress.cancel()
        except BaseExceptionGroup as group:
            # The first error has cancelled the other tasks.
            raise group.exceptions[0] from None
        finally:
            self._writer.stop()
            unrecorded = self._writer.record_remaining()
            if self._ledger:
                if unrecorded or isinstance(self._breaker.error, AssistantLedgerError):
                    unrecorded = self._without_recorded(self._ledger, unrecorded)
                self._report.unrecorded(unrecorded)
                # A chat batch waits for its answers with an open ledger, but has no claims any more.
                self.gap.lease_seconds = self._ledger.release()

    def _without_recorded(self, ledger: ScopeLedger, outcomes: list[ClaimOutcome]) -> list[ClaimOutcome]:
        """Leave out the outcomes that the ledger has nevertheless: a commit may succeed without an answer."""
        try:
            recorded_keys = ledger.recorded([outcome.claim.key for outcome in outcomes])
        except AssistantLedgerError as error:
            self.gap.is_unreadable = True
            log.error("What the ledger has recorded cannot be read: %s", error.happened)  # noqa: TRY400
            return outcomes
        return [outcome for outcome in outcomes if outcome.claim.key not in recorded_keys]

    async def _write_ledger(self, plan: LoadPlan) -> None:
        with ThreadPoolExecutor(1, "ledger") as thread:
            try:
                await self._writer.run(self._attempts(plan, thread), thread)
            except AssistantError as error:
                # Requests in flight may finish, so that their outcomes are recorded and listed.
                self._breaker.open(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE):
                        await self._writer.drained()
                raise

    def _stop_sending(self, _error: AssistantError) -> None:
        """Send no further rows; requests in flight may finish."""
        self._limiter.stop(NotSentError("not sent: the load had stopped"))
        self._writer.stop()

    async def _send(self, attempt: Attempt) -> ApiReply:
        try:
            return await self._client.create(attempt, self.counts)
        except asyncio.CancelledError:
            self._record_failure(attempt, NotSentError("not sent: the load had ended"))
            raise

    def _record_reply(self, attempt: Attempt, reply: ApiReply) -> None:
        if isinstance(reply, CreatedDocument):
            reply = described(reply, self._site.routes if self._site else None)
        content_hash = attempt.row.fingerprint.content_hash
        outcome = outcome_of_reply(attempt.claim, content_hash, reply)
        self._report.created(attempt.row, reply, attempt.claim.entry, outcome.status)
        self._on_created(attempt.row, reply)
        self._writer.record(outcome)

    def _record_failure(self, attempt: Attempt, error: AssistantError) -> None:
        error = decisions.error_of_row(error, attempt.sent_error, attempt.ambiguous)
        failure = decisions.classify(error, attempt.ambiguous, self._options.on_ambiguous)
        self._report.not_created(failure.outcome, attempt.row, failure.reason)
        if failure.outcome != "rejected" and not isinstance(error, NotSentError):
            self.cause = error
        if failure.error:
            self._breaker.open(failure.error)
        outcome = outcome_of_error(
            attempt.claim,
            attempt.row.fingerprint.content_hash,
            error,
            failure.outcome,
            failure.ambiguous,
        )
        self._writer.record(outcome)

    def _record_unsent(self, attempt: Attempt) -> None:
        self._record_failure(attempt, NotSentError("not sent: the load had stopped"))

    def _count_lost(self, attempt: Attempt) -> None:
        self._report.not_created("skipped", attempt.row, decisions.CLAIMED_ELSEWHERE)

    def _progress(self) -> str:
        return f"done: {self.counts.done:,} of {counted(self.counts.rows, 'row')}"

    def _report_preflight(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._last_report >= PROGRESS:
            self._last_report = now
            log.info("Looked at %s so far; nothing has been sent yet.", counted(rows, "row"))
