"""Event loops that a signal handler can stop: Airflow sends SIGTERM, and SIGKILL five seconds later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from airflow_provider_assistant.exceptions import AssistantIncompleteError

T = TypeVar("T")


def on_interruption(loop: asyncio.AbstractEventLoop, end: Callable[[BaseException], None]) -> None:
    """
    Pass exceptions that a signal handler raises in an event loop, such as Airflow's task timeout, to a callback.

    By default, the loop would only log them.

    :param loop: The event loop.
    :param end: Called with the exception; it must end the work.
    """

    def raised(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, Exception | asyncio.CancelledError):
            loop.default_exception_handler(context)
        else:
            end(error)

    loop.set_exception_handler(raised)


class CancellableRunner:
    """
    Run coroutines one after the other until :meth:`end` is called.

    :param ended: Message of the error that :meth:`run` raises for an ended coroutine.
    :param grace: Seconds that the running coroutine gets to finish. Default: 0.
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
        Run a coroutine and return its result.

        :param work: The coroutine.
        :return: The result of the coroutine.
        :raises AssistantIncompleteError: :meth:`end` was called.
        :raises BaseException: An error of the coroutine, or an exception that a signal handler raised, such as
            Airflow's task timeout.
        """
        return asyncio.run(self._until_ended(work))

    def end(self) -> None:
        """End the running coroutine and all later ones. A signal handler may call this."""
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
            raise AssistantIncompleteError(self._ended) from None
        finally:
            self._loop = self._task = None

    def _break(self, error: BaseException) -> None:
        self._broken = error
        if self._task:
            self._task.cancel()
