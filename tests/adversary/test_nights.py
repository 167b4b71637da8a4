"""
Generated nights. A failure prints the shrunk night; paste it as ``check_…(…Night(…))`` into a test of its own.

``ASSISTANT_TEST_NIGHTS`` is the number of nights of all operations together, see ``make adversary``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.adversary import nights, upload_nights
from tests.adversary.batch_nights import BATCH_NIGHTS, check_batch
from tests.adversary.chat_nights import (
    CHAT_NIGHTS,
    PLAIN_NIGHTS,
    WAITING_NIGHTS,
    check_chat,
    check_close,
    check_rating,
    check_sensor,
    check_upload,
    check_waiting,
)
from tests.adversary.cli_call_nights import ARGUMENT_NIGHTS, CALL_NIGHTS, check_arguments, check_call
from tests.adversary.cli_load_nights import CLI_LOAD_NIGHTS, UNUSABLE_NIGHTS, check_cli_load, check_unusable
from tests.adversary.export_nights import EXPORT_NIGHTS, check_export
from tests.adversary.front_nights import GATEWAY_NIGHTS, MOVED_NIGHTS, OUTAGE_NIGHTS, check_front, check_moved
from tests.adversary.night_generation import NIGHTS
from tests.adversary.rating_nights import RATING_NIGHTS, check_ratings
from tests.adversary.upload_generation import UPLOAD_NIGHTS

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "100"))
# Hypothesis keeps what it has generated, up to 1 MB a night, until a part ends.
PART = 100

# What is done in a night, how it is judged, what is generated, and the percentage of all nights.
OPERATIONS: list[tuple[str, Callable[[Any], None], st.SearchStrategy[Any], int]] = [
    ("load rows", nights.check, NIGHTS, 32),
    ("load files", upload_nights.check, UPLOAD_NIGHTS, 10),
    ("through outages", check_front, OUTAGE_NIGHTS, 3),
    ("behind gateways", check_front, GATEWAY_NIGHTS, 2),
    ("at another address", check_moved, MOVED_NIGHTS, 1),
    ("chat", check_chat, CHAT_NIGHTS, 10),
    ("submit and wait", check_waiting, WAITING_NIGHTS, 5),
    ("sensor", check_sensor, WAITING_NIGHTS, 4),
    ("chat batch", check_batch, BATCH_NIGHTS, 5),
    ("rate one answer", check_rating, PLAIN_NIGHTS, 4),
    ("rate by rule", check_ratings, RATING_NIGHTS, 4),
    ("close a session", check_close, PLAIN_NIGHTS, 5),
    ("upload one file", check_upload, PLAIN_NIGHTS, 5),
    ("export", check_export, EXPORT_NIGHTS, 5),
    ("command line: load", check_cli_load, CLI_LOAD_NIGHTS, 2),
    ("command line: calls", check_call, CALL_NIGHTS, 1),
    ("command line: arguments", check_arguments, ARGUMENT_NIGHTS, 1),
    ("command line: files", check_unusable, UNUSABLE_NIGHTS, 1),
]


def parts() -> Iterator[Any]:
    """Yield the parts, each with a seed of its own: the same nights every time."""
    for name, check, generated, percentage in OPERATIONS:
        count = max(1, COUNT * percentage // 100)
        for part in range(math.ceil(count / PART)):
            size = min(PART, count - part * PART)
            yield pytest.param(check, generated, size, part, id=f"{name}, part {part}")


def test_every_night_is_counted() -> None:
    assert sum(percentage for *_, percentage in OPERATIONS) == 100


@pytest.mark.parametrize(("check", "generated", "count", "part"), list(parts()))
def test_the_promises_hold(
    check: Callable[[Any], None], generated: st.SearchStrategy[Any], count: int, part: int
) -> None:
    @seed(part)
    # A shrunk night is not kept for the next run.
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(generated)
    def hold(night: Any) -> None:
        check(night)

    hold()
