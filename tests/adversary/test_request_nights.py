"""
Generated nights of all operations except loads. A failure prints the shrunk night; paste it as ``check_…(…)`` into a
new test.

``ASSISTANT_TEST_NIGHTS`` scales the number of nights, see ``make adversary``. Default: 300.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

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
from tests.adversary.export_nights import EXPORT_NIGHTS, check_export
from tests.adversary.rating_nights import RATING_NIGHTS, check_ratings

SCALE = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "300")) / 300


@pytest.mark.parametrize(
    ("check", "nights", "count"),
    [
        (check_chat, CHAT_NIGHTS, 100),
        (check_close, PLAIN_NIGHTS, 60),
        (check_upload, PLAIN_NIGHTS, 60),
        (check_rating, PLAIN_NIGHTS, 40),
        (check_waiting, WAITING_NIGHTS, 50),
        (check_sensor, WAITING_NIGHTS, 40),
        (check_batch, BATCH_NIGHTS, 40),
        (check_ratings, RATING_NIGHTS, 40),
        (check_export, EXPORT_NIGHTS, 60),
    ],
    ids=lambda value: value.__name__.removeprefix("check_") if callable(value) else "",
)
def test_the_promises_hold(check: Callable[[Any], None], nights: st.SearchStrategy[Any], count: int) -> None:
    @seed(1)
    @settings(
        max_examples=max(1, round(count * SCALE)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(nights)
    def hold(night: Any) -> None:
        check(night)

    hold()
