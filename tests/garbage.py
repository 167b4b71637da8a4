"""Garbage collection in a process in which Airflow is imported: a million objects take it a second each time."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Let the garbage collector ignore all objects that exist before the test."""
    gc.freeze()
    yield
    gc.unfreeze()
