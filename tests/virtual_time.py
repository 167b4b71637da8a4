"""Run asyncio code on a virtual clock: a sleep takes no time, and the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and advances to the next timer whenever no callback is ready."""

    def __init__(self) -> None:
        self._now = 0.0
        self.in_executor = False
        loop = self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                if timeout:
                    loop.advance(timeout)
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the clock; a subclass may let others use the time."""
        self._now += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function at once: a thread would take real time."""
        future = self.create_future()
        self.in_executor = True
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (for whoever waits)
            future.set_exception(error)
        finally:
            self.in_executor = False
        return future


def simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a virtual clock. It must not wait for sockets."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def every(seconds: float, beat: Callable[[], None]) -> Callable[[], None]:
    """
    Call a function periodically on the clock of the running loop, in an executor; return what stops it.

    Without a running loop, nothing else runs while a task waits, so the function is not called.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return lambda: None

    def again() -> None:
        nonlocal timer
        timer = loop.call_later(seconds, again)
        loop.run_in_executor(None, beat)

    timer = loop.call_later(seconds, again)
    return lambda: timer.cancel()  # noqa: PLW0108 (each call makes another timer)


def now() -> float:
    """Return the seconds on the clock of the running loop."""
    return asyncio.get_running_loop().time()


def in_executor() -> bool:
    """Return whether the caller's function was given to an executor, and so does not hold up the running loop."""
    loop = asyncio.get_running_loop()
    return isinstance(loop, VirtualTimeLoop) and loop.in_executor
