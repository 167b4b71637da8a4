"""A batch that fits into memory: claimed, sent and recorded, with its results. A single request is a batch of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantLedgerError
from airflow_provider_assistant.ledger import Outcome, ScopeLedger
from airflow_provider_assistant.sending.outcomes import Item
from airflow_provider_assistant.sending.sender import Sender


class Result(NamedTuple):
    """The outcome of a row that was claimed. Without a reply, :attr:`.Item.error` is the reason."""

    item: Item
    outcome: Outcome
    reply: Any


class Batch(Sender):
    """
    Send the rows of a list.

    :param may_repeat: Whether to send a request again that may have had an effect. Default: True, as the connection
        says.
    :param options: As of :class:`.Sender`, such as ``outcome_of``.
    :ivar results: Results of the rows so far, in the order in which they ended.
    """

    def __init__(
        self, ledger: ScopeLedger, settings: ClientSettings, *, may_repeat: bool = True, **options: Any
    ) -> None:
        self.results: list[Result] = []
        retries = may_repeat and settings.retry.retry_ambiguous
        super().__init__(
            ledger,
            AssistantClient(settings.retrying(retry_ambiguous=retries)),
            on_outcome=lambda *result: self.results.append(Result(*result)),
            on_lost=lambda _item: None,
            stopped="the task was ended from outside; a retry sends what is left",
            **{"logs_retries": True, **options},
        )

    def send(self, items: Sequence[Item]) -> None:
        """Send the rows, see :meth:`.Sender.run`."""

        async def send() -> None:
            async with self._client:
                await self.run(iter(items))

        if items:
            run_coroutine(send())

    def send_one(self, item: Item) -> Any:
        """
        Send a row and return the reply.

        :raises AssistantLedgerError: The claim cannot be recorded, and nothing was sent.
        :raises AssistantError: The error of the last request.
        """
        self.send([item])
        if self.results and self.results[0].reply is not None:
            return self.results[0].reply
        raise (
            item.error
            or self.breaker.error
            or AssistantLedgerError(
                f"another task claims {item.claim.label} at the same time",
                safe=NOTHING_SENT,
                todo="Run the task again: it reads what the other task recorded.",
            )
        )
