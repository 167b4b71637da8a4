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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from airflow_provider_assistant.api.document_routes import DocumentRoutes, described
from airflow_provider_assistant.api.document_state import DEFAULT_WORDS
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError, AssistantLedgerError
from airflow_provider_assistant.ledger import Claim, Filter, Known, Ledger, Outcome, ScopeLedger, queries
from airflow_provider_assistant.loading import report
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decide import decide
from airflow_provider_assistant.loading.findings import LOGGED, Finding, Findings
from airflow_provider_assistant.loading.guards import check_plan
from airflow_provider_assistant.loading.limits import log_limits
from airflow_provider_assistant.loading.options import MAX_BACKOFF, LoadOptions
from airflow_provider_assistant.loading.plan import Plan, PlannedRow
from airflow_provider_assistant.loading.reconcile import settle_ambiguous
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.loading.site import SiteChanges, check_routes
from airflow_provider_assistant.loading.site_list import SiteClient
from airflow_provider_assistant.sending.client import SendingClient
from airflow_provider_assistant.sending.decide import Item, has_existed, outcome_of_reply
from airflow_provider_assistant.sending.sender import Sender
from airflow_provider_assistant.texts import counted, escaped

# Seconds between two progress messages.
PROGRESS = 10.0
# A load stops if the service rejects this many first rows, and has accepted none before: the mapping is wrong.
FIRST_ROWS = 25
# Longest wait in seconds for other tasks that are sending rows of this load.
ELSEWHERE = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadJob:
    """
    Describe a load.

    :param settings: Settings of the connection's client.
    :param routes: Routes of the site's documents; None if the connection describes none.
    :param tenant_id: Tenant whose limits are logged; None if it is not known.
    :param has_whole_source: Whether this task reads its whole source. A mapped task does not.
    :param dry_run: Whether to stop after the plan.
    """

    rows: Rows
    options: LoadOptions
    settings: ClientSettings
    routes: DocumentRoutes | None = None
    tenant_id: str | None = None
    has_whole_source: bool = True
    dry_run: bool = False


class Load:
    """
    Run a load.

    :param ledger: The ledger.
    :param scope_ledger: The ledger of this load's scope and try.
    :param findings: Takes the rows that a person should look at.
    :param client: Default: a new one with the job's settings.
    :ivar counts: Counts of the rows, also while the load runs and after it failed.
    :ivar cause: Error of the last request whose row failed or is ambiguous; None if there is none.
    """

    def __init__(
        self,
        job: LoadJob,
        ledger: Ledger,
        scope_ledger: ScopeLedger,
        findings: Findings,
        client: SendingClient | None = None,
    ) -> None:
        self.counts = LoadCounts()
        self.unrecorded: list[Outcome] = []
        """Outcomes that the ledger could not record."""
        self.is_unreadable = False
        """Whether the ledger could not be read when the load ended."""
        self._job = job
        self._ledger = ledger
        self._scope_ledger = scope_ledger
        self._findings = findings
        options = job.options
        self._client = client or SendingClient(
            job.settings, max_backoff=MAX_BACKOFF, retry_ambiguous=options.on_ambiguous == "retry"
        )
        self._client.limiter.progress = self._progress
        self._sender = Sender(
            scope_ledger,
            self._client,
            on_outcome=self._count,
            on_lost=self._lost,
            outcome_of=self._outcome_of,
            stopped="the load was ended from outside; a retry goes on with the others",
        )
        self._words = job.routes.words if job.routes else DEFAULT_WORDS
        self.options = job.options
        self.sent: list[str] = []
        """Labels of the first rows that were created, or that a dry run would send."""
        self.left_to_others = 0
        """Number of rows that other tasks were sending, and have not loaded."""
        self.unreadable = ""
        """What to do if many rows cannot be read in their encoding, as a sentence."""
        self._created: list[str] = []
        self._stale: list[Mapping[str, Any]] = []
        self._reasons: dict[str, str] = {}
        self._elsewhere: list[str] = []
        # Reason by content hash.
        self._rejected: dict[str, str] = {}
        self._has_known_documents = False
        self._started = self._last_report = time.monotonic()

    @property
    def cause(self) -> AssistantError | None:
        """Error of the last request whose row failed or is ambiguous; None if there is none."""
        return self._sender.cause

    def cancel(self) -> None:
        """Stop sending and end the load within a few seconds. A signal handler may call this."""
        self._sender.cancel()

    async def run(self) -> LoadCounts:
        """
        Load the rows and return their counts by outcome.

        :raises AssistantInputError: The source as a whole cannot be loaded; nothing was sent.
        :raises AssistantError: An error stopped the load. :attr:`counts` and the ledger contain everything up to
            that point.
        """
        self._started = time.monotonic()
        check_routes(self._job.options, self._job.routes)
        async with self._client:
            with Plan(self._scope_ledger.source) as plan:
                try:
                    await self._run(plan)
                finally:
                    self._end(plan)
        return self.counts

    async def _run(self, plan: Plan) -> None:
        options = self._job.options
        plan.add(self._job.rows, self._scope_ledger, options, tick=self._report_preflight)
        self.counts.rows = plan.size
        self.counts.left_out = report.report_notes(plan.notes, self._findings)
        looks_for_gone = self._read_documents(plan)
        check_plan(plan, self._ledger, self._scope_ledger, options)
        if self._job.dry_run:
            self._count_plan(plan)
            self._predict(plan, looks_for_gone)
            return
        routes = self._job.routes
        if routes and routes.list:
            await settle_ambiguous(self._client, routes, self._ledger, self._scope_ledger, plan, self._job.rows)
        self._count_plan(plan)
        self._record_known(plan)
        if plan.actions()["send"]:
            await self._send(plan)
        if not self._sender.breaker.is_open:
            self._settle_twins(plan)
            await self._look_elsewhere(plan)
            await self._change_site(plan, looks_for_gone)
        if self._sender.breaker.error:
            raise self._sender.breaker.error

    # -- before the first request ----------------------------------------------------------------

    def _read_documents(self, plan: Plan) -> bool:
        """Read the documents of the source, if the load looks for those that are gone. Return whether it does."""
        options = self._job.options
        if options.on_missing == "ignore" or not plan.size:
            # An empty source does not make every document stale.
            return False
        groups = None
        if options.missing_in == "groups":
            groups = plan.groups()
            if not groups:
                return False
        elif not self._job.has_whole_source:
            return False
        elif plan.without_key():
            log.warning(
                "%s without a key, or that cannot be read: no stale documents are looked for, because each document "
                "of the source may be that of such a row.",
                counted(plan.without_key(), "row"),
            )
            return False
        with self._ledger.connect() as connection:
            ledger = self._scope_ledger
            plan.add_documents(queries.latest_documents(connection, ledger.scope, ledger.source, ledger.run, groups))
        return True

    def _count_plan(self, plan: Plan) -> None:
        """Count the rows that are not sent."""
        actions = plan.actions()
        self.counts.unchanged = sum(actions[name] for name in ("unchanged", "repeated", "share", "revive"))
        self.counts.skipped = actions["skipped"]
        self.counts.rejected = actions["rejected"]
        self.counts.ambiguous = actions["ambiguous"]
        self._has_known_documents = bool(self.counts.unchanged)
        undecoded = plan.count_reasons("%bytes of another encoding%")
        if undecoded:
            self.unreadable = (
                f"{counted(undecoded, 'row')} cannot be read in the encoding of the file: set "
                "csv_options={'encoding': …} (--encoding), such as cp1252."
            )
        for number, row in enumerate(plan.rows("rejected")):
            if number == LOGGED:
                break
            log.warning("Row %d (%s) is rejected: %s", row.number, escaped(row.label or ""), escaped(row.reason or ""))

    def _predict(self, plan: Plan, looks_for_gone: bool) -> None:
        """Count and list what the load would do if the service accepts every request."""
        counts, options = self.counts, self._job.options
        actions = plan.actions()
        counts.created = actions["send"]
        counts.unchanged += actions["twin"]
        counts.skipped += actions["elsewhere"]
        counts.changed = plan.changed("send")
        self.sent = [row.label or row.key for row in itertools.islice(plan.rows("send"), LOGGED)]
        if looks_for_gone:
            counts.stale = plan.count_gone()
        if options.removal == "deactivate":
            counts.deactivated = counts.stale or 0
        elif options.removal:
            counts.deleted = counts.stale or 0
        if options.on_change == "replace":
            earlier = self._ledger.read(queries.superseded, self._scope_ledger.scope, self._scope_ledger.source)
            counts.deleted += len(earlier) + plan.changed()
        report.report_plan(plan, self._findings)
        report.report_prediction(plan, options, self._findings)

    def _record_known(self, plan: Plan) -> None:
        """Record the rows whose documents exist already, and those that are back."""
        ledger = self._scope_ledger
        self._share(plan.rows("share"))
        ledger.renumber([(row.key, row.existing or 0, row.latest + 1) for row in plan.rows("revive")])
        ledger.mark_back(plan.back())

    def _share(self, rows: Iterable[PlannedRow]) -> None:
        """Record rows whose document exists."""
        self._scope_ledger.share([Outcome(_claim(row), "created", remote_id=row.remote_id) for row in rows])

    # -- send ------------------------------------------------------------------------------------

    async def _send(self, plan: Plan) -> None:
        if self._job.tenant_id:
            await log_limits(self._job.settings, self._job.tenant_id)
        progress = asyncio.create_task(self._report_progress())
        try:
            await self._sender.run(self._items(plan))
        finally:
            progress.cancel()
            self.unrecorded = self._sender.unrecorded

    def _items(self, plan: Plan) -> Iterator[Item]:
        for row in plan.rows("send"):
            yield Item(_claim(row), self._job.rows.call(row.payload or ""), is_repeat=row.is_repeat, row=row)

    def _outcome_of(self, item: Item, reply: ApiReply) -> Outcome:
        if isinstance(reply, CreatedDocument):
            reply = described(reply, self._job.routes)
        return outcome_of_reply(item, reply)

    def _count(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        """Count the outcome of a row that was claimed."""
        row: PlannedRow = item.row
        counts = self.counts
        counts.requests += item.requests
        # LoadCounts has a field for each outcome.
        setattr(counts, outcome.state, getattr(counts, outcome.state) + 1)
        if reply is None:
            if outcome.state == "rejected":
                self._count_rejected(row, outcome)
            return
        if outcome.remote_id:
            self._created.append(outcome.remote_id)
        if len(self.sent) < LOGGED:
            self.sent.append(row.label or row.key)
        counts.changed += row.has_changed
        if has_existed(reply):
            log.info(
                "Row %d (%s) is on the site once: an earlier attempt created it.", row.number, escaped(row.label or "")
            )

    def _count_rejected(self, row: PlannedRow, outcome: Outcome) -> None:
        counts = self.counts
        self._rejected[row.content_hash] = outcome.error or ""
        if counts.rejected <= LOGGED:
            log.warning(
                "Row %d (%s) is rejected: %s", row.number, escaped(row.label or ""), escaped(outcome.error or "")
            )
        none_accepted = not (counts.created or counts.failed or counts.ambiguous or self._has_known_documents)
        if none_accepted and counts.rejected >= FIRST_ROWS:
            self._sender.breaker.open(
                AssistantInputError(
                    f"the service rejected the first {counted(counts.rejected, 'row')}, and has accepted none. "
                    f"Its last reason: {outcome.error}",
                    todo="The mapping is probably wrong, and not the rows: name the column of each field that the "
                    'service wants, such as columns={"title": "subject"} (--column title=subject), or a value for all '
                    'rows, such as constants={"title": "FAQ"} (--constant title=FAQ).',
                    field="columns",
                )
            )

    def _lost(self, item: Item) -> None:
        """Remember a row that another task has claimed since it was planned."""
        self._elsewhere.append(item.claim.key)

    def _settle_twins(self, plan: Plan) -> None:
        """Give rows of equal content the document of the row that was sent for all of them."""
        twins = list(plan.rows("twin"))
        if not twins:
            return
        found = self._scope_ledger.with_content({row.content_hash for row in twins})
        self._share(row._replace(remote_id=found[row.content_hash]) for row in twins if row.content_hash in found)
        for row in twins:
            if row.content_hash in found:
                self.counts.unchanged += 1
            elif row.content_hash in self._rejected:
                self.counts.rejected += 1
                reason = self._rejected[row.content_hash]
                self._findings.add(Finding("rejected", row.label or row.key, reason, row.number, [], row.group))
            # The others are counted as failed, as rows that were not reached.

    async def _look_elsewhere(self, plan: Plan) -> None:
        """Count the rows that other tasks were sending: green only if they have loaded them."""
        left = {*self._elsewhere, *(row.key for row in plan.rows("elsewhere"))}
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + ELSEWHERE, 0.5
        while True:
            known = self._scope_ledger.known(list(left))
            alive = {key for key in left if any(attempt.is_alive for attempt in known.get(key, ()))}
            is_over = not alive or loop.time() + pause > end or self._sender.breaker.is_open
            for key in left if is_over else left - alive:
                self._count_elsewhere(plan.row_of(key), known.get(key, ()))
            if is_over:
                return
            left = alive
            await asyncio.sleep(pause)
            pause *= 2

    def _count_elsewhere(self, row: PlannedRow | None, known: Sequence[Known]) -> None:
        """Count a row that another task was sending."""
        if row is None:
            return
        decision = decide(row.content_hash, known, self._scope_ledger.source)
        if decision.action in {"unchanged", "share"}:
            self.counts.unchanged += 1
            if decision.action == "share":
                self._share([row._replace(remote_id=decision.remote_id, latest=decision.latest)])
        else:
            self.counts.skipped += 1
            self.left_to_others += 1

    # -- after the last request ----------------------------------------------------------------------

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
        changes = SiteChanges(site, self._scope_ledger, self._job.options)
        try:
            await changes.apply(self._inactive(), self._superseded(changes), self._removable(changes), self._created)
        finally:
            changed = changes.changed
            self._reasons = changed.reasons
            self._stale = [row for row in self._stale if row["remote_id"] not in changed.removed]
            self.counts.activated = changed.activated
            self.counts.deactivated = changed.deactivated
            self.counts.deleted = changed.deleted
            self.counts.not_activated = changed.not_activated
            self.counts.not_removed = changed.not_removed

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

    def _inactive(self) -> list[str]:
        """Return the documents of the source that are not known to be in use, if they can be activated."""
        routes = self._job.routes
        if routes is None or routes.activate is None:
            return []
        unused = []
        for remote_id, status in self._ledger.read(
            queries.statuses, self._scope_ledger.scope, self._scope_ledger.source
        ):
            if status is None or self._words.state(status) in {"draft", "other"}:
                unused.append(remote_id)
        return unused

    def _superseded(self, changes: SiteChanges) -> dict[str, str | None]:
        """Return the outdated documents to delete, each with the newer one."""
        if self._job.options.on_change != "replace":
            return {}
        pairs = self._ledger.read(queries.superseded, self._scope_ledger.scope, self._scope_ledger.source)
        changes.changed.not_removed += sum(1 for old, _new in pairs if old is None)
        return {old: new for old, new in pairs if old is not None}

    def _removable(self, changes: SiteChanges) -> list[str]:
        """Return the documents to remove because their row is gone."""
        if self._job.options.removal is None:
            return []
        ids = [row["remote_id"] for row in self._stale if row["remote_id"]]
        changes.changed.not_removed += len(self._stale) - len(ids)
        if self._left():
            # The row of such a document may be one of these.
            changes.changed.not_removed += len(ids)
            changes.changed.reasons |= dict.fromkeys(ids, "rows of the source are not loaded yet")
            return []
        return ids

    def _left(self) -> int:
        """Return the number of rows that are not loaded yet."""
        counts = self.counts
        return counts.failed + counts.ambiguous + self.left_to_others + (counts.rows - counts.done)

    # -- end -------------------------------------------------------------------------------------------

    def _end(self, plan: Plan) -> None:
        """Count what was not reached, and list what a person should look at."""
        counts = self.counts
        # A stopped load counts the rows that it did not reach as failed.
        counts.failed += counts.rows - counts.done
        counts.throttled = self._client.limiter.throttled
        counts.seconds = time.monotonic() - self._started
        if self._job.dry_run:
            return
        report.report_plan(plan, self._findings)
        report.report_stale(self._stale, self._findings, self._reasons)
        report.report_unrecorded(self.unrecorded, self._findings)
        try:
            self._scope_ledger.check()
            found = report.report_run(
                self._ledger,
                self._scope_ledger,
                plan,
                self._findings,
                self._reasons,
                {outcome.claim.key for outcome in self.unrecorded},
                self._words,
            )
        except AssistantLedgerError as error:
            log.error("What this load left to look at cannot be read from the ledger: %s", error)  # noqa: TRY400
            self.is_unreadable = True
            return
        counts.drafts = found["draft"]
        counts.possibly_duplicated = found["possibly_duplicated"]

    def _progress(self) -> str:
        return f"done: {self.counts.done:,} of {counted(self.counts.rows, 'row')}"

    def _report_preflight(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._last_report >= PROGRESS:
            self._last_report = now
            log.info("Looked at %s so far; nothing has been sent yet.", counted(rows, "row"))

    async def _report_progress(self) -> NoReturn:
        """Log the progress every 10 seconds until cancelled."""
        done_before = self.counts.done
        while True:
            await asyncio.sleep(PROGRESS)
            rate = (self.counts.done - done_before) / PROGRESS
            left = f"{(self.counts.rows - self.counts.done) / rate:.0f} s left" if rate else "remaining time unknown"
            log.info(
                "%s after %.0f s, %.0f rows/s, %s; at most %d in flight; %s with 429.",
                self._progress(),
                time.monotonic() - self._started,
                rate,
                left,
                int(self._client.limiter.limit),
                counted(self._client.limiter.throttled, "answer"),
            )
            done_before = self.counts.done


def _claim(row: PlannedRow) -> Claim:
    return Claim(row.key, row.label or row.key, row.latest + 1, row.content_hash, row.group)
