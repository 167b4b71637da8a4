"""
Make a site equal to its source after a load: activate new documents, and remove outdated ones from use.

New documents come first: an outdated document is removed only when the documents that replace it are accepted and,
where the list of the site shows it, in use. Only documents that the ledger knows are changed, and none that another row
of any source needs. Every change may be repeated, so a later load goes on with what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from airflow_provider_assistant.api.document_routes import Change, DocumentRoutes, route_of
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Filter, Ledger, ScopeLedger, queries
from airflow_provider_assistant.ledger.schema import REMOVING
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.site_client import RouteMissingError, SiteClient
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Longest time in seconds until the list shows a change that the service has accepted, and until a new document is
# ready.
VISIBLE, READY = 60.0, 600.0


def check_routes(options: LoadOptions, routes: DocumentRoutes | None) -> None:
    """
    Check that the connection describes the routes that a load needs to remove documents.

    :raises AssistantInputError: It does not.
    """
    if not options.removes:
        return
    if routes is None:
        raise AssistantInputError(
            "the load removes documents, and the connection does not allow it",
            safe=NOTHING_SENT,
            todo="Set manage_documents in the connection.",
            field="manage_documents",
        )
    if options.removal:
        route_of(routes, options.removal)
    if options.on_change == "replace":
        route_of(routes, "delete")


class SiteChanges:
    """
    Change the documents of a source on its site after its rows were loaded.

    :param counts: Counts of the load, to which those of the changes are added.
    :ivar removed: Ids of the documents that were deactivated or deleted.
    :ivar reasons: Why a document stays as it is, by its id.
    """

    def __init__(
        self, site: SiteClient, ledger: Ledger, scope_ledger: ScopeLedger, options: LoadOptions, counts: LoadCounts
    ) -> None:
        self.removed: set[str] = set()
        self.reasons: dict[str, str] = {}
        self._site = site
        self._ledger = ledger
        self._scope_ledger = scope_ledger
        self._of_source = (scope_ledger.scope, scope_ledger.source)
        self._options = options
        self._counts = counts

    async def apply(self, stale: Sequence[str]) -> None:
        """
        Activate drafts; remove stale documents, and superseded ones if the options say so.

        :param stale: Ids of documents whose row is gone.
        :raises AssistantError: A request or the ledger failed.
        """
        inactive, superseded = self._inactive(), self._superseded()
        if not (inactive or superseded or stale):
            return
        # A document without a row may have been renamed: its successor is one of the new documents.
        created = self._created() - {*superseded, *stale} if stale else set()
        new_ids = created.union(newer for newer in superseded.values() if newer)
        self._site.watched = {*new_ids, *inactive, *superseded, *stale}
        try:
            await self._site.look()
            await self._activate(inactive)
            # Waiting does not help a draft, or a document that could not be processed.
            await self._site.look_until(
                lambda: all(self._site.states.get(one, "processing") != "processing" for one in new_ids), READY
            )
            outdated = self._replaced(superseded)
            removable = self._removable(stale, created)
            if self._options.removal == "deactivate":
                await self._remove("deactivate", removable)
            else:
                outdated += removable
            await self._remove("delete", outdated)
        except RouteMissingError as missing:
            log.warning(
                "The documents of %s stay as they are, because the service does not have a route that "
                "manage_documents of the connection describes: %s. `airflow assistant documents check` tests them.",
                self._scope_ledger.scope.site,
                missing,
            )
            self.reasons |= dict.fromkeys([*superseded, *stale], "the service has no route to remove it")

    def _inactive(self) -> dict[str, bool]:
        """Return the documents that are not known to be in use, each with whether its removal has begun."""
        routes, inactive = self._site.routes, {}
        for remote_id, status in self._ledger.read(queries.statuses, *self._of_source):
            if status == REMOVING:
                inactive[remote_id] = True
            elif routes.activate and (status is None or routes.words.state(status) in {"draft", "other"}):
                inactive[remote_id] = False
        return inactive

    def _created(self) -> set[str]:
        """Return the documents that this run has created, by any of its tries."""
        run = self._scope_ledger.run
        selected = Filter(which="created", scope=self._scope_ledger.scope.id, source=self._scope_ledger.source, run=run)
        with self._ledger.connect() as connection:
            found = queries.all_entries(connection, self._ledger.clock, selected)
            return {row["remote_id"] for row in found if row["remote_id"]}

    def _superseded(self) -> dict[str, str | None]:
        """Return the superseded documents to delete, each with the newer one, None if its id is not known."""
        if self._options.on_change != "replace":
            return {}
        pairs = self._ledger.read(queries.superseded, *self._of_source)
        self._counts.not_removed += sum(1 for old, _new in pairs if old is None)
        return {old: new for old, new in pairs if old is not None}

    async def _activate(self, inactive: Mapping[str, bool]) -> None:
        in_use = self._site.among(inactive, {"active"})
        drafts = [one for one in inactive if one not in in_use]
        if self._site.routes.activate is None:
            off = [one for one in drafts if self._site.states.get(one) != "unknown"]
            refused = dict.fromkeys(off, "its removal has begun, and the connection has no route to activate it")
        else:
            refused = await self._site.change("activate", drafts)
        # The list shows a document that was there before its removal, though perhaps not yet a new one.
        unseen = {one for one in drafts if self._site.can_look and one not in self._site.states}
        lost = {one for one in self._site.gone | unseen if inactive.get(one)}
        refused |= dict.fromkeys(lost, "an earlier load has removed it; a retry creates it again")
        self._scope_ledger.set_documents(lost, state="removed")
        accepted = [one for one in drafts if one not in refused]
        if accepted:
            await self._site.look()
            await self._site.look_until(lambda: not self._site.among(accepted, {"draft", "other"}), VISIBLE)
        # Waiting does not help a document that could not be processed.
        left = self._site.among(accepted, {"draft", "other", "failed"})
        refused |= {one: f"it was activated, and the list shows {self._site.states[one]}" for one in left}
        activated = [one for one in accepted if one not in left]
        if refused:
            first, reason = next(iter(refused.items()))
            log.warning("%s not activated, such as %s: %s", counted(len(refused), "document"), first, reason)
        self._counts.not_activated += len(refused)
        self._counts.activated += len(activated)
        self.reasons |= refused
        self._scope_ledger.set_documents([*in_use, *activated], status="active")

    def _is_in_use(self, document_id: str) -> bool:
        """Return whether a new document is in use; True if the list cannot show it."""
        return not self._site.can_look or self._site.states.get(document_id) in {"active", "unknown"}

    def _replaced(self, superseded: Mapping[str, str | None]) -> list[str]:
        """Return the superseded documents whose newer ones are in use, and keep the others."""
        replaced = []
        for document_id, newer in superseded.items():
            if newer is None or self._is_in_use(newer):
                replaced.append(document_id)
            else:
                state = self._site.states.get(newer, "not in the list")
                self._keep({document_id: f"the newer document {newer} is not in use: {state}"})
        return replaced

    def _removable(self, stale: Sequence[str], created: Collection[str]) -> list[str]:
        """Return the stale documents; keep all of them if a new document, which may replace one, is not in use."""
        unused = sorted(one for one in created if not self._is_in_use(one))
        if not unused:
            return list(stale)
        reason = f"{counted(len(unused), 'new document')} not in use, such as {unused[0]}"
        self._keep(dict.fromkeys(stale, reason))
        return []

    async def _remove(self, change: Change, outdated: Sequence[str]) -> None:
        """Remove documents from use, see that they are gone, and record it."""
        if not outdated:
            return
        # Recorded first: if a reply is lost and the row comes back, its document is not taken for one that is in use.
        self._scope_ledger.set_documents(outdated, status=REMOVING)
        present = list(outdated)
        if self._site.can_look:
            present = [one for one in outdated if one in self._site.states]
        if change == "delete" and self._site.routes.deactivate is not None:
            # A deletion that is refused leaves a document that is not used.
            present = await self._change("deactivate", present)
        present = await self._change(change, present)
        if present:
            await self._site.look()

        def still_there() -> set[str]:
            if not self._site.can_look:
                return set()
            if change == "deactivate":
                return self._site.among(present, {"active"})
            return {one for one in present if one in self._site.states}

        await self._site.look_until(lambda: not still_there(), VISIBLE)
        unseen = f"the service accepted the request to {change} it, but its list shows no change"
        self._keep(dict.fromkeys(still_there(), unseen))
        removed = [one for one in outdated if one not in self.reasons]
        # Counted first: the service has changed them, whether or not the ledger can record it.
        self.removed.update(removed)
        if change == "delete":
            self._counts.deleted += len(removed)
        else:
            self._counts.deactivated += len(removed)
        self._scope_ledger.set_documents(removed, state="removed")

    async def _change(self, change: Change, ids: Sequence[str]) -> list[str]:
        """Change documents; keep those that the service refuses, and return the others."""
        refused = await self._site.change(change, ids)
        self._keep(refused)
        return [one for one in ids if one not in refused]

    def _keep(self, reasons: Mapping[str, str]) -> None:
        self._counts.not_removed += len(reasons)
        self.reasons |= reasons
