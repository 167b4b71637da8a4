"""
Compare the ledger with the list of a site's documents, and record what the list shows for certain.

The list may not show a document that was created a moment ago, so that a missing one counts only after a while.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from airflow_provider_assistant.api.document_routes import DocumentRoutes, is_missing_route
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.ledger import Claim, Filter, Ledger, Outcome, ScopeLedger, queries
from airflow_provider_assistant.ledger.settle import settle
from airflow_provider_assistant.loading.plan import Plan
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.loading.site_list import listed_documents
from airflow_provider_assistant.loading.site_match import (
    Match,
    RowIndex,
    Texts,
    one_to_one,
    texts_of_call,
    texts_of_document,
)
from airflow_provider_assistant.tables import Note
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Tolerated difference between the clocks of the service and of the database.
CLOCK_SKEW = timedelta(minutes=5)
# Age of an attempt from which on the list shows its document, if it exists.
VISIBLE_AFTER = timedelta(minutes=10)
BY_LIST = "found in the list of documents"
NOT_IN_LIST = "the list of documents shows no second one"


@dataclass(slots=True)
class Listing:
    """The documents of a site, as its list shows them, by id."""

    documents: dict[str, SiteDocument] = field(default_factory=dict)
    _ids_by_texts: defaultdict[Texts, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    async def read(cls, client: AssistantClient, site_id: str, routes: DocumentRoutes) -> Listing:
        """
        Read the list to its end.

        :raises AssistantError: It cannot be read.
        """
        listing = cls()
        async for documents in listed_documents(client, site_id, routes):
            for document in documents:
                listing.documents[document.document_id] = document
                listing._ids_by_texts[texts_of_document(document)].add(document.document_id)
        return listing

    def twins(self, document_id: str) -> set[str] | None:
        """Return the other documents that look the same; None if the list does not show this one."""
        document = self.documents.get(document_id)
        if document is None:
            return None
        return self._ids_by_texts[texts_of_document(document)] - {document_id}


async def settle_ambiguous(
    client: AssistantClient,
    routes: DocumentRoutes,
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    plan: Plan,
    rows: Rows,
) -> int:
    """
    Record the outcome of rows of this source that earlier attempts may have created, as far as the list shows it.

    :return: Number of rows whose document was found.
    :raises AssistantError: The service failed or is busy; nothing was sent, and a retry looks again.
    """
    selected = Filter(which="unresolved", scope=scope_ledger.scope.id, source=scope_ledger.source)
    doubled = Filter(which="doubled", scope=scope_ledger.scope.id, source=scope_ledger.source)
    scope_ledger.end_earlier_tries()
    with ledger.connect() as connection:
        unresolved = [row for row in queries.all_entries(connection, ledger.clock, selected) if not row["is_alive"]]
        twice = [row for row in queries.all_entries(connection, ledger.clock, doubled) if row["remote_id"]]
    if not (unresolved or twice):
        return 0
    try:
        listing = await Listing.read(client, scope_ledger.scope.site.site_id, routes)
    except (AssistantAPIError, AssistantResponseError) as error:
        is_transient = isinstance(error, AssistantRateLimitError | AssistantServerError)
        if is_transient and not is_missing_route(error):
            raise
        log.warning(
            "The list of documents cannot be read, so on_ambiguous decides about %s: %s",
            counted(len(unresolved), "ambiguous row"),
            error,
        )
        return 0
    found = _found(listing, ledger, scope_ledger, plan, rows, unresolved)
    single = _single(listing, ledger, scope_ledger, twice)
    log.info(
        "The list of the site shows the documents of %d of %s, and that %d of %s exist only once.",
        found,
        counted(len(unresolved), "ambiguous row"),
        single,
        counted(len(twice), "possibly duplicated row"),
    )
    return found


def _found(
    listing: Listing,
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    plan: Plan,
    rows: Rows,
    unresolved: Sequence[Mapping[str, Any]],
) -> int:
    """Record ambiguous rows as created whose document the list shows."""
    index = RowIndex[str]()
    attempts: dict[str, Mapping[str, Any]] = {}
    for attempt in unresolved:
        row = plan.row_of(attempt["key"])
        if row is None or row.payload is None:
            continue
        texts = texts_of_call(rows.call(row.payload))
        if row.content_hash != attempt["content_hash"]:
            # Of what was sent, only the hash is known. Its title is probably the same.
            texts = replace(texts, text=None)
        attempts[row.key] = attempt
        index.add(row.key, texts)
    matches: list[Match[str]] = []
    for document in listing.documents.values():
        for key, how in index.fits(texts_of_document(document)).items():
            is_recent = False
            if document.created_at is not None:
                is_recent = document.created_at >= attempts[key]["claimed_at"] - CLOCK_SKEW
            if is_recent or document.created_at is None:
                matches.append(Match(key, document.document_id, how, is_recent, document.status))
    site = scope_ledger.scope.site
    known = ledger.read(queries.known_documents, site, [match.document_id for match in matches])
    unknown = one_to_one(match for match in matches if match.document_id not in known)
    # A title says nothing about the content, so the time has to.
    certain = [match for match in unknown if match.how == "content" or match.is_recent]
    for match in certain:
        _record_found(ledger, scope_ledger, attempts[match.row], match)
        plan.has_document(match.row, attempts[match.row]["content_hash"], match.document_id)
    return len(certain)


def _record_found(ledger: Ledger, scope_ledger: ScopeLedger, attempt: Mapping[str, Any], match: Match[str]) -> None:
    selected = Filter(
        which="unresolved", scope=scope_ledger.scope.id, source=scope_ledger.source, keys=(attempt["key"],)
    )
    seen = settle(ledger, selected, "created")
    settle(ledger, selected, "created", confirmation=seen.confirmation, remote_id=match.document_id, note=BY_LIST)
    if match.status is not None:
        scope_ledger.set_documents([match.document_id], status=match.status)


def _single(listing: Listing, ledger: Ledger, scope_ledger: ScopeLedger, twice: Sequence[Mapping[str, Any]]) -> int:
    """Record that documents exist once which may exist twice, if the list shows no other that looks the same."""
    now = ledger.read(ledger.clock.read)
    once = []
    for attempt in twice:
        is_visible = attempt["claimed_at"] < now - VISIBLE_AFTER
        twins = listing.twins(attempt["remote_id"])
        if is_visible and twins is not None and not twins:
            once.append(attempt["key"])
    for key in once:
        selected = Filter(which="doubled", scope=scope_ledger.scope.id, source=scope_ledger.source, keys=(key,))
        seen = settle(ledger, selected, "not-created")
        settle(ledger, selected, "not-created", confirmation=seen.confirmation, note=NOT_IN_LIST)
    return len(once)


@dataclass(slots=True)
class Difference:
    """
    Report how the ledger and the list of a site differ.

    :param unknown: Documents of the list that the ledger does not know.
    :param missing: Attempts of the ledger whose documents are not in the list.
    :param adopted: Labels of rows whose document was unknown, and is recorded now.
    """

    unknown: list[SiteDocument] = field(default_factory=list)
    missing: list[Mapping[str, Any]] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)


async def reconcile(
    client: AssistantClient,
    routes: DocumentRoutes,
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    rows: Rows | None = None,
    *,
    apply: bool = False,
) -> Difference:
    """
    Compare the ledger with the list of a site.

    :param rows: Rows whose documents the ledger does not know, because it was lost. Those that fit exactly one unknown
        document by their content are recorded as created. Default: None, none.
    :param apply: Whether to record what was found: documents that are not in the list count as removed, so that the
        next load creates those that the source still has.
    :raises AssistantError: The list or the ledger cannot be read.
    """
    site = scope_ledger.scope.site
    listing = await Listing.read(client, site.site_id, routes)
    difference = Difference()
    known = ledger.read(queries.known_documents, site, list(listing.documents))
    unknown = {one: document for one, document in listing.documents.items() if one not in known}
    if rows is not None:
        adopted = _adopted(scope_ledger, rows, unknown.values())
        difference.adopted = [outcome.claim.label for outcome in adopted]
        for outcome in adopted:
            unknown.pop(outcome.remote_id or "", None)
        if apply:
            scope_ledger.share(adopted)
    difference.unknown = list(unknown.values())
    now = ledger.read(ledger.clock.read)
    with ledger.connect() as connection:
        selected = Filter(which="created", kinds=("file", "text", "qa"), site=site)
        for attempt in queries.all_entries(connection, ledger.clock, selected):
            is_listed = attempt["remote_id"] in listing.documents
            if attempt["remote_id"] and not is_listed and attempt["claimed_at"] < now - VISIBLE_AFTER:
                difference.missing.append(attempt)
    if apply:
        scope_ledger.set_documents({attempt["remote_id"] for attempt in difference.missing}, state="removed")
    return difference


def _adopted(scope_ledger: ScopeLedger, rows: Rows, unknown: Iterable[SiteDocument]) -> list[Outcome]:
    """Return outcomes of the rows whose document is certainly one of the unknown ones."""
    index = RowIndex[str]()
    claims: dict[str, Claim] = {}
    for batch in rows.batches():
        if isinstance(batch, Note):
            continue
        attempts = scope_ledger.known(batch.keys)
        for position, key in enumerate(batch.keys):
            text = batch.text(position)
            of_key = attempts.get(key, [])
            if text.payload is None or key in claims or any(one.state == "created" for one in of_key):
                continue
            number = of_key[-1].number + 1 if of_key else 1
            group = batch.groups[position] if batch.groups else None
            claims[key] = Claim(key, text.label, number, batch.hashes[position], group)
            index.add(key, texts_of_call(rows.call(text.payload)))
    matches: list[Match[str]] = []
    for document in unknown:
        for key, how in index.fits(texts_of_document(document)).items():
            matches.append(Match(key, document.document_id, how, status=document.status))
    return [
        Outcome(claims[match.row], "created", remote_id=match.document_id)
        for match in one_to_one(matches)
        if match.how == "content"
    ]
