"""Ctrl-C and SIGTERM: end a command gently first, and at once the second time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptions:
    """
    Handle the signals that end a command, for a ``with`` block.

    Outside of :meth:`ending`, a signal raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that arrived; None so far."""
        self._end: Callable[[], None] | None = None
        self._earlier: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._earlier[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """
        Run a block that the first signal ends gently, and only the second one at once.

        :param end: Function that makes the block end within a few seconds, in any way.
        :raises KeyboardInterrupt: A signal arrived, and the block ended without an error.
        """
        self._end = end
        try:
            yield
        finally:
            self._end = None
        if self.number is not None:
            raise KeyboardInterrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        is_first = self.number is None
        self.number = number
        if not is_first or self._end is None:
            raise KeyboardInterrupt
        self._end()
