"""A batch that fits into memory: claimed, sent and recorded, with its results. A single request is a batch of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantAPIError,
    AssistantBadRequestError,
    AssistantError,
    AssistantLedgerError,
)
from airflow_provider_assistant.ledger import Outcome, ScopeLedger
from airflow_provider_assistant.sending.client import SendingClient
from airflow_provider_assistant.sending.decide import Item, outcome_of_reply
from airflow_provider_assistant.sending.sender import Sender


class Result(NamedTuple):
    """The outcome of a row that was claimed. Without a reply, :attr:`.Item.error` is the reason."""

    item: Item
    outcome: Outcome
    reply: Any


class Batch:
    """
    Send the rows of a list.

    :param may_repeat: Whether to send a request again that may have had an effect. Default: True, as the connection
        says.
    :param outcome_of: Returns the outcome of a reply. Default: that of a created document or chat request.
    :param refusals: Errors by which the service refuses one row. Default: a 400 or the like.
    :ivar results: Results of the rows so far, in the order in which they ended.
    """

    def __init__(
        self,
        ledger: ScopeLedger,
        settings: ClientSettings,
        *,
        may_repeat: bool = True,
        outcome_of: Callable[[Item, Any], Outcome] = outcome_of_reply,
        refusals: tuple[type[AssistantAPIError], ...] = (AssistantBadRequestError,),
    ) -> None:
        self.results: list[Result] = []
        retry = settings.retry
        self._client = SendingClient(
            settings, max_backoff=retry.max_backoff, retry_ambiguous=may_repeat and retry.retry_ambiguous
        )
        self._sender = Sender(
            ledger,
            self._client,
            on_outcome=self._take,
            on_lost=lambda _item: None,
            outcome_of=outcome_of,
            refusals=refusals,
            stopped="the task was ended from outside; a retry sends what is left",
        )

    @property
    def breaker(self) -> CircuitBreaker:
        """Knows the error that stopped the batch."""
        return self._sender.breaker

    def send(self, items: Sequence[Item]) -> None:
        """
        Send the rows until an error stops all of them, which is then :attr:`breaker`'s.

        :raises AssistantIncompleteError: :meth:`cancel` was called.
        """
        if items:
            run_coroutine(self._send(items))

    def send_one(self, item: Item) -> Any:
        """
        Send a row and return the reply.

        :raises AssistantLedgerError: The claim cannot be recorded, and nothing was sent.
        :raises AssistantError: The error of the last request.
        """
        self._client.logs_retries = True
        self.send([item])
        if self.results and self.results[0].reply is not None:
            return self.results[0].reply
        raise item.error or self.breaker.error or _claimed_elsewhere(item)

    def cancel(self) -> None:
        """Stop sending, and end :meth:`send` within a few seconds. A signal handler may call this."""
        self._sender.cancel()

    async def _send(self, items: Sequence[Item]) -> None:
        async with self._client:
            await self._sender.run(iter(items))

    def _take(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        self.results.append(Result(item, outcome, reply))


def _claimed_elsewhere(item: Item) -> AssistantError:
    return AssistantLedgerError(
        f"another task claims {item.claim.label} at the same time",
        safe=NOTHING_SENT,
        todo="Run the task again: it reads what the other task recorded.",
    )
