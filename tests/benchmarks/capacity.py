"""
Simulate an installation of 1,000 sites.

Ten tenants with a limit of requests each have 100 million documents on 1,000 sites. Every site is a task, which starts,
looks at its rows, and sends those that are new or changed. Tasks wait for a slot and for a place in the pool of their
tenant; rows wait for the limit and, after an error of the service, for their retry. The costs of a row are measured:
results/ledger_costs.json by :mod:`tests.benchmarks.ledger_costs`, and results/latest.json by the other benchmarks.
:mod:`tests.docs.capacity` (``make capacity``) writes the tables of docs/internals/capacity.md.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"
SEED = 14
# Tasks of a tenant at the same time, and requests in flight of a task (max_concurrency).
POOL, IN_FLIGHT = 2, 32
# Seconds of a request, share of requests that fail with a 5xx, and seconds of a step.
LATENCY, FAILURES, STEP = 0.1, 0.002, 10.0


@dataclass(frozen=True)
class Costs:
    """
    Costs of a row in a load with a ledger on PostgreSQL. Processor times are in microseconds.

    :param table_bytes: Its entry in the table.
    :param index_bytes: Its entry in the index.
    :param sent_worker: Processor time of the worker for a row that is sent.
    :param sent_database: Processor time of PostgreSQL for it.
    :param same_worker: Processor time of the worker for an unchanged row.
    :param same_database: Processor time of PostgreSQL for it.
    :param same_seconds: Seconds until an unchanged row is done.
    :param commits: Transactions of a row that is sent, if the service's limit is the bottleneck.
    :param wal_bytes: Write-ahead log of a row that is sent.
    :param dead_rows: Dead rows that it leaves in the table: the claim, and the earlier entry of a changed row.
    :param start: Seconds from the start of a task to its first row.
    """

    table_bytes: float
    index_bytes: float
    sent_worker: float
    sent_database: float
    same_worker: float
    same_database: float
    same_seconds: float
    commits: float
    wal_bytes: float
    dead_rows: int
    start: float


def measured(sent: str) -> Costs:
    """
    Return the measured costs.

    :param sent: Whether the rows that are sent are ``new`` or ``changed``.
    """
    kept = json.loads((RESULTS / "ledger_costs.json").read_text())["postgresql"]["costs"]
    figures = json.loads((RESULTS / "latest.json").read_text())["figures"]
    (start,) = [one["samples"]["start"] for one in figures["ask"]["figures"] if "start" in (one["samples"] or {})]
    return Costs(
        table_bytes=kept["size"]["table_bytes"],
        index_bytes=kept["size"]["index_bytes"],
        sent_worker=kept[sent]["client_cpu_us"],
        sent_database=kept[sent]["server_cpu_us"],
        same_worker=kept["unchanged"]["client_cpu_us"] + kept["scan"]["client_cpu_us"],
        same_database=kept["unchanged"]["server_cpu_us"] + kept["scan"]["server_cpu_us"],
        same_seconds=1e-6
        * sum(kept[name][f"{side}_cpu_us"] for name in ("unchanged", "scan") for side in ("client", "server")),
        commits=kept["limited"]["commits"],
        wal_bytes=kept[sent]["wal_bytes"],
        dead_rows=1 if sent == "new" else 2,
        start=median(start),
    )


@dataclass(frozen=True)
class Tenant:
    """
    A tenant of the service.

    :param name: Its name.
    :param sites: Number of sites.
    :param documents: Documents of all its sites.
    :param limit: Requests per second that the service allows.
    """

    name: str
    sites: int
    documents: int
    limit: float


TENANTS = tuple(
    Tenant(name, sites, millions * 1_000_000, limit)
    for name, sites, millions, limit in (
        *(("A", 250, 30, 300.0), ("B", 200, 20, 300.0), ("C", 150, 15, 200.0), ("D", 120, 10, 200.0)),
        *(("E", 90, 8, 100.0), ("F", 70, 6, 100.0), ("G", 50, 5, 50.0), ("H", 40, 3, 50.0)),
        *(("I", 20, 2, 20.0), ("J", 10, 1, 20.0)),
    )
)


@dataclass
class Site:
    """
    The load of a site: rows to look at, and rows to send.

    :param tenant: The tenant.
    :param read: Rows of the source.
    :param send: Rows that are new or changed.
    """

    tenant: Tenant
    read: float
    send: float
    started: float = 0.0
    ended: float = 0.0
    ready: float = 0.0
    rate: float = IN_FLIGHT / LATENCY
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.send


def sites(share: float, *, whole: bool, tenants: Sequence[Tenant] = TENANTS, seed: int = SEED) -> list[Site]:
    """
    Return the loads of a night. A few sites have most of the documents, and most of the changes.

    :param share: Share of the documents that is sent; 1 for the first load.
    :param whole: Whether the sources have all documents, or only those to send.
    """
    chance, found = random.Random(seed), []
    for tenant in tenants:
        sizes = _split(tenant.documents, [chance.lognormvariate(0, 1.5) for _ in range(tenant.sites)])
        changes = [size * chance.lognormvariate(0, 1) for size in sizes]
        wanted = sizes if share == 1 else _split(tenant.documents * share, changes)
        sent = [min(pair) for pair in zip(sizes, wanted, strict=True)]
        found += [Site(tenant, size if whole else send, send) for size, send in zip(sizes, sent, strict=True)]
    return found


def _split(total: float, weights: Sequence[float]) -> list[float]:
    whole = sum(weights)
    return [total * weight / whole for weight in weights]


@dataclass
class Night:
    """What a simulated night used. ``ends`` has the hour at which each tenant was done."""

    costs: Costs
    hours: float = 0.0
    longest: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    requests: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    busiest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    created: float = 0.0
    read: float = 0.0
    throttled: float = 0.0
    failed: float = 0.0
    rows_per_second: float = 0.0

    @property
    def worker_hours(self) -> float:
        """Processor time of all workers."""
        used = self.created * self.costs.sent_worker + self.read * self.costs.same_worker
        return used / 3.6e9

    @property
    def database_hours(self) -> float:
        """Processor time of PostgreSQL."""
        return (self.created * self.costs.sent_database + self.read * self.costs.same_database) / 3.6e9


def simulate(night: Iterable[Site], slots: int, costs: Costs) -> Night:
    """
    Simulate a night.

    :param night: The loads.
    :param slots: Number of tasks that can run at the same time.
    :param costs: Costs of a row.
    """
    # The longest first, as priority_weight would arrange it.
    waiting = sorted(night, key=lambda site: -(site.send / site.tenant.limit + site.read * costs.same_seconds))
    running: list[Site] = []
    used, now = Night(costs), 0.0
    while waiting or running:
        places = Counter(site.tenant.name for site in running)
        for site in list(waiting):
            if len(running) == slots:
                break
            if places[site.tenant.name] < POOL:
                places[site.tenant.name] += 1
                site.started, site.ready = now, now + costs.start + site.read * costs.same_seconds
                waiting.remove(site)
                running.append(site)
        now += STEP
        created = sum(_send(group, used) for group in _by_tenant(running, now))
        used.rows_per_second = max(used.rows_per_second, created / STEP)
        for site in [site for site in running if site.ready <= now and site.left <= 0.5]:
            site.ended = now
            running.remove(site)
            used.read += site.read
            used.longest = max(used.longest, (site.ended - site.started) / 3600)
            used.ends[site.tenant.name] = now / 3600
    used.hours = now / 3600
    return used


def _by_tenant(running: Sequence[Site], now: float) -> list[list[Site]]:
    sending = [site for site in running if site.ready <= now and site.left > 0.5]
    names = dict.fromkeys(site.tenant.name for site in sending)
    return [[site for site in sending if site.tenant.name == name] for name in names]


def _send(group: Sequence[Site], used: Night) -> float:
    """
    Send the rows of a tenant's tasks for one step, and return how many were created.

    What exceeds the limit is refused and stays. A task stops at its first 429, so at most its requests in flight are
    refused; then it sends below the rate that was accepted, and slowly faster again.
    """
    tenant = group[0].tenant
    wanted = [min(site.left, site.rate * STEP) for site in group]
    accepted_share = min(1.0, tenant.limit * STEP / sum(wanted))
    created = 0.0
    for site, rows in zip(group, wanted, strict=True):
        accepted = rows * accepted_share
        failed = accepted * FAILURES
        site.left -= accepted - failed
        created += accepted - failed
        used.failed += failed
        used.throttled += min(rows - accepted, IN_FLIGHT)
        slower, faster = 0.98 * accepted / STEP, min(site.rate + 0.02 * tenant.limit, IN_FLIGHT / LATENCY)
        site.rate = slower if accepted < rows else faster
        used.requests[tenant.name] += accepted
    used.busiest[tenant.name] = max(used.busiest[tenant.name], sum(wanted) * accepted_share / STEP)
    used.created += created
    return created
