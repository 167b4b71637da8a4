"""Coroutines that can be ended at any time report it with an error."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from airflow_provider_assistant.client.cancellation import CancellableRunner, run_coroutine
from airflow_provider_assistant.exceptions import AssistantIncompleteError


def ended_by_a_thread(work, started):
    def wait():
        started.wait(60)
        work.cancel()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_error_is_the_works_own():
    async def fail():
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        CancellableRunner("ended").run(fail())


def test_work_that_is_cancelled_stops_and_says_why():
    started, work, stopped = threading.Event(), CancellableRunner("a retry goes on"), []

    async def forever():
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    thread = ended_by_a_thread(work, started)
    with pytest.raises(AssistantIncompleteError, match="a retry goes on"):
        work.run(forever())
    thread.join()
    assert stopped
    assert work.is_cancelled


def test_within_its_grace_work_comes_to_its_own_end():
    started, work = threading.Event(), CancellableRunner("ended", grace=30)

    async def until_told():
        started.set()
        while not work.is_cancelled:  # noqa: ASYNC110 (as it is, ended from a thread)
            await asyncio.sleep(0)
        return "in order"

    thread = ended_by_a_thread(work, started)
    assert work.run(until_told()) == "in order"
    thread.join()


def test_what_comes_after_the_end_is_not_begun():
    work, begun = CancellableRunner("ended"), []
    work.cancel()

    async def begin():
        begun.append(True)

    with pytest.raises(AssistantIncompleteError):
        work.run(begin())
    assert not begun


RUNS = [run_coroutine, lambda work: CancellableRunner("ended").run(work)]


@pytest.mark.parametrize("run", RUNS)
def test_what_a_signal_handler_raises_between_two_tasks_is_not_lost(run):
    async def interrupted():
        def expire():
            raise AirflowTaskTimeout("too long")

        asyncio.get_running_loop().call_soon(expire)
        await asyncio.sleep(10)

    with pytest.raises(AirflowTaskTimeout, match="too long"):
        run(interrupted())


class Expires:
    """An object in whose finalizer Airflow's timeout expires."""

    def __del__(self):
        signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize("run", RUNS)
def test_what_a_signal_handler_raises_in_a_finalizer_is_not_lost(run):
    cleaned, before = [], sys.unraisablehook

    async def interrupted():
        try:
            Expires()
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(AirflowTaskTimeout, match="too long"), TimeoutPosix(300, "too long"):
        run(interrupted())
    assert cleaned
    assert sys.unraisablehook is before


def test_what_a_finalizer_itself_raises_ends_nothing(monkeypatch):
    logged = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: logged.append(unraisable.exc_type))

    class Stumbles:
        def __del__(self):
            raise ValueError("of no importance")

    async def answer():
        Stumbles()
        await asyncio.sleep(0)
        return 42

    assert run_coroutine(answer()) == 42
    assert logged.count(ValueError) == 1  # finalizers of earlier tests may fail at the same time


def test_a_coroutine_in_another_thread_leaves_the_hook_of_all_threads_alone():
    before, found = sys.unraisablehook, []

    async def look():
        found.append(sys.unraisablehook)

    thread = threading.Thread(target=lambda: run_coroutine(look()))
    thread.start()
    thread.join()
    assert found == [before]


def test_an_error_of_some_callback_ends_nothing():
    async def answer():
        def stumble():
            raise ValueError("of no importance")

        asyncio.get_running_loop().call_soon(stumble)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return 42

    assert CancellableRunner("ended").run(answer()) == 42


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited")
def test_a_task_whose_step_was_lost_is_given_up():
    """A signal handler can raise after the event loop took a step from its queue, and before it runs it."""

    async def lose_a_step():
        asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006
        asyncio.get_running_loop()._ready.pop()
        raise AirflowTaskTimeout

    with pytest.raises(AirflowTaskTimeout):
        run_coroutine(lose_a_step(), patience=0)
    assert run_coroutine(asyncio.sleep(0, "the next one")) == "the next one"


def test_work_whose_callback_was_lost_is_given_up():
    async def wait_for_a_lost_callback():
        loop = asyncio.get_running_loop()

        def lose():
            raise AirflowTaskTimeout("time is over")

        loop.call_soon(lose)
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                # As a commit in a thread, which is awaited to its end whatever happens.
                await loop.create_future()

    with pytest.raises(AirflowTaskTimeout, match="time is over"):
        run_coroutine(wait_for_a_lost_callback(), patience=0)


def test_tasks_that_clean_up_when_they_are_cancelled_are_awaited():
    cleaned = []

    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    async def fail():
        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        raise KeyError(task)

    with pytest.raises(KeyError):
        run_coroutine(fail())
    assert cleaned == [True]
