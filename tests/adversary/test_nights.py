"""
Generated nights of loads. A failure prints the shrunk night; paste it as ``check(Night(…))`` into a new test.

``ASSISTANT_TEST_NIGHTS`` sets the number of nights, see ``make adversary``.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.adversary import nights, upload_nights
from tests.adversary.night_generation import NIGHTS
from tests.adversary.upload_generation import UPLOAD_NIGHTS

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "300"))
# Each part has a separate seed; Hypothesis keeps all generated data, some MB per night, until a part ends.
PARTS = max(4, COUNT // 250)
# One of this many nights uploads files.
UPLOADS = 5
# Generate the same nights in every run, without a database of earlier failures.
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
