"""
Generated nights. A failure prints the shrunk night; paste it as ``check(Night(…))`` into a test of its own.

``ASSISTANT_TEST_NIGHTS`` says how many nights there are, see ``make adversary``.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.adversary.nights import NIGHTS, Night, check

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "300"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_the_promises_hold(part: int) -> None:
    @seed(part)
    @settings(
        max_examples=COUNT // PARTS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(NIGHTS)
    def nights(night: Night) -> None:
        check(night)

    nights()
