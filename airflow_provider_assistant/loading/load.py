"""
Load the rows of a source, each once.

A load has five steps: it plans all rows; checks the plan; sends the rows that are new; makes the site equal to the
source; and reports what a person should look at.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api.document_routes import DocumentRoutes, described
from airflow_provider_assistant.api.document_state import DEFAULT_WORDS
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.client.cancellation import CancellableRunner
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger import Filter, Ledger, Outcome, ScopeLedger, queries
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decide import PlannedRow, decide
from airflow_provider_assistant.loading.elsewhere import attempts_elsewhere
from airflow_provider_assistant.loading.findings import LOGGED, FindingsFile
from airflow_provider_assistant.loading.guards import check_plan, wrong_mapping
from airflow_provider_assistant.loading.limits import log_limits
from airflow_provider_assistant.loading.options import MAX_BACKOFF, LoadOptions
from airflow_provider_assistant.loading.plan import CHANGES, Plan
from airflow_provider_assistant.loading.progress import Preflight, log_progress, log_rejected, progress_of
from airflow_provider_assistant.loading.reconcile import Reconciliation
from airflow_provider_assistant.loading.report import Report
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.loading.share import settle_conflicts, settle_twins, share
from airflow_provider_assistant.loading.site import SiteChanges, check_routes
from airflow_provider_assistant.loading.site_client import SiteClient
from airflow_provider_assistant.sending.outcomes import Item, has_existed, outcome_of_reply
from airflow_provider_assistant.sending.sender import Sender
from airflow_provider_assistant.texts import counted, escaped

# A load stops if the service rejects this many first rows, and has accepted none before: the mapping is wrong.
FIRST_ROWS = 25
STOPPED = "the load was ended from outside; a retry goes on with the others"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadJob:
    """
    Describe a load.

    :param rows: Returns the rows of the source.
    :param settings: Settings of the connection's client.
    :param routes: Routes of the site's documents; None if the connection describes none.
    :param tenant_id: Tenant whose limits are logged; None if it is not known.
    :param has_whole_source: Whether this task reads its whole source. A mapped task does not.
    :param dry_run: Whether to stop after the plan.
    """

    rows: Callable[[], Rows]
    options: LoadOptions
    settings: ClientSettings
    routes: DocumentRoutes | None = None
    tenant_id: str | None = None
    has_whole_source: bool = True
    dry_run: bool = False


class Load:
    """
    Run a load.

    :param scope_ledger: The ledger of this load's scope and try.
    :param findings: Takes the rows that a person should look at.
    :param client: Default: a new one with the job's settings.
    :ivar counts: Counts of the rows, also while the load runs and after it failed.
    :ivar documents: Number of documents of the source after the load; None if it did not run to its end.
    :ivar sent: Labels of the first rows that were created, or that a dry run would send.
    :ivar left_to_others: Number of rows that other tasks were sending, and have not loaded.
    :ivar unrecorded: Outcomes that the ledger could not record.
    :ivar is_unreadable: Whether the ledger could not be read when the load ended.
    """

    def __init__(
        self,
        job: LoadJob,
        ledger: Ledger,
        scope_ledger: ScopeLedger,
        findings: FindingsFile,
        client: AssistantClient | None = None,
    ) -> None:
        self.options = job.options
        self.findings = findings
        self.counts = LoadCounts()
        self.documents: int | None = None
        self.sent: list[str] = []
        self.left_to_others = 0
        self.unrecorded: list[Outcome] = []
        self.is_unreadable = False
        self._job = job
        self._ledger = ledger
        self._scope_ledger = scope_ledger
        self._of_source = (scope_ledger.scope, scope_ledger.source)
        may_repeat = job.options.on_ambiguous == "retry"
        self._client = client or AssistantClient(
            job.settings.retrying(max_backoff=MAX_BACKOFF, retry_ambiguous=may_repeat)
        )
        self._client.throttle.progress = lambda: progress_of(self.counts)
        self._sender = Sender(
            scope_ledger,
            self._client,
            on_outcome=self._count,
            on_lost=lambda item: self._elsewhere.append(item.claim.key),
            outcome_of=self._outcome_of,
            stopped=STOPPED,
        )
        # Ends what comes after sending.
        self._runner = CancellableRunner(STOPPED)
        self._report = Report(findings, job.routes.words if job.routes else DEFAULT_WORDS)
        self._stale: list[Mapping[str, Any]] = []
        # Keys of rows that another task has claimed since they were planned.
        self._elsewhere: list[str] = []
        # Reason by content hash.
        self._rejected: dict[str, str] = {}
        # Rows whose content the service has already, with their attempt.
        self._conflicts: list[PlannedRow] = []
        # Number of the rows that the service rejected.
        self._refused = 0
        self._has_known_documents = False
        self._started = time.monotonic()

    @property
    def cause(self) -> AssistantError | None:
        """Error of the last request whose row failed or is ambiguous; None if there is none."""
        return self._sender.cause

    def cancel(self) -> None:
        """Stop sending or changing the site, within a few seconds. A signal handler may call this."""
        self._sender.cancel()
        self._runner.cancel()

    async def run(self) -> LoadCounts:
        """
        Load the rows and return their counts by outcome.

        :raises AssistantInputError: The source as a whole cannot be loaded; nothing was sent.
        :raises AssistantError: An error stopped the load. :attr:`counts` and the ledger contain everything up to
            that point.
        """
        self._started = time.monotonic()
        check_routes(self.options, self._job.routes)
        async with self._client:
            with Plan(self._scope_ledger.source) as plan:
                try:
                    await self._run(plan, self._job.rows())
                finally:
                    self._end(plan)
        if not self._job.dry_run:
            self.documents = self._ledger.read(queries.documents_of, *self._of_source)
        return self.counts

    async def _run(self, plan: Plan, rows: Rows) -> None:
        plan.add(rows, self._scope_ledger, self.options, tick=Preflight().tick)
        self.counts.rows = plan.actions().total()
        self.counts.left_out = self._report.notes(plan.notes)
        looks_for_gone = self._read_documents(plan)
        check_plan(plan, self._ledger, self._scope_ledger, self.options)
        if self._job.dry_run:
            self._predict(plan, looks_for_gone)
            return
        routes = self._job.routes
        if routes and routes.list:
            reconciliation = Reconciliation(self._client, routes, self._ledger, self._scope_ledger)
            await reconciliation.settle_ambiguous(plan, rows)
        self._count_plan(plan)
        self._record_known(plan)
        if plan.actions()["send"]:
            await self._send(plan, rows)
        if not self._sender.breaker.is_open:
            await self._runner.arun(self._after_sending(plan, rows, looks_for_gone))
        if self._sender.breaker.error:
            raise self._sender.breaker.error

    # -- before the rows are sent ----------------------------------------------------------------

    def _read_documents(self, plan: Plan) -> bool:
        """Read the documents of the source, if the load looks for those that are gone. Return whether it does."""
        options = self.options
        if options.on_missing == "ignore" or not self.counts.rows:
            # An empty source does not make every document stale.
            return False
        groups = None
        if options.missing_in == "groups":
            groups = plan.groups()
            if not groups:
                return False
        elif not self._job.has_whole_source:
            return False
        elif plan.count_without_key():
            log.warning(
                "%s without a key, or that cannot be read: no stale documents are looked for, because each document "
                "of the source may be that of such a row.",
                counted(plan.count_without_key(), "row"),
            )
            return False
        with self._ledger.connect() as connection:
            run = self._scope_ledger.run
            plan.add_documents(queries.latest_documents(connection, *self._of_source, run, groups))
        return True

    def _count_plan(self, plan: Plan) -> None:
        """Count the rows that are not sent."""
        actions = plan.actions()
        self.counts.unchanged = sum(actions[name] for name in ("unchanged", "repeated", "share", "revive"))
        self.counts.skipped = actions["skipped"]
        self.counts.rejected = actions["rejected"]
        self.counts.ambiguous = actions["ambiguous"]
        self._has_known_documents = bool(self.counts.unchanged)
        for row in itertools.islice(plan.rows("rejected"), LOGGED):
            log_rejected(row, row.reason)

    def _predict(self, plan: Plan, looks_for_gone: bool) -> None:
        """Count and list what the load would do if the service accepts every request."""
        self._count_plan(plan)
        counts, options = self.counts, self.options
        actions = plan.actions()
        counts.created = actions["send"]
        counts.unchanged += actions["twin"]
        counts.skipped += actions["elsewhere"]
        counts.changed = plan.count_changed("send")
        self.sent = [row.label or row.key for row in itertools.islice(plan.rows("send"), LOGGED)]
        if looks_for_gone:
            counts.stale = plan.count_gone()
        if options.removal == "deactivate":
            counts.deactivated = counts.stale or 0
        elif options.removal:
            counts.deleted = counts.stale or 0
        if options.on_change == "replace":
            earlier = self._ledger.read(queries.superseded, *self._of_source)
            counts.deleted += len(earlier) + plan.count_changed(*CHANGES)
        self._report.plan(plan)
        self._report.prediction(plan, options)

    def _record_known(self, plan: Plan) -> None:
        """Record the rows whose documents exist already, and those that are back."""
        ledger = self._scope_ledger
        share(ledger, plan.rows("share"))
        ledger.renumber([(row.key, row.existing or 0, row.latest + 1) for row in plan.rows("revive")])
        ledger.mark_back(plan.back())

    # -- send ------------------------------------------------------------------------------------

    async def _send(self, plan: Plan, rows: Rows) -> None:
        if self._job.tenant_id:
            await log_limits(self._job.settings, self._job.tenant_id)
        progress = asyncio.create_task(log_progress(self.counts, self._client.throttle, self._started))
        try:
            await self._sender.run(
                Item(row.claim(), rows.call(row.payload or ""), is_repeat=row.is_repeat, row=row)
                for row in plan.rows("send")
            )
        finally:
            progress.cancel()
            self.unrecorded = self._sender.unrecorded

    def _outcome_of(self, item: Item, reply: ApiReply) -> Outcome:
        if isinstance(reply, CreatedDocument):
            reply = described(reply, self._job.routes)
        return outcome_of_reply(item, reply)

    def _count(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        """Count the outcome of a row that was claimed."""
        row: PlannedRow = item.row
        counts = self.counts
        counts.requests += item.attempts.sent
        counts.add(outcome.state)
        if outcome.state == "rejected":
            self._refused += bool(item.attempts.sent)
            if outcome.http_status == HTTPStatus.CONFLICT:
                self._conflicts.append(row._replace(latest=item.claim.number))
            self._check_rejected(row, outcome.error or "")
        if reply is None:
            return
        if len(self.sent) < LOGGED:
            self.sent.append(row.label)
        counts.changed += row.has_changed
        if has_existed(reply):
            log.info("Row %d (%s) is on the site once: an earlier attempt created it.", row.number, escaped(row.label))

    def _check_rejected(self, row: PlannedRow, reason: str) -> None:
        """Stop the load if the service rejects its first rows: the mapping is wrong."""
        counts = self.counts
        self._rejected[row.content_hash] = reason
        if counts.rejected <= LOGGED:
            log_rejected(row, reason)
        has_accepted = counts.created or counts.failed or counts.ambiguous or self._has_known_documents
        if has_accepted or self._refused < FIRST_ROWS:
            return
        self._sender.breaker.open(wrong_mapping(self._refused, reason))

    # -- after the rows were sent ----------------------------------------------------------------

    async def _after_sending(self, plan: Plan, rows: Rows, looks_for_gone: bool) -> None:
        if rows.can_share:
            await settle_conflicts(self._conflicts, self._scope_ledger, self.counts)
        settle_twins(plan, self._scope_ledger, self.counts, self._report, self._rejected)
        await self._count_elsewhere(plan)
        await self._change_site(plan, looks_for_gone)

    async def _count_elsewhere(self, plan: Plan) -> None:
        """Count the rows that other tasks were sending: green only if they have loaded them."""
        keys = {*self._elsewhere, *(row.key for row in plan.rows("elsewhere"))}
        known = await attempts_elsewhere(self._scope_ledger, keys, lambda: self._sender.breaker.is_open)
        planned = [row for row in map(plan.row_of, keys) if row is not None]
        for row in planned:
            decided = decide(row, known.get(row.key, ()), self._scope_ledger.source)
            if decided.action == "share":
                share(self._scope_ledger, [decided])
            if decided.action in {"unchanged", "share"}:
                self.counts.unchanged += 1
            else:
                self.counts.skipped += 1
                self.left_to_others += 1

    async def _change_site(self, plan: Plan, looks_for_gone: bool) -> None:
        """Record what is gone, and make the site equal to the source."""
        if looks_for_gone:
            if not self._job.has_whole_source:
                # Other mapped tasks may have loaded rows of the same groups meanwhile.
                self._read_documents(plan)
                plan.check_siblings()
            self._mark_gone(plan)
        routes = self._job.routes
        if routes is None:
            return
        site = SiteClient(self._client, self._scope_ledger.scope.site.site_id, routes)
        changes = SiteChanges(site, self._ledger, self._scope_ledger, self.options, self.counts)
        self._report.reasons = changes.reasons
        try:
            await changes.apply(self._removable(changes.reasons))
        finally:
            self._stale = [row for row in self._stale if row["remote_id"] not in changes.removed]

    def _mark_gone(self, plan: Plan) -> None:
        """Record which rows are gone, and count their documents, except those that another row needs."""
        gone = {document.key for document in plan.gone()}
        self._scope_ledger.mark_gone(gone)
        if gone:
            selected = Filter(which="stale", scope=self._scope_ledger.scope.id, source=self._scope_ledger.source)
            with self._ledger.connect() as connection:
                stale = queries.all_entries(connection, self._ledger.clock, selected)
                self._stale = [row for row in stale if row["key"] in gone]
        self.counts.stale = len({row["key"] for row in self._stale})

    def _removable(self, reasons: dict[str, str]) -> list[str]:
        """Return the documents to remove because their row is gone; set the reasons for those that have to stay."""
        if self.options.removal is None:
            return []
        ids = [row["remote_id"] for row in self._stale if row["remote_id"]]
        counts = self.counts
        counts.not_removed += len(self._stale) - len(ids)
        if not (counts.failed or counts.ambiguous or self.left_to_others or counts.rows > counts.done):
            return ids
        # The row of such a document may be one that is not loaded yet.
        counts.not_removed += len(ids)
        reasons |= dict.fromkeys(ids, "rows of the source are not loaded yet")
        return []

    # -- end -------------------------------------------------------------------------------------------

    def _end(self, plan: Plan) -> None:
        """Count what was not reached, and list what a person should look at."""
        counts = self.counts
        # A stopped load counts the rows that it did not reach as failed.
        counts.failed += counts.rows - counts.done
        counts.throttled = self._client.throttle.refusals
        counts.seconds = time.monotonic() - self._started
        if self._job.dry_run:
            return
        self._report.plan(plan)
        self._report.documents("stale", self._stale, {})
        self._report.unrecorded(self.unrecorded)
        unrecorded = {outcome.claim.key for outcome in self.unrecorded}
        try:
            self._scope_ledger.check()
            found = self._report.run(self._ledger, self._scope_ledger, plan, unrecorded)
        except AssistantLedgerError as error:
            log.error("What this load left to look at cannot be read from the ledger: %s", error)  # noqa: TRY400
            self.is_unreadable = True
            return
        counts.drafts = found["draft"]
        counts.possibly_duplicated = found["possibly_duplicated"]
