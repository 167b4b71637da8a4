"""Several threads that do the same at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def at_once(count: int, do: Callable[[], object]) -> None:
    """Have so many threads do it, none before all are there; raise what one of them raised."""
    barrier = threading.Barrier(count)

    def wait_and_do() -> None:
        barrier.wait()
        do()

    with ThreadPoolExecutor(count) as pool:
        for started in [pool.submit(wait_and_do) for _ in range(count)]:
            started.result()
