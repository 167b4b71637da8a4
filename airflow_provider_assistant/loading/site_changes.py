"""
Make a site equal to its source after a load: activate new documents, and remove outdated ones from use.

New documents come first: an outdated document is removed only when the documents that replace it are accepted and,
where the list of the site shows it, in use. It is deactivated before it is deleted. Only documents that the ledger
created are changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from airflow_provider_assistant.api.document_routes import Change, route_of
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger.document_changes import DocumentChanges, KnownDocument
from airflow_provider_assistant.loading.managed_site import ManagedSite
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.report import LoadReport
from airflow_provider_assistant.loading.site_client import RouteMissingError, SiteClient
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Reports documents that were not changed, with the reason.
Report: TypeAlias = Callable[[Sequence[KnownDocument], str], None]
# Longest time in seconds until the list shows a change that the service has accepted.
VISIBLE = 60.0


def check_routes(options: LoadOptions, site: ManagedSite | None) -> None:
    """
    Check that the connection describes the routes that a load needs to change documents.

    :param site: None if the connection describes none.
    :raises AssistantInputError: It does not.
    """
    needed: list[Change] = []
    if options.activate:
        needed.append("activate")
    if options.removal:
        needed.append(options.removal)
    if options.on_change == "replace":
        needed.append("delete")
    if not needed:
        return
    if site is None:
        raise AssistantInputError(
            "the load changes documents, and the connection does not allow it",
            safe=NOTHING_SENT,
            todo="Set manage_documents in the connection.",
            field="manage_documents",
        )
    for change in needed:
        route_of(site.routes, change)


class SiteChanges:
    """
    Change the documents of a source on its site after its rows were loaded.

    :param client: Client of the load.
    :param changes: The ledger of changes.
    :param report: Counts the changes, and lists the documents that remain.
    """

    def __init__(
        self,
        client: AssistantClient,
        site: ManagedSite,
        options: LoadOptions,
        changes: DocumentChanges,
        report: LoadReport,
    ) -> None:
        self._site_id = site.site_id
        self._site = SiteClient(client, site, options.max_removals_per_minute)
        self._options = options
        self._changes = changes
        self._report = report

    async def apply(self, stale: Sequence[KnownDocument], created: Sequence[str]) -> None:
        """
        Activate and remove documents.

        :param stale: Documents whose rows are gone from the source, to be removed.
        :param created: Ids of the documents that this load created.
        :raises AssistantError: A request or the ledger failed. A later load goes on with what is left.
        """
        inactive: list[KnownDocument] = []
        superseded: list[KnownDocument] = []
        if self._options.activate:
            inactive = self._changes.inactive(self._is_not_to_activate)
        if self._options.on_change == "replace":
            superseded = self._removable(self._changes.superseded())
        stale = self._removable(stale)
        if not (inactive or superseded or stale):
            return
        # A document without a row may have been renamed: its successor is one of the new documents.
        new_ids = set(created) if stale else set()
        new_ids.update(document.successor for document in superseded if document.successor)
        documents = [*inactive, *superseded, *stale]
        self._site.watched = {*new_ids, *(document.document_id for document in documents)}
        try:
            await self._site.look()
            await self._activate(inactive)
            await self._wait_until_in_use(new_ids)
            replaced = self._replaced(superseded)
            removable = self._without_waiting(stale, created)
            if self._options.removal == "deactivate":
                await self._remove("deactivate", removable)
                removable = []
            await self._remove("delete", [*replaced, *removable])
        except RouteMissingError as missing:
            log.warning(
                "The documents of site %r stay as they are, because the service does not have a route that "
                "manage_documents of the connection describes: %s. `airflow assistant documents check` tests them.",
                self._site_id,
                missing,
            )
            self._report.still_drafts(inactive)
            self._report.outdated([*superseded, *stale], "the service has no route to remove it")

    def _is_not_to_activate(self, status: str | None) -> bool:
        """Return whether a document with this status in the ledger is in use, or activation does not help it."""
        return status is not None and self._site.routes.words.state(status) not in {"draft", "other"}

    def _removable(self, outdated: Sequence[KnownDocument]) -> list[KnownDocument]:
        """Leave out documents that other entries need: for equal content, a service may return an existing document."""
        if not outdated:
            return []
        uses = self._changes.uses_of({document.document_id for document in outdated})
        removable = []
        for document in outdated:
            # A stale document has its own entry, a superseded one has none.
            own = 1 if document.reason == "stale" else 0
            if uses[document.document_id] <= own:
                removable.append(document)
            else:
                log.info("Document %s (%s) is kept: another row needs it.", document.document_id, document.label)
                self._changes.forget([document])
        return removable

    # -- new documents -------------------------------------------------------------------------

    async def _activate(self, inactive: Sequence[KnownDocument]) -> None:
        ids = [document.document_id for document in inactive]
        in_use = set(self._site.among(ids, {"active"}))
        active = [document for document in inactive if document.document_id in in_use]
        drafts = [document for document in inactive if document.document_id not in in_use]
        accepted = await self._change("activate", drafts, self._report.not_activated)
        accepted_ids = [document.document_id for document in accepted]

        def still_drafts() -> set[str]:
            return set(self._site.among(accepted_ids, {"draft", "other", "failed"}))

        if accepted:
            await self._site.look()
        await self._site.look_until(lambda: not still_drafts(), VISIBLE)
        kept, activated = _parted(accepted, still_drafts())
        # Counted first: the service has changed them, whether or not the ledger can record it.
        self._report.activated(len(activated))
        self._changes.record(activated, "activate")
        self._changes.record_status([*active, *activated], "active")
        self._keep("activate", kept, self._report.not_activated)

    async def _wait_until_in_use(self, new_ids: Collection[str]) -> None:
        """Wait until new documents are ready. Waiting does not help a draft, or one that could not be processed."""

        def is_waiting() -> bool:
            states = self._site.states
            return any(states.get(document_id, "processing") == "processing" for document_id in new_ids)

        await self._site.look_until(lambda: not is_waiting(), self._options.ready_timeout)

    def _is_new_in_use(self, document_id: str) -> bool:
        """Return whether a new document is in use; True if the list cannot show it."""
        if not self._site.can_look:
            return True
        return self._site.states.get(document_id, "processing") in {"active", "unknown"}

    # -- outdated documents --------------------------------------------------------------------

    def _replaced(self, superseded: Sequence[KnownDocument]) -> list[KnownDocument]:
        """Return the superseded documents whose newer ones are in use, and report the others."""
        replaced = []
        for document in superseded:
            successor = document.successor
            if successor is None or self._is_new_in_use(successor):
                replaced.append(document)
            else:
                state = self._site.states.get(successor, "not in the list")
                self._report.kept([document], f"the newer document {successor} is not in use: {state}")
        return replaced

    def _without_waiting(self, stale: Sequence[KnownDocument], created: Sequence[str]) -> Sequence[KnownDocument]:
        """Return the stale documents, or none, reported, if a new document is not in use."""
        waiting = [document_id for document_id in created if not self._is_new_in_use(document_id)]
        if stale and waiting:
            self._report.kept(stale, f"{counted(len(waiting), 'new document')} not in use, such as {waiting[0]}")
            return []
        return stale

    async def _remove(self, change: Change, outdated: Sequence[KnownDocument]) -> None:
        """Remove documents from use, see that they are gone, and forget them."""
        if not outdated:
            return
        gone: Sequence[KnownDocument] = []
        present = outdated
        if self._site.can_look:
            present, gone = _parted(outdated, self._site.states)
        if change == "delete" and self._site.routes.set_status is not None:
            present = await self._change("deactivate", present, self._report.kept)
            self._changes.record(present, "deactivate")
        present = await self._change(change, present, self._report.kept)
        ids = [document.document_id for document in present]

        def still_there() -> set[str]:
            if not self._site.can_look:
                return set()
            if change == "deactivate":
                return set(self._site.among(ids, {"active"}))
            return {document_id for document_id in ids if document_id in self._site.states}

        if present:
            await self._site.look()
        await self._site.look_until(lambda: not still_there(), VISIBLE)
        kept, removed = _parted(present, still_there())
        # Counted first: the service has changed them, whether or not the ledger can record it.
        self._report.removed(change, len(gone) + len(removed))
        self._changes.claim(gone, change)
        self._changes.record_removed([*gone, *removed], change)
        self._keep(change, kept, self._report.kept)

    # -- records -------------------------------------------------------------------------------

    async def _change(self, change: Change, documents: Sequence[KnownDocument], report: Report) -> list[KnownDocument]:
        """Claim and change documents; record and report those that the service refuses, and return the others."""
        if not documents:
            return []
        by_id = {document.document_id: document for document in documents}

        def claim(ids: Sequence[str]) -> None:
            self._changes.claim([by_id[document_id] for document_id in ids], change)

        for refusal in await self._site.change(change, list(by_id), claim):
            document = by_id.pop(refusal.document_id)
            self._changes.record([document], change, refusal.reason)
            report([document], refusal.reason)
        return list(by_id.values())

    def _keep(self, change: Change, kept: Sequence[KnownDocument], report: Report) -> None:
        """Record and report documents that the list shows unchanged although the service accepted the change."""
        reason = f"the service accepted the request to {change} it, but its list shows no change"
        self._changes.record(kept, change, reason)
        report(kept, reason)


def _parted(
    documents: Sequence[KnownDocument], ids: Collection[str]
) -> tuple[list[KnownDocument], list[KnownDocument]]:
    """Return the documents with one of these ids, and the others."""
    with_id = [document for document in documents if document.document_id in ids]
    others = [document for document in documents if document.document_id not in ids]
    return with_id, others
