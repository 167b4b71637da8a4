"""Wait for rows of a load that other tasks are sending."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from airflow_provider_assistant.ledger import Known, ScopeLedger

# Longest wait, and the first pause between two looks at the ledger, in seconds.
LONGEST, FIRST_PAUSE = 60.0, 0.5


async def attempts_elsewhere(
    ledger: ScopeLedger, keys: Collection[str], is_stopped: Callable[[], bool]
) -> Mapping[str, Sequence[Known]]:
    """
    Wait until no task is sending these keys, for a minute at most.

    :param is_stopped: Whether to return at once.
    :return: The attempts of the keys by key.
    """
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + LONGEST, FIRST_PAUSE
    while keys:
        known = ledger.known(keys)
        attempts = itertools.chain.from_iterable(known.values())
        are_sent = any(attempt.is_alive for attempt in attempts)
        remaining = end - loop.time()
        if not are_sent or is_stopped() or remaining <= 0:
            return known
        await asyncio.sleep(min(pause, remaining))
        pause *= 2
    return {}
