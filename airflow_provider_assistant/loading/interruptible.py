"""Work in an event loop that a signal handler may end: Airflow asks first, and kills five seconds later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from airflow_provider_assistant.exceptions import AssistantIncompleteLoad

T = TypeVar("T")


def on_interruption(loop: asyncio.AbstractEventLoop, end: Callable[[BaseException], None]) -> None:
    """
    Have work ended by what a signal handler raises between two tasks of its loop, such as Airflow's timeout.

    :param loop: The loop, which by itself would only log it.
    :param end: Ends the work for what was raised.
    """

    def raised(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, Exception | asyncio.CancelledError):
            loop.default_exception_handler(context)
        else:
            end(error)

    loop.set_exception_handler(raised)


class Interruptible:
    """
    Runs coroutines, one after the other, until somebody ends them.

    :param ended: What to say to whoever waited for one that was ended.
    :param grace: How long the one that is running may go on by itself, in seconds.
    """

    def __init__(self, ended: str, *, grace: float = 0.0) -> None:
        self.is_ended = False
        self._ended = ended
        self._grace = grace
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._broken: BaseException | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Return what the work returns, or raise what it raises.

        :raises AssistantIncompleteLoad: It was ended.
        :raises BaseException: What a signal handler raised in between, such as Airflow's timeout.
        """
        return asyncio.run(self._until_ended(work))

    def end(self) -> None:
        """End the work, and all that comes after it; may be called by a signal handler."""
        self.is_ended = True
        if self._loop and self._task and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel_later, self._task)

    def _cancel_later(self, task: asyncio.Task[Any]) -> None:
        asyncio.get_running_loop().call_later(self._grace, task.cancel)

    async def _until_ended(self, work: Coroutine[Any, Any, T]) -> T:
        self._loop = asyncio.get_running_loop()
        on_interruption(self._loop, self._break)
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._task = task
        if self.is_ended:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self._broken:
                raise self._broken from None
            if not self.is_ended:
                raise
            raise AssistantIncompleteLoad(self._ended) from None
        finally:
            self._loop = self._task = None

    def _break(self, error: BaseException) -> None:
        self._broken = error
        if self._task:
            self._task.cancel()
