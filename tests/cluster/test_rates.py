"""Two workers and a triggerer share the rate limit of one tenant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.scenario import NEVER, RATE_LIMIT, SOON, TIMEOUT, Cluster

pytestmark = pytest.mark.system

Report = Callable[..., None]

# More rows than the test needs, and more polls than a third of the limit: 200 a second.
ROWS, QUESTIONS = 12_000, 1000
# Requests of each sender without a limit, and seconds with it.
UNLIMITED, SECONDS = 300, 60
SENDERS = {
    "worker-1": re.compile("acme-docs/documents/"),
    "worker-2": re.compile("acme-shop/documents/"),
    "triggerer": re.compile("chat/requests/"),
}


def rates(entries: list[dict[str, Any]]) -> dict[str, float]:
    """Return the requests per second of each sender that were not answered 429, while all three send."""
    times: dict[str, list[float]] = {name: [] for name in SENDERS}
    for entry in entries:
        if entry["status"] != 429 and (sender := sender_of(entry)):
            times[sender].append(entry["at"])
    start, end = max(min(found) for found in times.values()), min(max(found) for found in times.values())
    return {name: sum(start <= at <= end for at in found) / (end - start) for name, found in times.items()}


def sender_of(entry: dict[str, Any]) -> str | None:
    return next((name for name, path in SENDERS.items() if path.search(entry["path"])), None)


@pytest.mark.promise("loads", "Senders on several machines use the rate limit of a tenant, and none is starved.")
def test_two_workers_and_a_triggerer_share_the_rate_limit(cluster: Cluster, report: Report) -> None:
    service = cluster.service

    def requests() -> list[dict[str, Any]]:
        return service.journal()

    def all_send(count: int) -> bool:
        return all(cluster.requests(path.pattern) >= count for path in SENDERS.values())

    service.faults(processing_seconds=NEVER, rate_limit=None)
    batch = cluster.batch("rates-batch", QUESTIONS)
    cluster.wait_deferred(batch)
    loads = cluster.load_two_sites("rates", ROWS)
    cluster.airflow.wait("requests of all", lambda: all_send(1), timeout=TIMEOUT)
    service.reset("journal")
    cluster.airflow.wait("more requests of all", lambda: all_send(UNLIMITED), timeout=TIMEOUT)
    possible = rates(requests())
    # On a busy machine, the limit must be lower to be one: two thirds of what the slowest sender can do, for each.
    limit = round(min(RATE_LIMIT, 2 * min(possible.values())))
    service.faults(rate_limit=limit)
    service.reset("journal")
    cluster.airflow.wait("the requests of a minute", lambda: cluster.requests() >= SECONDS * limit, timeout=TIMEOUT)
    sent = requests()
    service.faults(rate_limit=None, processing_seconds=SOON)
    for site_id in ("acme-docs", "acme-shop"):
        cluster.airflow.set_task_state(loads.dag_id, loads.run_id, f"load_{site_id}", "failed")
    cluster.airflow.wait_run(loads.dag_id, loads.run_id, TIMEOUT)
    assert cluster.finish(batch) == "success"

    found = rates(sent)
    throttled = sum(entry["status"] == 429 for entry in sent) / len(sent)
    report(
        limit=limit,
        total=round(sum(found.values()), 1),
        throttled=round(throttled, 3),
        each={name: round(rate, 1) for name, rate in found.items()},
        without_limit={name: round(rate, 1) for name, rate in possible.items()},
    )
    assert sum(found.values()) >= 0.9 * limit
    assert throttled <= 0.05
    assert min(found.values()) / max(found.values()) >= 0.25
