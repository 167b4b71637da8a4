"""
Make a site equal to its source after a load: activate new documents, and remove outdated ones from use.

New documents come first: an outdated document is removed only when the documents that replace it are accepted and,
where the list of the site shows it, in use. Only documents that the ledger knows are changed, and none that another row
of any source needs. Every change may be repeated, so a later load goes on with what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from airflow_provider_assistant.api.document_routes import Change, DocumentRoutes, route_of
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import ScopeLedger
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.site_list import RouteMissingError, SiteClient
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


@dataclass(slots=True)
class Changed:
    """
    Report what was changed on a site.

    :param removed: Ids of the documents that were deactivated or deleted.
    :param reasons: Why a document stays as it is, by its id.
    """

    activated: int = 0
    deactivated: int = 0
    deleted: int = 0
    not_activated: int = 0
    not_removed: int = 0
    removed: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)


class SiteChanges:
    """
    Change the documents of a source on its site after its rows were loaded.

    :ivar changed: What was changed.
    """

    def __init__(self, site: SiteClient, ledger: ScopeLedger, options: LoadOptions) -> None:
        self.changed = Changed()
        self._site = site
        self._ledger = ledger
        self._options = options

    async def apply(
        self,
        inactive: Sequence[str],
        superseded: dict[str, str | None],
        stale: Sequence[str],
        created: Collection[str],
    ) -> None:
        """
        Activate and remove documents.

        :param inactive: Ids of documents that are not known to be in use.
        :param superseded: Ids of outdated documents, each with that of the newer one, None if it is not known.
        :param stale: Ids of documents whose row is gone.
        :param created: Ids of the documents that this load created.
        :raises AssistantError: A request or the ledger failed.
        """
        if not (inactive or superseded or stale):
            return
        # A document without a row may have been renamed: its successor is one of the new documents.
        new_ids = set(created) if stale else set()
        new_ids.update(newer for newer in superseded.values() if newer)
        self._site.watched = {*new_ids, *inactive, *superseded, *stale}
        try:
            await self._site.look()
            if self._site.routes.activate is not None:
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
                "The documents of %s stay as they are, because the service does not have a route that "
                "manage_documents of the connection describes: %s. `airflow assistant documents check` tests them.",
                self._ledger.scope.site,
                missing,
            )
            self.changed.reasons |= dict.fromkeys([*superseded, *stale], "the service has no route to remove it")

    async def _activate(self, inactive: Sequence[str]) -> None:
        in_use = self._site.among(inactive, {"active"})
        drafts = [one for one in inactive if one not in in_use]
        refused = await self._site.change("activate", drafts) if drafts else {}
        self._not_activated(refused)
        accepted = [one for one in drafts if one not in refused]
        if accepted:
            await self._site.look()
        await self._site.look_until(lambda: not self._site.among(accepted, {"draft", "other"}), VISIBLE)
        # Waiting does not help a document that could not be processed.
        left = self._site.among(accepted, {"draft", "other", "failed"})
        self._not_activated({one: f"it was activated, and the list shows {self._site.states[one]}" for one in left})
        activated = [one for one in accepted if one not in left]
        self.changed.activated += len(activated)
        self._ledger.set_documents([*in_use, *activated], status="active")

    def _not_activated(self, reasons: dict[str, str]) -> None:
        self.changed.not_activated += len(reasons)
        self.changed.reasons |= reasons

    async def _wait_until_in_use(self, new_ids: Collection[str]) -> None:
        """Wait until new documents are ready. Waiting does not help a draft, or one that could not be processed."""

        def is_waiting() -> bool:
            return any(self._site.states.get(one, "processing") == "processing" for one in new_ids)

        await self._site.look_until(lambda: not is_waiting(), READY)

    def _is_in_use(self, document_id: str) -> bool:
        """Return whether a new document is in use; True if the list cannot show it."""
        if not self._site.can_look:
            return True
        return self._site.states.get(document_id, "processing") in {"active", "unknown"}

    def _replaced(self, superseded: dict[str, str | None]) -> list[str]:
        """Return the superseded documents whose newer ones are in use, and keep the others."""
        replaced = []
        for document_id, newer in superseded.items():
            if newer is None or self._is_in_use(newer):
                replaced.append(document_id)
            else:
                state = self._site.states.get(newer, "not in the list")
                self._keep([document_id], f"the newer document {newer} is not in use: {state}")
        return replaced

    def _without_waiting(self, stale: Sequence[str], created: Collection[str]) -> Sequence[str]:
        """Return the stale documents; none, if a new document is not in use."""
        waiting = sorted(one for one in created if not self._is_in_use(one))
        if stale and waiting:
            self._keep(stale, f"{counted(len(waiting), 'new document')} not in use, such as {waiting[0]}")
            return []
        return stale

    async def _remove(self, change: Change, outdated: Sequence[str]) -> None:
        """Remove documents from use, see that they are gone, and record it."""
        if not outdated:
            return
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
        self._keep(still_there(), f"the service accepted the request to {change} it, but its list shows no change")
        removed = [one for one in outdated if one not in self.changed.reasons]
        # Counted first: the service has changed them, whether or not the ledger can record it.
        self.changed.removed.update(removed)
        if change == "delete":
            self.changed.deleted += len(removed)
        else:
            self.changed.deactivated += len(removed)
        self._ledger.set_documents(removed, state="removed")

    async def _change(self, change: Change, ids: Sequence[str]) -> list[str]:
        """Change documents; keep those that the service refuses, and return the others."""
        if not ids:
            return []
        refused = await self._site.change(change, ids)
        for document_id, reason in refused.items():
            self._keep([document_id], reason)
        return [one for one in ids if one not in refused]

    def _keep(self, ids: Collection[str], reason: str) -> None:
        self.changed.not_removed += len(ids)
        self.changed.reasons |= dict.fromkeys(ids, reason)
