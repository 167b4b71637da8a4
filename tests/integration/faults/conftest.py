"""Fixtures for the fault tests: a service in a separate process, which can be killed, and audits of its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.faults.chat_batches import ChatBatchAttempts
from tests.integration.faults.loads import LoadAttempts
from tests.integration.faults.rates import RatingAttempts
from tests.integration.faults.storage import _storage, bucket  # noqa: F401 (fixtures)
from tests.live.service import AssistantService

# Slow enough for requests to overlap, like with a real service.
LATENCY = 0.02


def in_slow(*values: object) -> list[Any]:
    """Mark parameters as slow: variants of a fault that `make test` checks with the other variants."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(scope="session")
def _process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AssistantService]:
    with AssistantService(tmp_path_factory.mktemp("service"), latency=LATENCY) as service:
        yield service


@pytest.fixture
def remote(_process: AssistantService) -> AssistantService:
    """The sandbox service in a separate process, reset to its initial state."""
    _process.check()
    _process.reset("faults")
    _process.settle()  # process requests that the last test left held, so that they do not arrive in the next test
    _process.reset()
    return _process


@pytest.fixture
def case(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadAttempts:
    return LoadAttempts(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def batch(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatBatchAttempts:
    return ChatBatchAttempts(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def rating(remote: AssistantService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RatingAttempts:
    return RatingAttempts(remote, tmp_path / "home", monkeypatch)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Record a measurement for the fault table, which `make faults` prints."""

    def measure(**figures: object) -> None:
        for name, value in figures.items():
            record_property(name, value)

    return measure
