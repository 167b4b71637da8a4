"""
Settle ambiguous rows by the list of the site's documents, before a load sends its first row.

A row is settled if exactly one document of the list is the one that an earlier attempt sent. All
others stay ambiguous, and ``on_ambiguous`` decides about them. The list may not show a document
that was created a moment ago, so no row is settled as not created.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_assistant.api.document_routes import is_missing_route
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.ledger import ScopeLedger
from airflow_provider_assistant.ledger.queries import AmbiguousEntry
from airflow_provider_assistant.ledger.resolution import resolve
from airflow_provider_assistant.loading.managed_site import ManagedSite
from airflow_provider_assistant.loading.preflight import LoadPlan
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.loading.site_match import (
    Match,
    RowIndex,
    one_to_one,
    texts_of_call,
    texts_of_document,
)
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Tolerated difference between the clocks of the service and of the worker that made the claim.
CLOCK_SKEW = timedelta(minutes=5)
BY_LIST = "found in the list of documents"


@dataclass(frozen=True, slots=True)
class SentRow:
    """
    An ambiguous row.

    :param content_hash: Content hash of the row in the source.
    """

    entry: AmbiguousEntry
    content_hash: str


async def settle(
    site: ManagedSite,
    client: AssistantClient,
    ledger: ScopeLedger,
    rows: Rows,
    plan: LoadPlan,
) -> None:
    """
    Record ambiguous rows as created whose document is on the site.

    :raises AssistantError: The service failed or is busy; nothing was sent, and a retry looks
        again.
    """
    entries = {entry.key: entry for entry in ledger.unresolved() if plan.has(entry.key)}
    if not entries:
        return
    sent_rows, index = _sent_rows(entries, rows, plan)
    matches: list[Match[str]] = []
    try:
        async for documents in site.pages(client):
            page_matches = _matches(documents, index, sent_rows)
            if page_matches:
                known_ids = ledger.known_ids([match.document_id for match in page_matches])
                matches += [match for match in page_matches if match.document_id not in known_ids]
    except (AssistantAPIError, AssistantResponseError) as error:
        is_transient = isinstance(error, AssistantRateLimitError | AssistantServerError)
        if is_transient and not is_missing_route(error):
            raise
        _warn(site, len(entries), error)
        return
    settled = Counter[str]()
    for match in one_to_one(matches):
        sent_row = sent_rows[match.row]
        if _is_certain(match, sent_row.entry) and _record(ledger, sent_row, match):
            settled[match.how] += 1
    log.info(
        "The list of the site settles %d of %s (%d by content, %d by title and time). on_ambiguous decides about the "
        "other %d.",
        settled.total(),
        counted(len(entries), "ambiguous row"),
        settled["content"],
        settled["title"],
        len(entries) - settled.total(),
    )


def _sent_rows(
    entries: Mapping[str, AmbiguousEntry], rows: Rows, plan: LoadPlan
) -> tuple[dict[str, SentRow], RowIndex[str]]:
    """Read the ambiguous rows from the source. Return them by key, and their texts."""
    sent_rows: dict[str, SentRow] = {}
    index = RowIndex[str]()
    for row in rows.prepared(plan.to_send):
        entry = entries.get(row.fingerprint.key)
        if entry is None or row.call is None or entry.key in sent_rows:
            continue
        sent_rows[entry.key] = SentRow(entry, row.fingerprint.content_hash)
        index.add(entry.key, texts_of_call(row.call))
        if len(sent_rows) == len(entries):
            break
    return sent_rows, index


def _matches(
    documents: Sequence[SiteDocument], index: RowIndex[str], sent_rows: Mapping[str, SentRow]
) -> list[Match[str]]:
    """Return the documents that fit a row and may have been created by an attempt to send it."""
    matches = []
    for document in documents:
        for key, how in index.fits(texts_of_document(document)).items():
            entry = sent_rows[key].entry
            is_recent = False
            if document.created_at is not None:
                is_recent = document.created_at >= entry.claimed_at - CLOCK_SKEW
            is_older = document.created_at is not None and not is_recent
            # An attempt before the claim may have created an older document.
            if not is_older or _was_ambiguous_before(entry):
                matches.append(Match(key, document.document_id, how, is_recent, document.status))
    return matches


def _was_ambiguous_before(entry: AmbiguousEntry) -> bool:
    """Return whether attempts before the latest one may have created a document."""
    latest_attempts = 1 if entry.outcome == "ambiguous" else 0
    return entry.ambiguous > latest_attempts


def _is_certain(match: Match[str], entry: AmbiguousEntry) -> bool:
    """
    Return whether a match settles its row.

    A title says nothing about the content, so the ledger has to know what was sent.
    """
    return match.how == "content" or (match.is_recent and entry.sent_hash is not None)


def _record(ledger: ScopeLedger, sent_row: SentRow, match: Match[str]) -> bool:
    """Record a row as created, and return False if the entry has changed since it was read."""
    content_hash = sent_row.entry.sent_hash or sent_row.content_hash
    try:
        resolve(
            ledger,
            sent_row.entry,
            "created",
            identifier=match.document_id,
            content_hash=content_hash,
            status=match.status,
            note=BY_LIST,
        )
    except AssistantInputError as error:
        log.warning("Not settled: %s", error)
        return False
    return True


def _warn(site: ManagedSite, count: int, error: AssistantError) -> None:
    if is_missing_route(error):
        missing = "the service does not have the list that manage_documents describes"
        reason = f"{missing}: {error.happened}"
    else:
        reason = f"the list of documents cannot be read: {error}"
    log.warning(
        "%s of site %r not looked up, so that on_ambiguous decides: %s",
        counted(count, "ambiguous row"),
        site.site_id,
        reason,
    )
