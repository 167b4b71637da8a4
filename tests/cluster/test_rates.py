"""Two workers and a triggerer share the rate limit of one tenant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.scenario import NEVER, RATE_LIMIT, SOON, TIMEOUT, Cluster

pytestmark = pytest.mark.system

Report = Callable[..., None]

# More rows than one site gets in the time that is measured, and more polls than a third of the limit: 200 a second.
ROWS, QUESTIONS = 4000, 1000
SENDERS = {
    "worker-1": re.compile("acme-docs/documents/"),
    "worker-2": re.compile("acme-shop/documents/"),
    "triggerer": re.compile("chat/requests/"),
}


def sender_of(entry: dict[str, Any]) -> str | None:
    return next((name for name, path in SENDERS.items() if path.search(entry["path"])), None)


def test_two_workers_and_a_triggerer_share_the_rate_limit(cluster: Cluster, report: Report) -> None:
    cluster.service.faults(processing_seconds=NEVER)
    batch = cluster.batch("rates-batch", QUESTIONS)
    cluster.wait_deferred(batch)
    cluster.airflow.wait("polls", lambda: cluster.polls() > QUESTIONS, timeout=TIMEOUT)
    cluster.service.reset("journal")
    loads = cluster.load_two_sites("rates", ROWS)
    assert cluster.finish(loads) == "success"
    entries = cluster.service.journal(limit=100_000)
    cluster.service.faults(processing_seconds=SOON)
    assert cluster.finish(batch) == "success"

    # From the moment when all three send to the moment when one of them has finished.
    times = {name: [at(entry) for entry in entries if sender_of(entry) == name] for name in SENDERS}
    start, end = max(min(found) for found in times.values()), min(max(found) for found in times.values())
    sent = [entry for entry in entries if start <= at(entry) <= end]
    accepted = Counter(sender_of(entry) for entry in sent if entry["status"] != 429)
    throttled = sum(entry["status"] == 429 for entry in sent) / len(sent)
    rates = {name: accepted[name] / (end - start) for name in SENDERS}
    report(
        **{name: round(rate, 1) for name, rate in rates.items()},
        total=round(sum(rates.values()), 1),
        throttled=round(throttled, 3),
        measured_seconds=round(end - start, 1),
    )
    assert sum(rates.values()) >= 0.9 * RATE_LIMIT
    assert throttled <= 0.05
    assert min(rates.values()) >= 0.5 * max(rates.values())


def at(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()
