"""The client: it sends calls, with retries, one at a time or many at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self, TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Call, CallInfo, Response
from airflow_provider_assistant.client.defaults import ClientDefaults, get_client_defaults
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.retry import Attempts, Retries, ambiguous
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.throttle import DEFAULT_PAUSE_SECONDS, Throttle
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Way:
    """How a request waits for its turn, is sent, and waits before a retry: by blocking its thread, or by awaiting."""

    slot: Callable[..., AbstractAsyncContextManager[None]]
    exchange: Callable[[Call[Any]], Awaitable[Response | AssistantError]]
    sleep: Callable[[float], Awaitable[None]]


class AssistantClient:
    """
    Send calls for one connection.

    Use :meth:`send` from any number of threads, or :meth:`asend` from one event loop, where all requests share a
    throttle. Close the client with :meth:`close` or :meth:`aclose`, or use it as a context manager.

    :param parts: Transports, clock and waits. Default: those of :func:`.get_client_defaults`.
    """

    def __init__(self, settings: ClientSettings, parts: ClientDefaults | None = None) -> None:
        parts = parts or get_client_defaults()
        self.settings = settings
        self.now = parts.now
        self.asleep = parts.asleep
        self._transport = parts.transport(settings)
        self._async_transport = parts.async_transport(settings)
        self.throttle = Throttle(settings.max_concurrency, settings.retry, now=self._monotonic, rng=parts.rng())
        self._blocking = _Way(lambda **_: nullcontext(), _at_once(self._transport.exchange), _at_once(parts.sleep))
        self._awaiting = _Way(self.throttle.slot, self._async_transport.exchange, self.asleep)
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
        return _run_blocking(self._send(self._blocking, call, Attempts(), retry_ambiguous=retry_ambiguous))

    async def asend(
        self, call: Call[T], *, attempts: Attempts | None = None, is_repeat: bool = False, logs_retries: bool = True
    ) -> T:
        """
        Send one call under asyncio, with retries, and return its reply.

        :param attempts: Counts what is sent, also if this coroutine is cancelled.
        :param is_repeat: Whether an earlier call with the same body may have been carried out: then a 409 to a create
            means that it was.
        :param logs_retries: Whether to log a warning before each retry.
        :raises AssistantError: The call failed; the subclasses are those of :meth:`send`.
        """
        attempts = attempts or Attempts()
        return await self._send(self._awaiting, call, attempts, is_repeat=is_repeat, logs_retries=logs_retries)

    def send_once(self, call: Call[T]) -> T:
        """Send one request, without retries, and return its reply, or raise its error."""
        return _run_blocking(self._send_once(self._blocking, call))

    async def asend_once(self, call: Call[T]) -> T:
        """Send one request under asyncio, without retries, however long it has to wait for its turn."""
        return await self._send_once(self._awaiting, call)

    async def _send(
        self,
        way: _Way,
        call: Call[T],
        attempts: Attempts,
        *,
        retry_ambiguous: bool | None = None,
        is_repeat: bool = False,
        logs_retries: bool = True,
    ) -> T:
        policy = self.settings.retry
        if retry_ambiguous is not None:
            policy = replace(policy, retry_ambiguous=retry_ambiguous)
        retries = Retries(call, policy, self.throttle)
        started = self.now()
        while True:
            try:
                async with way.slot(is_slow=call.timeout_field == "chat_timeout"):
                    outcome = await self._exchange(way, call, attempts, started, is_repeat=is_repeat)
                if not isinstance(outcome, AssistantError):
                    return outcome
                attempts.failed(outcome)
                pause = retries.pause_after(outcome)
            except AssistantError as last:
                # It is not sent again, or the throttle refused it, or its file cannot be read.
                _fail(call, attempts, last, retryable=retry_ambiguous is not False)
            if logs_retries and self.throttle.tries:
                self.throttle.report(pause)
            elif logs_retries:
                log.warning("Trying again in %.1f s: %s", pause, outcome)
            await way.sleep(pause)

    async def _send_once(self, way: _Way, call: Call[T]) -> T:
        async with way.slot(is_patient=True):
            outcome = await self._exchange(way, call, Attempts(), self.now())
        if isinstance(outcome, AssistantError):
            raise outcome
        return outcome

    async def _exchange(
        self, way: _Way, call: Call[T], attempts: Attempts, started: float, *, is_repeat: bool = False
    ) -> T | AssistantError:
        """Send one request, learn from its outcome, and return its reply or its error."""
        sent_at = self.throttle.now()
        began = time.perf_counter()
        try:
            attempts.sent += 1
            outcome = await way.exchange(call)
        except asyncio.CancelledError:
            attempts.failed(AssistantError("the task ended before there was an answer", maybe_done=not call.repeatable))
            raise
        except AssistantInputError:
            # The file of an upload has changed or cannot be opened, so nothing was sent.
            attempts.sent -= 1
            raise
        metrics.request(call.endpoint, _status_of(outcome), time.perf_counter() - began)
        if isinstance(outcome, Response):
            outcome = self._redactor.response(outcome)
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

    def _learned(self, outcome: Response | AssistantError, error: AssistantError, sent_at: float) -> AssistantError:
        """Tell the throttle about an error, and return it; a 401 after the key had worked may pass: it was rotated."""
        throttle = self.throttle
        if isinstance(error, AssistantRateLimitError):
            throttle.answered()
            throttle.refused(error)
        elif errors.is_unanswered(outcome):
            throttle.failed(error, sent_at)
            # A gateway with too many requests answers 503; in an outage, this says nothing about the rate.
            is_busy = isinstance(outcome, Response) and outcome.status == 503 and errors.is_of_gateway(outcome)
            if is_busy and throttle.silence < DEFAULT_PAUSE_SECONDS:
                throttle.slow_down(error)
            elif is_busy and self.settings.retry.attempts > 1:
                throttle.hold(min(error.retry_after or 0.0, self.settings.retry.max_backoff))
        elif isinstance(error, AssistantGatewayError) or isinstance(outcome, AssistantError):
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


def _at_once(function: Callable[[A], R]) -> Callable[[A], Awaitable[R]]:
    """Return a coroutine function that calls a function and never waits."""

    async def run(argument: A) -> R:
        return function(argument)

    return run


def _status_of(outcome: Response | AssistantError) -> str:
    """Return the status of a request as a tag of its metrics."""
    if isinstance(outcome, Response):
        return str(outcome.status)
    return "timeout" if isinstance(outcome, AssistantTimeoutError) else "connection"


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
