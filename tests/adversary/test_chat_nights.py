"""
Generated nights of single calls. A failure prints the shrunk night; paste it as ``check_…(…)`` into a test of its own.

``ASSISTANT_TEST_NIGHTS`` says how many nights there are of each kind, see ``make adversary``.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.adversary import chat_nights
from tests.adversary.chat_nights import CHAT_NIGHTS, PLAIN_NIGHTS, WAITING_NIGHTS

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "300")) // 2


@pytest.mark.parametrize(
    ("check", "strategy"),
    [
        ("chat", CHAT_NIGHTS),
        ("close", PLAIN_NIGHTS),
        ("upload", PLAIN_NIGHTS),
        ("rating", PLAIN_NIGHTS),
        ("waiting", WAITING_NIGHTS),
        ("sensor", WAITING_NIGHTS),
    ],
)
def test_the_promises_hold(check, strategy) -> None:
    @seed(1)
    @settings(
        max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(strategy)
    def nights(night) -> None:
        getattr(chat_nights, f"check_{check}")(night)

    nights()
