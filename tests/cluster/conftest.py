"""Fixtures shared by the tests on the cluster. `make cluster-test` runs them; nothing else collects them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import scenario
from tests.cluster.scenario import Cluster


@pytest.fixture(scope="package")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with scenario.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """The cluster with all its components, an empty service and an S3 without faults."""
    _cluster.reset()
    return _cluster


@pytest.fixture
def report(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Print figures for docs/internals/figures.md, with the duration of the test and the load of the machine."""
    started, before = time.monotonic(), cluster.airflow.restarts.copy()
    figures: dict[str, object] = {}
    yield figures.update
    figures["restarts"] = dict(cluster.airflow.restarts - before)
    figures["seconds"] = round(time.monotonic() - started)
    figures["load average"] = os.getloadavg()[0]
    print(f"\n{request.node.name}: " + ", ".join(f"{name} {figure}" for name, figure in figures.items()), flush=True)
