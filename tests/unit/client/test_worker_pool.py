"""The worker pool: limited concurrency, independent errors, and a circuit breaker that stops it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random

import pytest

from airflow_provider_assistant.client.worker_pool import UNANSWERED, CircuitBreaker, for_each
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
    AssistantServerError,
)
from tests.virtual_time import simulated

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
    assert 5 <= len(work.started) <= 8
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
    error = AssistantAmbiguousError("ambiguous")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_gateway_may_refuse_single_items_or_close_in_the_middle(size):
    """Blocked items are refused alone if a later one passes; where the gateway closes, it judges no item."""
    for seed in range(40):
        rng = random.Random(seed)
        count = rng.randrange(1, 30)
        # From here on, everything is refused.
        wall = rng.choice([count, rng.randrange(count)])
        blocked = {item for item in range(count) if rng.random() < 0.1}
        refused = blocked | set(range(wall, count))
        errors, results, started, held = {}, [], [], [0]
        breaker = CircuitBreaker(25)
        turn = asyncio.Lock()

        async def work(item, rng=rng, refused=refused, started=started, held=held, breaker=breaker, turn=turn):
            started.append(item)
            # As in a client, one at a time goes after a refusal, and none after the third.
            async with turn if held[-1] else contextlib.nullcontext():
                if breaker.is_open:
                    raise AssistantError("not sent")
                await asyncio.sleep(rng.random())
                if item in refused:
                    raise AssistantGatewayError("403", status=403, gateway="wall", concerns_all=False)
                return item

        simulated(
            for_each(
                range(count), work, max_concurrency=size, breaker=breaker, on_error=errors.__setitem__,
                on_result=lambda item, _, results=results: results.append(item), on_held=held.append,
            )
        )  # fmt: skip
        case = (seed, count, wall, sorted(blocked), errors, started)
        assert sorted([*errors, *results]) == sorted(started), case
        alone = {item for item, error in errors.items() if isinstance(error, AssistantBadRequestError)}
        by_gateway = {item for item, error in errors.items() if isinstance(error, AssistantGatewayError)}
        assert alone | by_gateway <= refused, case
        if breaker.is_open:
            assert all(item < max(results, default=0) for item in alone), case
            assert len([item for item in by_gateway if item >= wall]) <= 2 * size + UNANSWERED, case
        else:
            assert sorted(started) == list(range(count)), case
            assert not results or alone == refused, case
            assert count - wall <= 2 * size, case
