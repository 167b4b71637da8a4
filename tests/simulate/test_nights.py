"""
Generated nights. A failure prints the smallest night with the same failure; paste it into a test as ``Night(…).check()``.

``ASSISTANT_TEST_NIGHTS`` is the number of nights of all operations together; ``make simulate NIGHTS=10000`` sets it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.simulate import loads
from tests.simulate.night import Night

COUNT = int(os.environ.get("ASSISTANT_TEST_NIGHTS", "100"))
# Hypothesis keeps what it has generated, up to 1 MB a night, until a part ends.
PART = 100


def held(generated: st.SearchStrategy[Night], count: int, part: int) -> None:
    """Check generated nights: the same ones every time."""

    @seed(part)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(generated)
    def hold(night: Night) -> None:
        night.check()

    hold()


def parts(percentage: float) -> Iterator[Any]:
    """Return a decorator's parameters: the parts of a share of all nights."""
    count = max(1, round(COUNT * percentage / 100))
    for part in range(math.ceil(count / PART)):
        yield pytest.param(min(PART, count - part * PART), part, id=f"part {part}")


def share(percentage: float) -> Any:
    """Return the decorator of a test that has a share of all nights."""
    return pytest.mark.parametrize(("count", "part"), list(parts(percentage)))


@share(28)
def test_rows_are_loaded_once(count: int, part: int) -> None:
    held(loads.ROW_NIGHTS, count, part)


@share(10)
def test_files_are_uploaded_once(count: int, part: int) -> None:
    held(loads.FILE_NIGHTS, count, part)
