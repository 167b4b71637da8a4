"""Run the flows of the API through a transport, with and without asyncio."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.ambiguity import OnAmbiguous, decided
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.outage import Outage
from airflow_provider_assistant.client.defaults import get_client_defaults
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

T = TypeVar("T")


class AssistantClient:
    """
    Send calls and run flows for one connection.

    Use :meth:`send` from any number of threads, or :meth:`asend` from one event loop. Close the client with
    :meth:`close` or :meth:`aclose`, or use it as a context manager.

    :param settings: Base URL, API key, timeout and the other settings.
    :param transport: Transport of :meth:`send`; the client closes it. Default: None, httpx.
    :param async_transport: Transport of :meth:`asend`; the client closes it. Default: None, aiohttp.
    :param now: Clock, returning seconds since the epoch. Default: None, :func:`time.time`.
    :param sleep: Function that waits a number of seconds, for :meth:`send`. Default: None, :func:`time.sleep`.
    :param asleep: Coroutine function that waits a number of seconds, for :meth:`asend`. Default: None,
        :func:`asyncio.sleep`.
    :param rng: Random generator of the retry jitter. Default: None, a new one.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        transport: Transport | None = None,
        async_transport: AsyncTransport | None = None,
        now: flow.Clock | None = None,
        sleep: Callable[[float], None] | None = None,
        asleep: Callable[[float], Awaitable[None]] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        defaults = get_client_defaults()
        self.settings = settings
        self.now = now or defaults.now
        self._sleep = sleep or defaults.sleep
        self.asleep = asleep or defaults.asleep
        self._rng = rng or defaults.rng()
        self.outage = Outage(settings.retry.pause_in_outage, self.now, self._rng)
        self._transport = transport or defaults.transport(settings)
        self._async_transport = async_transport or defaults.async_transport(settings)
        self._redactor = redactor_of(settings.base_url, settings.api_key)

    def send(self, call: Call[T], on_ambiguous: OnAmbiguous | None = None) -> T:
        """
        Send one call, with retries, and return its reply.

        :param call: The call.
        :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless. ``retry`` sends it
            again as often as the retry rule allows, except for a ``POST …/chat`` that timed out. ``fail`` never sends
            it again. Default: None, follow ``retry_ambiguous`` of the retry rule.
        :return: The reply that the call's parser builds.
        :raises AssistantAPIError: The service answered with an error status; the subclass depends on the status.
        :raises AssistantConnectionError: The connection cannot be opened, or it broke.
        :raises AssistantTimeoutError: No complete response came within ``timeout``.
        :raises AssistantAmbiguousError: The call creates something, failed, and may have taken effect nevertheless.
        :raises AssistantResponseError: The status is a success, but the body cannot be used.
        """
        steps = self._attempts(call)
        if on_ambiguous is not None:
            steps = decided(call, on_ambiguous, self.settings.retry, now=self.now, rng=self._rng, outage=self.outage)
        return self.run(steps)

    async def asend(self, call: Call[T]) -> T:
        """
        Send one call under asyncio, with retries, and return its reply.

        :param call: The call.
        :return: The reply that the call's parser builds.
        :raises AssistantError: The call failed; the subclasses are those of :meth:`send`.
        """
        return await self.arun(self._attempts(call))

    def send_once(self, call: Call[T]) -> T:
        """Send one call without retries, and return its reply or raise the error of :meth:`send`."""
        return self.run(flow.once(call, now=self.now))

    async def asend_once(self, call: Call[T]) -> T:
        """Do the same as :meth:`send_once` under asyncio."""
        return await self.arun(flow.once(call, now=self.now))

    def run(self, steps: flow.Flow[T]) -> T:
        """
        Run a flow to its end and return its result.

        :param steps: The flow.
        :return: What the flow returns; errors that it raises are raised unchanged.
        """
        step = _advance(steps)
        while not isinstance(step, _Finished):
            if isinstance(step, flow.Send):
                step = _advance(steps, self._exchange_sync(step.call))
            else:
                self._log_retry(step)
                self._sleep(step.seconds)
                step = _advance(steps)
        return step.result

    async def arun(self, steps: flow.Flow[T], on_wait: Callable[[flow.Wait], None] | None = None) -> T:
        """
        Run a flow to its end under asyncio and return its result.

        :param steps: The flow.
        :param on_wait: Called before each wait. Default: None, log a warning about a retry.
        :return: What the flow returns; errors that it raises are raised unchanged.
        """
        step = _advance(steps)
        while not isinstance(step, _Finished):
            if isinstance(step, flow.Send):
                outcome = await self._exchange(step.call)
                step = _advance(steps, outcome)
            else:
                (on_wait or self._log_retry)(step)
                await self.asleep(step.seconds)
                step = _advance(steps)
        return step.result

    def _log_retry(self, wait: flow.Wait) -> None:
        """Log a warning if a wait precedes a retry; while the service answers nothing, only every ten seconds."""
        if wait.reason is None:
            return
        if self.outage.tries:
            self.outage.report(pause=wait.seconds)
        else:
            log.warning("Trying again in %.1f s: %s", wait.seconds, wait.reason)

    def _exchange_sync(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once."""
        started = time.perf_counter()
        sent_at = self.outage.now()
        return self._observed(call, self._transport.exchange(call), started, sent_at)

    async def _exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once under asyncio."""
        started = time.perf_counter()
        sent_at = self.outage.now()
        return self._observed(call, await self._async_transport.exchange(call), started, sent_at)

    def _observed(
        self, call: Call[Any], outcome: Response | TransportFailure, started: float, sent_at: float
    ) -> Response | TransportFailure:
        """Count a request, learn from its outcome, and return the outcome without the API key."""
        status = str(outcome.status) if isinstance(outcome, Response) else outcome.kind
        seconds = time.perf_counter() - started
        metrics.request(call.endpoint, status, seconds)
        outcome = self._redactor.outcome(outcome)
        self.outage.record(outcome, sent_at)
        return outcome

    def _attempts(self, call: Call[T]) -> flow.Flow[T]:
        return flow.perform(call, self.settings.retry, now=self.now, rng=self._rng, outage=self.outage)

    def close(self) -> None:
        """Close the connections of :meth:`send`."""
        self._transport.close()

    async def aclose(self) -> None:
        """Close the connections of :meth:`asend`."""
        await self._async_transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass(frozen=True, slots=True)
class _Finished(Generic[T]):
    """The end of a flow."""

    result: T


def _advance(steps: flow.Flow[T], outcome: flow.Outcome = None) -> flow.Send | flow.Wait | _Finished[T]:
    """Continue a flow with the outcome of its last step, and return its next step."""
    try:
        return steps.send(outcome)
    except StopIteration as end:
        return _Finished(end.value)
