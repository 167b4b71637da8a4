"""The client: it sends calls, with retries, one at a time or many at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, NoReturn, Protocol, Self, TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Call, CallInfo, Response, TransportFailure
from airflow_provider_assistant.client.defaults import get_client_defaults
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.retry import Attempts, Retries, ambiguous, jittered
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.throttle import DEFAULT_PAUSE_SECONDS, Throttle
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

T = TypeVar("T")


class _IO(Protocol):
    """How a client waits and sends: it blocks its thread, or awaits."""

    def slot(
        self, *, is_patient: bool = False, is_slow: bool = False
    ) -> contextlib.AbstractAsyncContextManager[None]: ...

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure: ...

    async def sleep(self, seconds: float) -> None: ...


class AssistantClient:
    """
    Send calls for one connection.

    Use :meth:`send` from any number of threads, or :meth:`asend` from one event loop, where all requests share a
    throttle: a request may wait for its turn longer than for its response. Close the client with :meth:`close` or
    :meth:`aclose`, or use it as a context manager.

    :param transport: Transport of :meth:`send`. Default: httpx.
    :param async_transport: Transport of :meth:`asend`. Default: aiohttp.
    :param now: Clock in seconds since the epoch.
    :param sleep: Waits a number of seconds, for :meth:`send`.
    :param asleep: Coroutine function that waits a number of seconds, for :meth:`asend`.
    :param rng: Random generator of the jitter.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        transport: Transport | None = None,
        async_transport: AsyncTransport | None = None,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], None] | None = None,
        asleep: Callable[[float], Awaitable[None]] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        defaults = get_client_defaults()
        self.settings = settings
        self.now = now or defaults.now
        self._rng = rng or defaults.rng()
        self._transport = transport or defaults.transport(settings)
        self._async_transport = async_transport or defaults.async_transport(settings)
        self.throttle = Throttle(
            settings.max_concurrency,
            patience=settings.retry.outage_seconds,
            pause=settings.retry.pause_in_outage,
            longest_pause=settings.retry.max_backoff,
            now=self._monotonic,
            rng=self._rng,
        )
        self.asleep = asleep or defaults.asleep
        self._blocking = _Blocking(self._transport, sleep or defaults.sleep)
        self._awaiting = _Awaiting(self._async_transport, self.asleep, self.throttle)
        self._redactor = redactor_of(settings.base_url, settings.api_key)
        self._prepare_lock = asyncio.Lock()
        self._is_prepared = self._has_worked = False

    def send(self, call: Call[T], *, retry_ambiguous: bool | None = None) -> T:
        """
        Send one call, with retries, and return its reply.

        :param retry_ambiguous: Whether to send a create again that may have been carried out. Default: what the
            settings say. A ``POST …/chat`` that timed out is never sent again.
        :raises AssistantAPIError: The service answered with an error status; the subclass depends on the status.
        :raises AssistantConnectionError: The connection cannot be opened, or it broke.
        :raises AssistantTimeoutError: No complete response came within ``timeout``.
        :raises AssistantAmbiguousError: The call creates something, failed, and may have been carried out nevertheless.
            Airflow does not retry the task if ``retry_ambiguous`` is False.
        :raises AssistantResponseError: The status is a success, but the body cannot be used.
        """
        return _run_blocking(self._send(self._blocking, call, Attempts(), retry_ambiguous, is_repeat=False))

    async def asend(
        self,
        call: Call[T],
        *,
        attempts: Attempts | None = None,
        is_repeat: bool = False,
        logs_retries: bool = True,
    ) -> T:
        """
        Send one call under asyncio, with retries, and return its reply.

        :param attempts: Counts what is sent, also if this coroutine is cancelled.
        :param is_repeat: Whether an earlier call with the same body may have been carried out: then a 409 to a create
            means that it was.
        :param logs_retries: Whether to log a warning before each retry.
        :raises AssistantError: The call failed; the subclasses are those of :meth:`send`.
        """
        return await self._send(
            self._awaiting, call, attempts or Attempts(), None, is_repeat=is_repeat, logs_retries=logs_retries
        )

    def send_once(self, call: Call[T]) -> T:
        """
        Send one request, without retries, and return its reply.

        :raises AssistantError: It failed.
        """
        return _run_blocking(self._send_once(self._blocking, call))

    async def asend_once(self, call: Call[T]) -> T:
        """
        Send one request under asyncio, without retries, however long it has to wait for its turn.

        :raises AssistantError: It failed.
        """
        return await self._send_once(self._awaiting, call)

    async def _send(
        self,
        io: _IO,
        call: Call[T],
        attempts: Attempts,
        retry_ambiguous: bool | None,
        *,
        is_repeat: bool,
        logs_retries: bool = True,
    ) -> T:
        policy = self.settings.retry
        if retry_ambiguous is not None:
            policy = replace(policy, retry_ambiguous=retry_ambiguous)
        retries = Retries(call, policy, self.throttle, self._rng)
        started = self.now()
        while True:
            try:
                async with io.slot(is_patient=False, is_slow=call.timeout_field == "chat_timeout"):
                    outcome = await self._exchange(io, call, attempts, started, is_repeat=is_repeat)
            except AssistantError as unsent:
                # The throttle refused it, or its file cannot be read.
                _fail(call, attempts, unsent, retryable=retry_ambiguous is not False)
            if not isinstance(outcome, AssistantError):
                return outcome
            attempts.failed(outcome)
            try:
                pause = retries.pause_after(outcome)
            except AssistantError as last:
                _fail(call, attempts, last, retryable=retry_ambiguous is not False)
            if logs_retries and self.throttle.tries:
                self.throttle.report(pause)
            elif logs_retries:
                log.warning("Trying again in %.1f s: %s", pause, outcome)
            await io.sleep(pause)

    async def _send_once(self, io: _IO, call: Call[T]) -> T:
        async with io.slot(is_patient=True):
            outcome = await self._exchange(io, call, Attempts(), self.now())
        if isinstance(outcome, AssistantError):
            raise outcome
        return outcome

    async def _exchange(
        self, io: _IO, call: Call[T], attempts: Attempts, started: float, *, is_repeat: bool = False
    ) -> T | AssistantError:
        """Send one request, learn from its outcome, and return its reply or its error."""
        sent_at = self.throttle.now()
        began = time.perf_counter()
        try:
            attempts.sent += 1
            outcome = self._redactor.outcome(await io.exchange(call))
        except asyncio.CancelledError:
            attempts.failed(AssistantError("the task ended before there was an answer", maybe_done=not call.repeatable))
            raise
        except AssistantInputError:
            # The file of an upload has changed or cannot be opened, so nothing was sent.
            attempts.sent -= 1
            raise
        status = str(outcome.status) if isinstance(outcome, Response) else outcome.kind
        metrics.request(call.endpoint, status, time.perf_counter() - began)
        # If the clock was set back, the difference would be negative.
        info = CallInfo(0, attempts.sent, attempts.maybe_done, max(0.0, self.now() - started))
        may_exist = is_repeat or attempts.may_have_arrived
        try:
            reply = errors.reply_of(call, outcome, info, self.now(), may_exist=may_exist)
        except AssistantError as error:
            attempts.may_have_arrived |= errors.may_have_arrived(outcome)
            # Again: the text of a page has no entities any more.
            self._redactor.error(error)
            return self._learned(outcome, error, sent_at)
        self._has_worked = True
        self.throttle.answered()
        self.throttle.accepted()
        return reply

    def _learned(self, outcome: Response | TransportFailure, error: AssistantError, sent_at: float) -> AssistantError:
        """Tell the throttle about an error, and return it; a 401 after the key had worked may pass: it was rotated."""
        throttle = self.throttle
        if isinstance(error, AssistantRateLimitError):
            throttle.answered()
            throttle.refused(error, self._jittered)
        elif errors.is_unanswered(outcome):
            throttle.failed(error, sent_at)
            # A gateway with too many requests answers 503; in an outage, this says nothing about the rate.
            is_busy = isinstance(outcome, Response) and outcome.status == 503 and errors.is_of_gateway(outcome)
            if is_busy and throttle.silence < DEFAULT_PAUSE_SECONDS:
                throttle.slow_down(error, self._jittered)
            elif is_busy and self.settings.retry.attempts > 1:
                throttle.hold(min(error.retry_after or 0.0, self.settings.retry.max_backoff))
        elif isinstance(error, AssistantGatewayError) or isinstance(outcome, TransportFailure):
            throttle.doubted()
        else:
            throttle.answered(is_proof=not isinstance(error, AssistantAuthenticationError))
            if isinstance(error, AssistantServerError):
                throttle.overloaded()
        if isinstance(error, AssistantAuthenticationError):
            if self._has_worked:
                todo = "The key was rotated or revoked while the task ran: a retry reads the connection again."
                error = replace(error, retryable=True, todo=f"{todo} {error.todo}")
            throttle.stop(error)
        return error

    def _jittered(self, pause: float) -> float:
        return jittered(pause, self._rng)

    def _monotonic(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return self.now()

    async def prepare(self) -> None:
        """
        Do in a thread, once, what would block the event loop in the first request.

        :raises AssistantInputError: The settings cannot be used.
        """
        async with self._prepare_lock:
            if not self._is_prepared:
                await asyncio.to_thread(self._async_transport.prepare)
                self._is_prepared = True

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


class _Blocking:
    """Send and wait in the calling thread: its coroutines never wait."""

    def __init__(self, transport: Transport, sleep: Callable[[float], None]) -> None:
        self._transport = transport
        self._sleep = sleep

    @contextlib.asynccontextmanager
    async def slot(self, *, is_patient: bool = False, is_slow: bool = False) -> AsyncIterator[None]:  # noqa: ARG002
        yield

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        return self._transport.exchange(call)

    async def sleep(self, seconds: float) -> None:
        self._sleep(seconds)


class _Awaiting:
    """Send and wait in the event loop, when the throttle says so."""

    def __init__(
        self, transport: AsyncTransport, asleep: Callable[[float], Awaitable[None]], throttle: Throttle
    ) -> None:
        self.slot = throttle.slot
        self.exchange = transport.exchange
        self._asleep = asleep

    async def sleep(self, seconds: float) -> None:
        await self._asleep(seconds)


def _fail(call: Call[Any], attempts: Attempts, error: AssistantError, *, retryable: bool) -> NoReturn:
    """Raise the error of a call that is not sent again; an ambiguous one if it may have been carried out."""
    # A reply that cannot be read says itself what may have happened.
    is_settled = isinstance(error, AssistantResponseError) and retryable
    if attempts.maybe_done and not is_settled:
        raise ambiguous(call, attempts, error, retryable=retryable) from error
    raise error


def _run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a blocking call has waited for an event loop")
