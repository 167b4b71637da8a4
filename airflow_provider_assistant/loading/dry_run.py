"""The dry run of a load: it decides about every row and sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.ledger import ScopeLedger, StaleDocument
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.managed_site import ManagedSite
from airflow_provider_assistant.loading.preflight import LoadPlan

NOT_SENT = CreatedDocument(None, CallInfo(status=0))


class DryRun(Load):
    """
    Dry-run a load: decide about every row as :class:`Load` does, but claim and send none.

    Rows that a load would send count as created. The dry run reads the ledger and does not write to it. Its only
    request reads the tenant's limits, so that it says which rows do not fit. It cannot know which rows the service
    would reject. It takes the parameters of :class:`Load`.
    """

    def _adopt(self, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Leave the owners of all keys unchanged."""

    def _mark_seen(self, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Leave what the ledger says about gone rows unchanged."""

    def _mark_stale(self, ledger: ScopeLedger, keys: Sequence[str]) -> None:
        """Leave what the ledger says about gone rows unchanged."""

    def _regroup(self, ledger: ScopeLedger) -> None:
        """Leave the groups of all documents unchanged."""

    async def _settle(self, site: ManagedSite, ledger: ScopeLedger, plan: LoadPlan) -> None:
        """Leave ambiguous rows ambiguous."""

    async def _change_site(self, ledger: ScopeLedger, site: ManagedSite, stale: Sequence[StaleDocument]) -> None:  # noqa: ARG002
        """Count the documents that a load would remove."""
        removal = self._options.removal
        if removal:
            self._report.removed(removal, len(self._removable(stale)))
        if self._options.on_change == "replace":
            # Those of this load, which did not create the newer ones, and those of earlier loads.
            self._report.removed("delete", self.counts.changed + len(ledger.changes().superseded()))

    async def _send_all(self, plan: LoadPlan) -> None:
        with ThreadPoolExecutor(1, "ledger") as thread:
            async for attempt in self._attempts(plan, thread):
                self._report.created(attempt.row, NOT_SENT, attempt.claim.entry)
                self._on_created(attempt.row, NOT_SENT)
