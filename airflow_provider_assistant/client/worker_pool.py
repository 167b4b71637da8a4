"""One worker pool for many calls: limited concurrency, a circuit breaker, independent errors."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantResponseError,
)

T = TypeVar("T")
R = TypeVar("R")

# Failures in a row after which a service is given up that has not yet answered a call.
FIRST_FAILURES = 3


def cause_of(error: AssistantError) -> AssistantError:
    """Return the failure behind an ambiguous error, or the error itself."""
    return error.__cause__ if isinstance(error.__cause__, AssistantError) else error


class CircuitBreaker:
    """
    Decide when the failures of single calls show that further calls would fail as well.

    The breaker opens after ``limit`` failures in a row, and at the first error that stops all. A call that the service
    refuses, and invalid input, concern one item only: they neither count as failures nor reset the count.

    :param fatal: Error classes that open it at once, in addition to errors that stop all.
    :param on_open: Called once with the error, when the breaker opens.
    :param waits: Whether the client waits for the end of an outage, so that an error that may pass does not count.
    """

    def __init__(
        self,
        limit: int,
        *fatal: type[AssistantError],
        on_open: Callable[[AssistantError], None] = lambda _: None,
        waits: bool = False,
    ) -> None:
        self.failures = 0
        self.error: AssistantError | None = None
        self._limit = limit
        self._fatal = fatal
        self._on_open = on_open
        self._waits = waits
        self._has_answered = False

    @property
    def is_open(self) -> bool:
        """Whether no further call may be sent."""
        return self.error is not None

    def is_fatal(self, error: AssistantError) -> bool:
        """Return whether one such error opens the breaker."""
        return bool(error.stops_all) or isinstance(cause_of(error), self._fatal)

    def succeeded(self) -> None:
        """Reset the count of failures in a row."""
        self.failures = 0
        self._has_answered = True

    def failed(self, error: AssistantError) -> None:
        """Count a failed call, and open the breaker if the error is fatal or reaches the limit."""
        cause = cause_of(error)
        if self.is_fatal(error):
            self.open(error)
            return
        if errors.is_refused(cause):
            self._has_answered = True
            return
        # The client waits for the end of an outage. A server that answers, though not as the service, is none.
        is_answer = isinstance(cause, AssistantGatewayError | AssistantResponseError)
        is_waited_for = self._waits and cause.retryable and not is_answer
        if is_waited_for or isinstance(cause, AssistantInputError):
            return
        self.failures += 1
        limit = self._limit if self._has_answered else min(self._limit, FIRST_FAILURES)
        if self.failures >= limit:
            self.open(error)

    def open(self, error: AssistantError) -> None:
        """Open the breaker; the first error is kept."""
        if self.error is None:
            self.error = error
            self._on_open(error)


async def for_each(
    items: Iterable[T] | AsyncIterator[T],
    work: Callable[[T], Awaitable[R]],
    *,
    max_concurrency: int,
    breaker: CircuitBreaker,
    on_error: Callable[[T, AssistantError], None],
    on_result: Callable[[T, R], None] = lambda _, __: None,
) -> None:
    """
    Do the work for every item, for several items at a time, until the circuit breaker opens.

    Once it is open, no item is started, and those that were started finish.

    :param breaker: Counts the errors of ``work``.
    :param on_error: Called with the item and its error. An error that it raises cancels the work for all other items.
    :param on_result: Called with the item and the result of ``work``; its errors cancel the other work, too.
    :raises BaseException: ``work`` raised an error that is not an :class:`AssistantError`, or a callback raised one.
    """
    source = items if isinstance(items, AsyncIterator) else _each(items)

    async def keep_working() -> None:
        while not breaker.is_open:
            try:
                item = await anext(source)
            except StopAsyncIteration:
                return
            try:
                result = await work(item)
            except AssistantError as error:
                breaker.failed(error)
                on_error(item, error)
            else:
                breaker.succeeded()
                on_result(item, result)

    # Looking for garbage among the several hundred thousand objects of Airflow takes 7 percent of a load's time.
    gc.freeze()
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(max_concurrency):
                workers.create_task(keep_working())
    except BaseExceptionGroup as group:
        # The first error has cancelled the other workers.
        raise group.exceptions[0] from None
    finally:
        gc.unfreeze()


async def _each(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item
