"""
Generated nights. A failure prints the shrunk night; paste it as ``check(Night(…))`` into a test of its own.

``ASSISTANT_TEST_NIGHTS`` says how many nights there are, see ``make adversary``.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.adversary import nights, upload_nights
from tests.adversary.night_generation import NIGHTS
from tests.adversary.upload_generation import UPLOAD_NIGHTS

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "300"))
# Each part has a seed of its own; Hypothesis keeps what it has generated, some MB a night, until a part ends.
PARTS = max(4, COUNT // 250)
# One night in so many is one of uploads.
UPLOADS = 5
# The same nights every time, and no shrunk night that is kept from an earlier run.
GENERATED = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": False,
}


@pytest.mark.parametrize("part", range(PARTS))
def test_loads_keep_their_promises(part: int) -> None:
    @seed(part)
    @settings(max_examples=max(1, COUNT * (UPLOADS - 1) // UPLOADS // PARTS), **GENERATED)
    @given(NIGHTS)
    def through(night: nights.Night) -> None:
        nights.check(night)

    through()


@pytest.mark.parametrize("part", range(PARTS))
def test_uploads_keep_their_promises(part: int) -> None:
    @seed(part)
    @settings(max_examples=max(1, COUNT // UPLOADS // PARTS), **GENERATED)
    @given(UPLOAD_NIGHTS)
    def through(night: upload_nights.UploadNight) -> None:
        upload_nights.check(night)

    through()
