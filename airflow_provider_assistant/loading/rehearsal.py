"""A load that sends nothing: what it would do, as far as anybody can know before it is done."""

from __future__ import annotations

from airflow_provider_assistant.api.call import Exchange
from airflow_provider_assistant.api.models import CreatedDocument
from airflow_provider_assistant.ledger import BatchLedger
from airflow_provider_assistant.loading.loader import Load
from airflow_provider_assistant.loading.survey import Survey

NOT_SENT = CreatedDocument(None, Exchange(status=0))


class Rehearsal(Load):
    """
    A load that decides about every row as a load does, and neither claims nor sends any.

    What would be sent counts as created. It reads the ledger and writes nothing to it; what the service would say
    of a row, nobody knows.
    """

    def _adopt(self, memory: BatchLedger, seen: Survey) -> None:
        """Take over nothing."""

    async def _send_all(self, seen: Survey, started: float) -> None:  # noqa: ARG002
        for sent in self._claims(seen):
            self._tally.created(sent.item, NOT_SENT, sent.claim.known)
            self._on_created(sent.item, NOT_SENT)
