"""
One worker pool for many calls: limited concurrency, a circuit breaker, independent errors.

Loads, exports of many sites, ratings and the closing of sessions use it. The client that the work uses has the rate
limiter; :class:`~airflow_provider_assistant.client.cancellation.CancellableRunner` cancels the pool from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantRateLimitError,
)

T = TypeVar("T")
R = TypeVar("R")

# Errors about the API key, the rate limit or the ledger: every further call would meet them as well.
FATAL = (AssistantAuthenticationError, AssistantRateLimitError, AssistantLedgerError)


# A gateway that has refused this many items in a row is expected to refuse all of them.
REFUSALS_OF_ALL = 3


def cause_of(error: AssistantError) -> AssistantError:
    """
    Return the failure behind an ambiguous error, or the error itself.

    :param error: Error of a call.
    :return: ``__cause__`` if it is an error of this package, otherwise ``error``.
    """
    return error.__cause__ if isinstance(error.__cause__, AssistantError) else error


class CircuitBreaker:
    """
    Decide when the failures of single calls show that further calls would fail as well.

    The breaker opens after ``limit`` consecutive failures, at the first fatal error, and when the end of an outage was
    awaited in vain. A call that the service refuses, and invalid input, concern one item only: they neither count as
    failures nor reset the count.

    :param limit: Consecutive failures after which the breaker opens.
    :param fatal: Error classes that open it at once, in addition to :data:`FATAL`.
    :param on_open: Called once with the error, when the breaker opens. Default: None.
    :param waits: Whether the client waits for the end of an outage. Then the time limits it, and a 5xx or a missing
        response does not count. Default: False.
    """

    def __init__(
        self,
        limit: int,
        *fatal: type[AssistantError],
        on_open: Callable[[AssistantError], None] | None = None,
        waits: bool = False,
    ) -> None:
        self.failures = 0
        self.error: AssistantError | None = None
        self._limit = limit
        self._fatal = (*FATAL, *fatal)
        self._on_open = on_open
        self._waits = waits

    @property
    def is_open(self) -> bool:
        """Whether no further call may be sent."""
        return self.error is not None

    def is_fatal(self, error: AssistantError) -> bool:
        """
        Return whether one such error opens the breaker.

        :param error: Error of a call.
        """
        cause = cause_of(error)
        return isinstance(cause, self._fatal) or errors.concerns_all(cause)

    def succeeded(self) -> None:
        """Reset the count of consecutive failures; an open breaker stays as it is."""
        if not self.is_open:
            self.failures = 0

    def failed(self, error: AssistantError) -> None:
        """
        Count a failed call, and open the breaker if the error is fatal or reaches the limit.

        :param error: Error of the call.
        """
        cause = cause_of(error)
        if self.is_open:
            return
        if self.is_fatal(error) or cause.outage_seconds:
            self.open(error)
            return
        is_waited_for = self._waits and errors.is_transient(cause)
        is_of_item = errors.is_refused(cause) or isinstance(cause, AssistantInputError)
        if not is_of_item and not is_waited_for:
            self.failures += 1
            if self.failures >= self._limit:
                self.open(error)

    def open(self, error: AssistantError) -> None:
        """
        Open the breaker; the first error is kept.

        :param error: Why no further call may be sent.
        """
        if self.error is None:
            self.error = error
            if self._on_open:
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

    Items are taken one by one, so those that were not started are still in the iterator when this function returns.

    A gateway may refuse one item and let the others pass. So such an item is held: if the service answers another item,
    the held one is refused for good; if the gateway refuses three in a row, the breaker opens.

    :param items: Items in their order. An async iterator must allow concurrent calls of ``__anext__``, which an async
        generator does not.
    :param work: Coroutine function called with each item.
    :param max_concurrency: Maximum number of items at a time.
    :param breaker: Circuit breaker; it counts the errors of ``work``. Once it is open, no item is started, and those
        that were started finish.
    :param on_error: Called with the item and its error. An error that it raises cancels the work for all other items.
    :param on_result: Called with the item and the result of ``work``; its errors cancel the other work, too. Default:
        do nothing.
    :raises BaseException: ``work`` raised an error that is not an :class:`AssistantError`, or a callback raised one.
    """
    source = items if isinstance(items, AsyncIterator) else _Async(iter(items))
    held = _HeldItems(breaker, on_error)

    async def keep_working() -> None:
        while not breaker.is_open:
            try:
                item = await anext(source)
            except StopAsyncIteration:
                return
            held.working += 1
            is_next = held.is_waiting
            try:
                result = await work(item)
            except AssistantError as error:
                if errors.may_concern_one(cause_of(error)):
                    held.add(item, error, is_next=is_next)
                else:
                    if errors.is_refused(cause_of(error)):
                        held.passed()
                    breaker.failed(error)
                    on_error(item, error)
            else:
                held.passed()
                breaker.succeeded()
                on_result(item, result)
            finally:
                held.working -= 1
            held.decide_if_idle()

    try:
        with _existing_objects_frozen():
            async with asyncio.TaskGroup() as workers:
                for _ in range(max_concurrency):
                    workers.create_task(keep_working())
    except BaseExceptionGroup as group:
        # The first error has cancelled the other workers.
        raise group.exceptions[0] from None


class _HeldItems(Generic[T]):
    """
    Items that a gateway has refused, until it is known whether it refuses all of them.

    :ivar working: Number of items that are being worked on.
    """

    def __init__(self, breaker: CircuitBreaker, on_error: Callable[[T, AssistantError], None]) -> None:
        self.working = 0
        self._breaker = breaker
        self._on_error = on_error
        self._items: list[tuple[T, AssistantError]] = []
        # Refusals since the service has answered.
        self._in_a_row = 0
        self._has_passed = False

    @property
    def is_waiting(self) -> bool:
        """Whether the next item decides about earlier ones."""
        return self._in_a_row > 0

    def add(self, item: T, error: AssistantError, *, is_next: bool) -> None:
        self._items.append((item, error))
        # Items that were in flight together, among others that pass, are not in a row.
        if is_next or not self._in_a_row or not self._has_passed:
            self._in_a_row += 1
        if self._in_a_row >= REFUSALS_OF_ALL:
            self._stop()

    def _stop(self) -> None:
        _, error = self._items[-1]
        self._breaker.open(error)
        self._flush(is_alone=False)

    def passed(self) -> None:
        self._in_a_row = 0
        self._has_passed = True
        self._flush(is_alone=True)

    def decide_if_idle(self) -> None:
        """Decide about the held items if no other item is under way that would show more."""
        if self.working:
            return
        if len(self._items) >= REFUSALS_OF_ALL:
            self._stop()
        else:
            self._flush(is_alone=self._has_passed)

    def _flush(self, *, is_alone: bool) -> None:
        items = self._items
        self._items = []
        for item, error in items:
            self._on_error(item, errors.refused_alone(error) if is_alone else error)


@contextlib.contextmanager
def _existing_objects_frozen() -> Iterator[None]:
    """
    Exclude existing objects, such as the several hundred thousand of Airflow, from garbage collection.

    Looking for garbage among them takes 7 percent of the processor time of a load.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Async(AsyncIterator[T]):
    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    async def __anext__(self) -> T:
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None
