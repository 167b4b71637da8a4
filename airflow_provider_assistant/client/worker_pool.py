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
from dataclasses import dataclass
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


# A gateway that has refused this many items, each started after the one before it was refused, is expected to refuse
# all of them. So is one that has refused UNANSWERED items in any order while the service has answered none.
REFUSALS_OF_ALL = 3
UNANSWERED = 8


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
    on_held: Callable[[int], None] = lambda _: None,
) -> None:
    """
    Do the work for every item, for several items at a time, until the circuit breaker opens.

    Items are taken one by one, so those that were not started are still in the iterator when this function returns.

    A gateway may refuse one item and let the others pass. So such an item is held: if the service answers an item that
    was started later, the held one is refused for good; if the gateway refuses three in a row, the breaker opens.

    :param items: Items in their order. An async iterator must allow concurrent calls of ``__anext__``, which an async
        generator does not.
    :param work: Coroutine function called with each item.
    :param max_concurrency: Maximum number of items at a time.
    :param breaker: Circuit breaker; it counts the errors of ``work``. Once it is open, no item is started, and those
        that were started finish.
    :param on_error: Called with the item and its error. An error that it raises cancels the work for all other items.
    :param on_result: Called with the item and the result of ``work``; its errors cancel the other work, too. Default:
        do nothing.
    :param on_held: Called with the number of held items when it changes. Default: do nothing.
    :raises BaseException: ``work`` raised an error that is not an :class:`AssistantError`, or a callback raised one.
    """
    source = items if isinstance(items, AsyncIterator) else _Async(iter(items))
    held = _HeldItems(breaker, on_error, on_held)

    async def keep_working() -> None:
        while not breaker.is_open:
            try:
                item = await anext(source)
            except StopAsyncIteration:
                return
            start = held.started()
            try:
                result = await work(item)
            except AssistantError as error:
                if errors.may_concern_one(cause_of(error)):
                    held.add(item, error, start)
                else:
                    if errors.is_refused(cause_of(error)):
                        held.passed(start)
                    breaker.failed(error)
                    on_error(item, error)
            else:
                held.passed(start)
                breaker.succeeded()
                on_result(item, result)

    try:
        with _existing_objects_frozen():
            async with asyncio.TaskGroup() as workers:
                for _ in range(max_concurrency):
                    workers.create_task(keep_working())
    except BaseExceptionGroup as group:
        # The first error has cancelled the other workers.
        raise group.exceptions[0] from None
    finally:
        held.end()


@dataclass(frozen=True, slots=True)
class _Start:
    """
    The start of an item.

    :param number: Number of the item, in the order of the starts.
    :param in_a_row: Number of items in a row that were refused before.
    """

    number: int
    in_a_row: int


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    item: T
    error: AssistantError
    number: int


class _HeldItems(Generic[T]):
    """Items that a gateway has refused, until it is known whether it refuses all of them."""

    def __init__(
        self,
        breaker: CircuitBreaker,
        on_error: Callable[[T, AssistantError], None],
        on_held: Callable[[int], None],
    ) -> None:
        self._breaker = breaker
        self._on_error = on_error
        self._on_held = on_held
        self._items: list[_Held[T]] = []
        self._started = 0
        # Refusals since the service has answered an item: one after the other, and of all that followed the first one.
        self._in_a_row = 0
        self._unanswered = 0
        # Number of held items that were refused before the service answered one, although that was started earlier.
        self._answered = 0
        self._has_passed = False

    def started(self) -> _Start:
        self._started += 1
        return _Start(self._started, self._in_a_row)

    def add(self, item: T, error: AssistantError, start: _Start) -> None:
        self._items.append(_Held(item, error, start.number))
        # Items that were in flight together, among others that pass, are not in a row.
        if start.in_a_row == self._in_a_row or not self._has_passed:
            self._in_a_row += 1
        if start.in_a_row:
            self._unanswered += 1
        if self._in_a_row >= REFUSALS_OF_ALL or self._unanswered >= UNANSWERED:
            self._breaker.open(error)
        self._on_held(len(self._items))

    def passed(self, start: _Start) -> None:
        """Refuse the items for good that were started before one that the service has answered."""
        self._has_passed = True
        self._in_a_row = 0
        self._unanswered = 0
        if not self._items or self._breaker.is_open:
            return
        earlier = [held for held in self._items if held.number < start.number]
        self._items = [held for held in self._items if held.number > start.number]
        self._answered = len(self._items)
        self._on_held(len(self._items))
        for held in earlier:
            self._on_error(held.item, errors.refused_alone(held.error))

    def end(self) -> None:
        """Decide about the items that no other item follows."""
        if len(self._items) - self._answered >= REFUSALS_OF_ALL:
            self._breaker.open(self._items[-1].error)
        is_alone = self._has_passed and not self._breaker.is_open
        items = self._items
        self._items = []
        for held in items:
            self._on_error(held.item, errors.refused_alone(held.error) if is_alone else held.error)


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
