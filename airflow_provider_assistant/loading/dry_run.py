"""The dry run of a load: it decides about every row and sends nothing."""

from __future__ import annotations

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.models import CreatedDocument
from airflow_provider_assistant.ledger import BatchLedger
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.preflight import LoadPlan

NOT_SENT = CreatedDocument(None, CallInfo(status=0))


class DryRun(Load):
    """
    Dry-run a load: decide about every row as :class:`Load` does, but claim and send none.

    Rows that a load would send count as created. The dry run reads the ledger and does not write to it. It cannot
    know which rows the service would reject. It takes the parameters of :class:`Load`.
    """

    def _adopt(self, ledger: BatchLedger, preflight: LoadPlan) -> None:
        """Leave the owners of all keys unchanged."""

    async def _send_all(self, preflight: LoadPlan, started: float) -> None:  # noqa: ARG002
        for attempt in self._claims(preflight):
            self._tally.created(attempt.item, NOT_SENT, attempt.claim.entry)
            self._on_created(attempt.item, NOT_SENT)
