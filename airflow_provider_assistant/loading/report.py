"""The report of a load: it counts rows by outcome, collects the findings, and logs the progress."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import NoReturn

from airflow_provider_assistant.api.document_routes import Change
from airflow_provider_assistant.api.document_state import DEFAULT_WORDS, DocumentWords, needs_attention
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.ledger import (
    ClaimOutcome,
    DocumentGroup,
    EarlierDocument,
    LedgerEntry,
    StaleDocument,
)
from airflow_provider_assistant.ledger.document_changes import KnownDocument
from airflow_provider_assistant.loading.counts import LedgerGap, LoadCounts
from airflow_provider_assistant.loading.decisions import NotCreated
from airflow_provider_assistant.loading.findings import LOGGED, Finding, Findings, Kind
from airflow_provider_assistant.loading.rows import PreparedRow
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.texts import counted, escaped

# Seconds between two progress messages.
PROGRESS = 10.0

log = logging.getLogger(__name__)


class LoadReport:
    """
    Count the outcomes of rows, and add the rows that a person should look at to the findings.

    :param replaces: Whether the load removes superseded documents. Then they are listed only if they remain.
    :param activates: Whether the load activates drafts. Then those with an id are listed only if they
        remain drafts.
    """

    def __init__(
        self,
        counts: LoadCounts,
        findings: Findings,
        document_words: DocumentWords = DEFAULT_WORDS,
        *,
        replaces: bool = False,
        activates: bool = False,
    ) -> None:
        self._counts = counts
        self._findings = findings
        self._document_words = document_words
        self._replaces = replaces
        self._activates = activates
        self.gap = LedgerGap()
        """What the ledger does not know of the created documents."""
        # Documents that an earlier attempt had created.
        self._existing = 0

    def source(self, account: SourceAccount) -> None:
        """Log what the source left out, and list what could hide lost content."""
        self._counts.left_out = account.count
        account.log(log)
        for left_out in account.unexpected:
            for example in left_out.examples:
                self._findings.add(Finding("left_out", example, f"this {left_out.unit} {left_out.reason}"))
            others = left_out.count - len(left_out.examples)
            if others:
                self._findings.add(Finding("left_out", f"{others} more", f"{left_out.unit}: {left_out.reason}"))

    def created(
        self,
        row: PreparedRow,
        reply: ApiReply,
        entry: LedgerEntry | None,
        status: str | None = None,
    ) -> None:
        """
        Count a created document.

        :param entry: The ledger entry of the row's key before this load; None if it had none.
        :param status: Status word of the document; None if the reply has none.
        """
        self._counts.created += 1
        draft_reason = self._draft_reason(status, reply.created_id)
        if draft_reason:
            self._counts.drafts += 1
            self._add_finding("draft", row, draft_reason, reply.created_id)
        may_be_twice = reply.call_info.ambiguous or (entry and entry.state == "ambiguous")
        if isinstance(reply, CreatedDocument) and reply.existed:
            self._log_existing(row)
        elif may_be_twice:
            self._counts.possibly_duplicated += 1
            reason = "an earlier attempt may have created it as well"
            self._add_finding("possibly_duplicated", row, reason, reply.created_id)
        if entry and entry.content_hash not in {None, row.fingerprint.content_hash}:
            self._counts.changed += 1
            if not self._replaces:
                reason = "its content has changed; the older document remains on the site"
                self._add_finding("superseded", row, reason, entry.created_id)
            elif entry.created_id is None:
                self._counts.not_removed += 1
                reason = "its content has changed; the older document remains, because its id is not known"
                self._add_finding("superseded", row, reason)

    def _draft_reason(self, status: str | None, document_id: str | None) -> str | None:
        """Return why a created document needs attention, or None."""
        if status is None:
            return None
        is_draft = self._document_words.state(status) in {"draft", "other"}
        if self._activates and is_draft and document_id is not None:
            return None
        return needs_attention(status, self._document_words)

    def _log_existing(self, row: PreparedRow) -> None:
        self._existing += 1
        if self._existing <= LOGGED:
            log.info(
                "Row %d (%s) is on the site once: an earlier attempt created it, and the service refused "
                "to create it again (409).",
                row.number,
                escaped(row.readable_key),
            )

    def not_created(
        self, outcome: NotCreated, row: PreparedRow, reason: str = "", document_id: str | None = None
    ) -> None:
        """
        Count a row that this load did not create, or perhaps did.

        :param outcome: Every one but ``unchanged`` is a finding.
        :param document_id: Id of the document that is already on the site.
        """
        # LoadCounts has a field for each outcome.
        count = getattr(self._counts, outcome)
        setattr(self._counts, outcome, count + 1)
        if outcome == "unchanged":
            return
        self._add_finding(outcome, row, reason, document_id)
        if outcome == "rejected" and self._counts.rejected <= LOGGED:
            log.warning("Row %d (%s) is rejected: %s", row.number, escaped(row.readable_key), escaped(reason))

    def created_earlier(self, found: Iterable[EarlierDocument]) -> None:
        """List documents that earlier tries of this task created, whose findings files are lost."""
        for document in found:
            if document.ambiguous:
                self._counts.possibly_duplicated += 1
                reason = "an earlier try of this task may have created it as well"
                self._add_earlier("possibly_duplicated", document, reason, _ids(document.created_id))
            draft_reason = self._draft_reason(document.status, document.created_id)
            if draft_reason:
                self._counts.drafts += 1
                self._add_earlier("draft", document, draft_reason, _ids(document.created_id))
            if document.superseded and not self._replaces:
                reason = "its content has changed; the older documents remain on the site"
                self._add_earlier("superseded", document, reason, document.superseded)

    def _add_earlier(
        self,
        kind: Kind,
        document: EarlierDocument,
        reason: str,
        document_ids: list[str],
    ) -> None:
        finding = Finding(
            kind=kind,
            key=document.label,
            reason=reason,
            document_ids=document_ids,
            group=document.group,
        )
        self._findings.add(finding)

    def stale(self, found: Iterable[StaleDocument]) -> list[str]:
        """Count and list the documents whose rows are gone from the source. Return their keys."""
        self._counts.stale = 0
        keys = []
        for document in found:
            keys.append(document.key)
            self._counts.stale += 1
            reason = "no longer in the source; its document remains on the site"
            ids = _ids(document.created_id)
            self._findings.add(Finding("stale", document.label, reason, document_ids=ids, group=document.group))
        return keys

    def removed(self, change: Change, count: int) -> None:
        """Count the outdated documents that were deactivated or deleted."""
        if change == "delete":
            self._counts.deleted += count
        else:
            self._counts.deactivated += count

    def activated(self, count: int) -> None:
        """Count the documents that were activated."""
        self._counts.activated += count

    def still_drafts(self, documents: Sequence[KnownDocument]) -> None:
        """Count and list the drafts among documents that the service has no route to activate."""
        for document in documents:
            reason = needs_attention(document.status, self._document_words)
            if reason:
                self._counts.drafts += 1
                self.outdated([document], reason)

    def not_activated(self, documents: Sequence[KnownDocument], reason: str) -> None:
        """Count and list the documents that could not be activated."""
        self._counts.not_activated += len(documents)
        self.outdated(documents, reason)

    def kept(self, documents: Sequence[KnownDocument], reason: str) -> None:
        """Count and list the outdated documents that should be removed and are not."""
        self._counts.not_removed += len(documents)
        self.outdated(documents, reason)

    def outdated(self, documents: Sequence[KnownDocument], reason: str) -> None:
        """List documents that a person should look at."""
        for document in documents:
            kind: Kind = "draft"
            if document.reason != "inactive":
                kind = "superseded" if document.reason == "superseded" else "stale"
            finding = Finding(
                kind=kind,
                key=document.label,
                reason=f"its document remains as it is: {reason}",
                document_ids=_ids(document.document_id),
                group=document.group,
            )
            self._findings.add(finding)

    def unrecorded(self, outcomes: Iterable[ClaimOutcome]) -> None:
        """Count and list the documents that were created and that the ledger could not record."""
        for outcome in outcomes:
            if outcome.outcome == "created":
                self.gap.created += 1
                self._add_finding_of_claim("ambiguous", outcome, "created, but the ledger could not record it")
            else:
                self.gap.others += 1

    def taken_over(self, outcomes: Collection[ClaimOutcome]) -> None:
        """
        Report rows that another run has taken over, because the lease of this load had expired.

        Their outcomes are counted, but they are not in the ledger: the other run sends these rows as well.
        """
        log.warning(
            "The lease of this load had expired, because its process was stopped or the ledger was away. Another run "
            "has taken over %s; documents that both have created are listed as possibly duplicated.",
            counted(len(outcomes), "row"),
        )
        for outcome in outcomes:
            if outcome.outcome != "created":
                continue
            self.gap.created += 1
            # created() has listed these rows already.
            earlier_entry = outcome.claim.entry
            was_ambiguous = earlier_entry is not None and earlier_entry.state == "ambiguous"
            if not (outcome.ambiguous or was_ambiguous):
                self._counts.possibly_duplicated += 1
                reason = "another run has taken this row over and may have created it as well"
                self._add_finding_of_claim("possibly_duplicated", outcome, reason)

    def _add_finding(self, kind: Kind, row: PreparedRow, reason: str, document_id: str | None = None) -> None:
        finding = Finding(
            kind=kind,
            key=row.readable_key,
            reason=reason,
            row=row.number,
            document_ids=_ids(document_id),
            group=_label(row.fingerprint.group),
        )
        self._findings.add(finding)

    def _add_finding_of_claim(self, kind: Kind, outcome: ClaimOutcome, reason: str) -> None:
        """Add a finding of a row of which only the claim is known, and not its number in the source."""
        finding = Finding(
            kind=kind,
            key=outcome.claim.label,
            reason=reason,
            document_ids=_ids(outcome.created_id),
            group=_label(outcome.claim.group),
        )
        self._findings.add(finding)


async def report_progress(counts: LoadCounts, limiter: AdaptiveRateLimiter, started: float) -> NoReturn:
    """
    Log the progress of a load every 10 seconds until cancelled.

    :param started: On the monotonic clock, in seconds.
    """
    done_before = counts.done
    while True:
        await asyncio.sleep(PROGRESS)
        rate = (counts.done - done_before) / PROGRESS
        remaining_time = "remaining time unknown"
        if rate:
            seconds_left = (counts.rows - counts.done) / rate
            remaining_time = f"{seconds_left:.0f} s left"
        log.info(
            "%s of %s after %.0f s, %.0f rows/s, %s; at most %d in flight; %s with 429.",
            f"{counts.done:,}",
            counted(counts.rows, "row"),
            time.monotonic() - started,
            rate,
            remaining_time,
            int(limiter.limit),
            counted(limiter.throttled, "answer"),
        )
        done_before = counts.done


def _label(group: DocumentGroup | None) -> str | None:
    return group.label if group else None


def _ids(document_id: str | None) -> list[str]:
    return [document_id] if document_id else []
