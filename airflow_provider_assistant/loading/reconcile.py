"""
Compare the ledger with the list of a site's documents, and record what the list shows for certain.

The list may not show a document that was created a moment ago, so that a missing one counts only after a while.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from airflow_provider_assistant.ledger import Claim, Filter, Known, Ledger, Outcome, ScopeLedger, Which, queries
from airflow_provider_assistant.ledger.schema import DOCUMENT_KINDS, UNRESOLVED
from airflow_provider_assistant.ledger.settle import Settled, settle
from airflow_provider_assistant.loading.plan import Plan
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.loading.site_client import listed_documents
from airflow_provider_assistant.loading.site_match import RowIndex, matches, texts_of_call, texts_of_document
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Tolerated difference between the clocks of the service and of the database.
CLOCK_SKEW = timedelta(minutes=5)
# Age of an attempt from which on the list shows its document, if it exists.
VISIBLE_AFTER = timedelta(minutes=10)
BY_LIST = "found in the list of documents"
NOT_IN_LIST = "the list of documents shows no second one"

_Entry = Mapping[str, Any]


def _lost_contents(attempts: Iterable[Known]) -> set[str | None]:
    return {attempt.content_hash for attempt in attempts if attempt.state in UNRESOLVED}


@dataclass(slots=True)
class Difference:
    """
    Report how the ledger and the list of a site differ.

    :param unknown: Documents of the list that the ledger does not know.
    :param missing: Attempts of the ledger whose documents are not in the list.
    :param adopted: Labels of rows whose document was unknown, and is recorded now.
    """

    unknown: list[SiteDocument] = field(default_factory=list)
    missing: list[_Entry] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)


class Reconciliation:
    """
    Compare the ledger of a source with the list of its site.

    :param routes: Routes of the site's documents, with a list.
    """

    def __init__(
        self, client: AssistantClient, routes: DocumentRoutes, ledger: Ledger, scope_ledger: ScopeLedger
    ) -> None:
        self._client = client
        self._routes = routes
        self._ledger = ledger
        self._scope_ledger = scope_ledger
        self._site = scope_ledger.scope.site
        self._listed: dict[str, SiteDocument] = {}

    async def settle_ambiguous(self, plan: Plan, rows: Rows) -> None:
        """
        Record the outcome of rows of this source that earlier attempts may have created, as far as the list shows it.

        :raises AssistantError: The service failed or is busy; nothing was sent, and a retry looks again.
        """
        self._scope_ledger.end_earlier_tries()
        unresolved = [row for row in self._entries(self._of_source("unresolved")) if not row["is_alive"]]
        twice = [row for row in self._entries(self._of_source("doubled")) if row["remote_id"]]
        known = self._scope_ledger.known([row["key"] for row in twice])
        # Of a lost document with other content, the list says nothing: only the hash of what was sent is known.
        twice = [row for row in twice if _lost_contents(known[row["key"]]) <= {row["content_hash"]}]
        if not (unresolved or twice):
            return
        try:
            await self._read_list()
        except (AssistantAPIError, AssistantResponseError) as error:
            is_transient = isinstance(error, AssistantRateLimitError | AssistantServerError)
            if is_transient and not is_missing_route(error):
                raise
            log.warning(
                "The list of documents cannot be read, so on_ambiguous decides about %s: %s",
                counted(len(unresolved), "ambiguous row"),
                error,
            )
            return
        log.info(
            "The list of the site shows the documents of %d of %s, and that %d of %s exist only once.",
            self._settle_found(plan, rows, unresolved),
            counted(len(unresolved), "ambiguous row"),
            self._settle_single(twice),
            counted(len(twice), "possibly duplicated row"),
        )

    async def compare(self, rows: Rows | None = None, *, apply: bool = False) -> Difference:
        """
        Compare the ledger with the list.

        :param rows: Rows whose documents the ledger does not know, because it was lost. Those that fit exactly one
            unknown document by their content are recorded as created. Default: None, none.
        :param apply: Whether to record what was found: documents that are not in the list count as removed, so that
            the next load creates those that the source still has.
        :raises AssistantError: The list or the ledger cannot be read.
        """
        await self._read_list()
        adopted = self._adopted(rows) if rows else []
        adopted_ids = {outcome.remote_id for outcome in adopted}
        created = self._entries(Filter(which="created", kinds=DOCUMENT_KINDS, site=self._site))
        missing = [one for one in created if one["remote_id"] and one["remote_id"] not in self._listed]
        difference = Difference(
            unknown=[document for document in self._unknown() if document.document_id not in adopted_ids],
            missing=[attempt for attempt in missing if self._is_visible(attempt)],
            adopted=[outcome.claim.label for outcome in adopted],
        )
        if apply:
            self._scope_ledger.share(adopted)
            removed = {attempt["remote_id"] for attempt in difference.missing}
            self._scope_ledger.set_documents(removed, state="removed")
        return difference

    # -- the list and the ledger -------------------------------------------------------------------

    async def _read_list(self) -> None:
        async for document in listed_documents(self._client, self._site.site_id, self._routes):
            self._listed[document.document_id] = document
        self._visible_before = self._ledger.read(self._ledger.clock.read) - VISIBLE_AFTER

    def _unknown(self) -> list[SiteDocument]:
        """Return the documents of the list that the ledger does not know."""
        known = self._ledger.read(queries.known_documents, self._site, list(self._listed))
        return [document for one, document in self._listed.items() if one not in known]

    def _of_source(self, which: Which, keys: Sequence[str] = ()) -> Filter:
        ledger = self._scope_ledger
        return Filter(which=which, scope=ledger.scope.id, source=ledger.source, keys=keys)

    def _entries(self, selected: Filter) -> Iterator[_Entry]:
        with self._ledger.connect() as connection:
            yield from queries.all_entries(connection, self._ledger.clock, selected)

    def _is_visible(self, attempt: _Entry) -> bool:
        """Return whether the list would show the document of an attempt if it existed."""
        return bool(attempt["claimed_at"] < self._visible_before)

    def _settle(self, selected: Filter, as_: Settled, note: str, remote_id: str | None = None) -> None:
        seen = settle(self._ledger, selected, as_)
        settle(self._ledger, selected, as_, confirmation=seen.confirmation, remote_id=remote_id, note=note)

    # -- what is certain ---------------------------------------------------------------------------

    def _settle_found(self, plan: Plan, rows: Rows, unresolved: Iterable[_Entry]) -> int:
        """Record ambiguous rows as created whose document the list shows. Return their number."""
        index = RowIndex()
        attempts: dict[str, _Entry] = {}
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

        def may_be(key: str, document: SiteDocument) -> bool:
            return document.created_at is None or document.created_at >= attempts[key]["claimed_at"] - CLOCK_SKEW

        found = 0
        for match in matches(index, self._unknown(), may_be):
            # A title says nothing about the content, so the time has to.
            if match.how == "title" and match.document.created_at is None:
                continue
            found += 1
            document_id = match.document.document_id
            self._settle(self._of_source("unresolved", [match.row]), "created", BY_LIST, document_id)
            if match.document.status is not None:
                self._scope_ledger.set_documents([document_id], status=match.document.status)
            plan.has_document(match.row, attempts[match.row]["content_hash"], document_id)
        return found

    def _settle_single(self, twice: Iterable[_Entry]) -> int:
        """Record that documents exist once which may exist twice, if the list shows no other that looks the same."""
        ids_by_texts = defaultdict(set)
        for one, document in self._listed.items():
            ids_by_texts[texts_of_document(document)].add(one)
        single = 0
        for attempt in twice:
            found = self._listed.get(attempt["remote_id"])
            if found and self._is_visible(attempt) and len(ids_by_texts[texts_of_document(found)]) == 1:
                single += 1
                self._settle(self._of_source("doubled", [attempt["key"]]), "not-created", NOT_IN_LIST)
        return single

    def _adopted(self, rows: Rows) -> list[Outcome]:
        """Return outcomes of the rows whose document is certainly an unknown one."""
        index = RowIndex()
        claims: dict[str, Claim] = {}
        for batch in rows.batches():
            if isinstance(batch, Note):
                continue
            attempts = self._scope_ledger.known([row.key for row in batch.rows])
            for row in map(batch.complete, batch.rows):
                of_key = attempts.get(row.key, [])
                if row.payload is None or row.key in claims or any(one.state == "created" for one in of_key):
                    continue
                number = of_key[-1].number + 1 if of_key else 1
                claims[row.key] = Claim(row.key, row.label, number, row.content_hash, row.group_name)
                index.add(row.key, texts_of_call(rows.call(row.payload)))
        return [
            Outcome(claims[match.row], "created", remote_id=match.document.document_id)
            for match in matches(index, self._unknown())
            if match.how == "content"
        ]
