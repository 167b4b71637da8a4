"""Ctrl-C and SIGTERM end a command in the same way: gently where it can end gently, and at once the second time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Run a block in which each signal raises KeyboardInterrupt."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextlib.contextmanager
def ending(end: Callable[[], None]) -> Iterator[None]:
    """
    Run a block that the first signal ends gently, and only the second one at once.

    :param end: Function that makes the block end within a few seconds, in any way.
    :raises KeyboardInterrupt: A signal arrived.
    """
    has_arrived = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal has_arrived
        if has_arrived:
            raise KeyboardInterrupt
        has_arrived = True
        end()

    with _handled_by(handle):
        try:
            yield
        except Exception as error:
            if has_arrived:
                raise KeyboardInterrupt from error
            raise
    if has_arrived:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    earlier = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)
