"""Coroutines that a signal handler can cancel: Airflow sends SIGTERM, and SIGKILL five seconds later."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from airflow_provider_assistant.exceptions import AssistantIncompleteError

T = TypeVar("T")

# Seconds that requests in flight get to finish, within the five between SIGTERM and SIGKILL.
GRACE = 2.0
# Seconds after which a cancelled task is given up. A commit to a slow database may take this long.
PATIENCE = 30.0


def run_coroutine(work: Coroutine[Any, Any, T], patience: float = PATIENCE) -> T:
    """
    Run a coroutine in a new event loop, as :func:`asyncio.run` does, but end even if a task cannot be cancelled.

    A signal handler, such as the one of Airflow's ``execution_timeout``, can raise between any two instructions of the
    event loop. If the loop has just taken the next step of a task from its queue, the step is lost, and
    :func:`asyncio.run` waits for this task forever. In a finalizer or a callback, the exception itself is lost: Python
    and asyncio only log it. This function then cancels the coroutine and raises the exception.

    :param patience: Seconds to wait for the cancelled coroutine, and for the remaining tasks. Default: 30.
    :raises BaseException: An error of the coroutine, or an exception that a signal handler raised.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    try:
        with _Lost(loop, patience) as lost:
            return runner.run(lost.watched(work))
    finally:
        if _cancel_all(loop, patience):
            runner.close()
        else:
            # Runner.close would wait for the tasks that do not end.
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop, patience: float) -> bool:
    """Cancel all tasks of a loop; return whether they ended within these seconds."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=patience))
    return all(task.done() for task in tasks)


class _Lost:
    """Cancel a coroutine when an exception that a signal handler raised is lost; raise this exception at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._loop = loop
        self._patience = patience
        self._task: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None
        self._stop: asyncio.TimerHandle | None = None
        self._hook = sys.unraisablehook

    async def watched(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine, and know which task to cancel."""
        self._task = asyncio.current_task()
        return await work

    def __enter__(self) -> Self:
        self._loop.set_exception_handler(self._in_callback)
        # Python runs signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            sys.unraisablehook = self._in_finalizer
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._stop:
            self._stop.cancel()
        self._loop.set_exception_handler(None)
        if threading.current_thread() is threading.main_thread():
            sys.unraisablehook = self._hook
        # A loop that is stopped before its coroutine ends raises a RuntimeError.
        if self._error and kind and issubclass(kind, asyncio.CancelledError | RuntimeError):
            raise self._error from None

    def _in_callback(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._cancel_because_of(context.get("exception")):
            loop.default_exception_handler(context)

    def _in_finalizer(self, unraisable: sys.UnraisableHookArgs) -> None:
        if not self._cancel_because_of(unraisable.exc_value):
            self._hook(unraisable)

    def _cancel_because_of(self, error: BaseException | None) -> bool:
        """Cancel the coroutine if a signal handler raised this error. Return whether it did."""
        # Ordinary exceptions and cancellations do not come from a signal handler.
        if self._task is None or error is None or isinstance(error, Exception | asyncio.CancelledError):
            return False
        self._error = error
        self._loop.call_soon_threadsafe(self._cancel, self._task)
        return True

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        self._stop = self._loop.call_later(self._patience, self._loop.stop)


class CancellableRunner:
    """
    Run coroutines one after the other until :meth:`cancel` is called.

    :param message: Message of the error that a cancelled coroutine ends with.
    :param grace: Seconds that the running coroutine gets to finish after :meth:`cancel`. Default: 0.
    :param on_cancel: Called in the event loop with that error when the grace begins, so that the coroutine starts
        nothing new. Default: None.
    """

    def __init__(
        self,
        message: str,
        *,
        grace: float = 0.0,
        on_cancel: Callable[[AssistantIncompleteError], None] = lambda _: None,
    ) -> None:
        self.is_cancelled = False
        self._message = message
        self._grace = grace
        self._on_cancel = on_cancel
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in a new event loop; see :meth:`arun` and :func:`run_coroutine`."""
        return run_coroutine(self.arun(work))

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run a coroutine in the running event loop and return its result.

        :raises AssistantIncompleteError: :meth:`cancel` was called.
        """
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._loop = asyncio.get_running_loop()
        self._task = task
        if self.is_cancelled:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if not self.is_cancelled:
                raise
            raise AssistantIncompleteError(self._message) from None
        finally:
            self._loop = self._task = None

    def cancel(self) -> None:
        """Cancel the running coroutine after the grace, and all later ones at once. A signal handler may call this."""
        self.is_cancelled = True
        if self._loop and self._task and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_grace, self._task)

    def _begin_grace(self, task: asyncio.Task[Any]) -> None:
        self._on_cancel(AssistantIncompleteError(self._message))
        asyncio.get_running_loop().call_later(self._grace, task.cancel)
