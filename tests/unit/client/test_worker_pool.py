"""The worker pool: limited concurrency, independent errors, and a circuit breaker that stops it."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from airflow_provider_assistant.client.worker_pool import FIRST_FAILURES, CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantPermissionError,
    AssistantResponseError,
    AssistantServerError,
)

DOWN = AssistantConnectionError("down")
REFUSED = AssistantBadRequestError("bad", status=400)


class Work:
    """Work with scripted errors that records what was started, finished and in flight."""

    def __init__(self, errors=None):
        self.errors = errors or {}
        self.started, self.done = [], []
        self.in_flight = self.most = self.cancelled = 0

    async def __call__(self, item):
        self.started.append(item)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(0)
            if error := self.errors.get(item):
                raise error
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        self.done.append(item)


async def run(work, items=range(50), *, limit=5, max_concurrency=4, breaker=None):
    failed = {}
    breaker = breaker or CircuitBreaker(limit)
    await for_each(items, work, max_concurrency=max_concurrency, breaker=breaker, on_error=failed.__setitem__)
    return failed, breaker


async def test_every_item_is_started_once_with_limited_concurrency():
    work = Work()
    failed, breaker = await run(work)
    assert sorted(work.done) == list(range(50))
    assert work.most == 4
    assert not failed
    assert not breaker.is_open


async def test_an_error_of_one_item_does_not_affect_the_others():
    work = Work({3: REFUSED, 5: DOWN})
    failed, breaker = await run(work)
    assert failed == {3: REFUSED, 5: DOWN}
    assert len(work.done) == 48
    assert not breaker.is_open


async def test_items_that_were_not_started_stay_in_the_iterator():
    items = iter(range(50))
    work = Work(dict.fromkeys(range(50), DOWN))
    failed, breaker = await run(work, items)
    assert breaker.error is DOWN
    assert FIRST_FAILURES <= len(work.started) <= FIRST_FAILURES + 3, "nothing has passed yet"
    assert list(failed) == work.started
    assert list(items) == list(range(len(work.started), 50))


async def test_a_fatal_error_lets_started_items_finish():
    error = AssistantAuthenticationError("bad key", status=401)
    work = Work({2: error})
    failed, breaker = await run(work)
    assert breaker.error is error
    assert failed == {2: error}
    assert sorted([*work.done, 2]) == sorted(work.started)
    assert len(work.started) < 12


async def test_an_error_of_the_callback_cancels_the_others():
    work = Work({0: DOWN})

    def stop(_item, error):
        raise error

    with pytest.raises(AssistantConnectionError):
        await for_each(range(50), work, max_concurrency=4, breaker=CircuitBreaker(5), on_error=stop)
    assert work.cancelled
    assert work.in_flight == 0


async def test_a_bug_is_raised_and_cancels_the_others():
    work = Work({1: KeyError("bug")})
    with pytest.raises(KeyError, match="bug"):
        await run(work)
    assert work.cancelled
    assert work.in_flight == 0


async def test_an_async_iterator_is_shared_by_the_workers():
    class Queue:
        def __init__(self):
            self.items = iter(range(10))

        def __aiter__(self):
            return self

        async def __anext__(self):
            await asyncio.sleep(0)
            for item in self.items:
                return item
            raise StopAsyncIteration

    work = Work()
    await run(work, Queue())
    assert sorted(work.done) == list(range(10))
    assert work.most == 4


async def test_an_open_breaker_starts_nothing():
    breaker = CircuitBreaker(5)
    breaker.open(AssistantError("stopped"))
    work = Work()
    await run(work, breaker=breaker)
    assert not work.started


@pytest.mark.parametrize("first", [None, REFUSED])
def test_a_service_that_has_answered_gets_more_patience(first):
    breaker = CircuitBreaker(25)
    if first:
        breaker.failed(first)
    else:
        breaker.succeeded()
    for _ in range(24):
        breaker.failed(DOWN)
    assert not breaker.is_open
    breaker.failed(AssistantGatewayError("403", status=403))
    assert breaker.is_open


def test_an_outage_is_waited_for_and_an_answer_that_is_no_reply_counts():
    breaker = CircuitBreaker(25, waits=True)
    for _ in range(100):
        breaker.failed(DOWN)
    assert not breaker.is_open
    for _ in range(FIRST_FAILURES):
        breaker.failed(AssistantResponseError("not JSON"))
    assert breaker.is_open


def test_a_success_resets_the_count():
    breaker = CircuitBreaker(2)
    breaker.failed(DOWN)
    breaker.succeeded()
    breaker.failed(DOWN)
    assert not breaker.is_open
    breaker.failed(DOWN)
    assert breaker.is_open


@pytest.mark.parametrize("error", [None, RuntimeError("bug")])
def test_existing_objects_are_not_searched_for_garbage_while_it_works(error):
    frozen = []

    async def work(_):
        frozen.append(gc.get_freeze_count())
        if error:
            raise error

    async def run():
        await for_each([1], work, max_concurrency=1, breaker=CircuitBreaker(1), on_error=lambda *_: None)

    before = gc.get_freeze_count()
    with pytest.raises(RuntimeError) if error else contextlib.nullcontext():
        asyncio.run(run())
    assert frozen[0] > 1000
    assert gc.get_freeze_count() == before


@pytest.mark.parametrize("error", [REFUSED, AssistantInputError("bad"), AssistantPermissionError("no", status=403)])
def test_a_refused_item_neither_counts_nor_resets(error):
    breaker = CircuitBreaker(2)
    for each in (DOWN, error, error, error):
        breaker.failed(each)
    assert not breaker.is_open
    breaker.failed(DOWN)
    assert breaker.is_open


@pytest.mark.parametrize("error", [AssistantLedgerError("away"), AssistantAuthenticationError("key", status=401)])
def test_a_fatal_error_opens_at_once_even_behind_an_ambiguous_one(error):
    for raised in (error, ambiguous(error)):
        breaker = CircuitBreaker(25)
        breaker.failed(raised)
        assert breaker.error is raised


def test_further_fatal_classes():
    error = AssistantPermissionError("no", status=403)
    breaker = CircuitBreaker(25, AssistantPermissionError)
    assert breaker.is_fatal(error)
    breaker.failed(error)
    assert breaker.is_open


def test_the_first_error_is_kept_and_announced_once():
    opened = []
    breaker = CircuitBreaker(1, on_open=opened.append)
    breaker.failed(DOWN)
    breaker.failed(AssistantServerError("late", status=500))
    breaker.open(AssistantError("later"))
    assert opened == [breaker.error] == [DOWN]


def ambiguous(cause):
    error = AssistantAmbiguousError("ambiguous", stops_all=cause.stops_all)
    error.__cause__ = cause
    return error
