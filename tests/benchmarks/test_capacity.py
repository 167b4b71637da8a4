"""The simulation of 1,000 sites keeps its promises, whatever the costs of a row are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.benchmarks.capacity import IN_FLIGHT, STEP, TENANTS, Costs, Night, Site, Tenant, simulate, sites

COSTS = Costs(
    table_bytes=400.0,
    index_bytes=200.0,
    sent_worker=300.0,
    sent_database=100.0,
    same_worker=30.0,
    same_database=10.0,
    same_seconds=4e-5,
    commits=1.5,
    wal_bytes=1_500.0,
    dead_rows=1,
    start=3.0,
)
# A thousandth of the documents of TENANTS, on a tenth of their sites.
SMALL = [Tenant(one.name, one.sites // 10, one.documents // 1000, one.limit) for one in TENANTS]


def night(slots: int, *, tenants: Sequence[Tenant] = SMALL, share: float = 1.0) -> tuple[list[Site], Night]:
    loads = sites(share, whole=True, tenants=tenants)
    return loads, simulate(loads, slots, COSTS)


def test_installation_has_the_size_that_the_page_names() -> None:
    assert len(TENANTS) == 10
    assert sum(one.sites for one in TENANTS) == 1_000
    assert sum(one.documents for one in TENANTS) == 100_000_000


@pytest.mark.parametrize("share", [1.0, 0.015, 0.1])
def test_sites_have_all_rows_of_their_tenant(share: float) -> None:
    loads = sites(share, whole=True)
    for tenant in TENANTS:
        own = [site for site in loads if site.tenant is tenant]
        assert len(own) == tenant.sites
        assert sum(site.read for site in own) == pytest.approx(tenant.documents)
        assert all(0 < site.send <= site.read for site in own)
    # A site cannot change more rows than it has, so the sum may be a little lower.
    assert 0.95 * share <= sum(site.send for site in loads) / 1e8 <= share * 1.000001


def test_same_seed_gives_the_same_night() -> None:
    assert night(5)[1] == night(5)[1]
    assert sites(0.015, whole=True, seed=1)[0].send != sites(0.015, whole=True, seed=2)[0].send


@pytest.mark.parametrize("slots", [1, 5, 20])
def test_rows_add_up(slots: int) -> None:
    loads, used = night(slots)
    assert used.created == pytest.approx(sum(site.send for site in loads), abs=len(loads))
    assert used.read == pytest.approx(sum(site.read for site in loads))
    assert sum(used.requests.values()) == pytest.approx(used.created + used.failed)
    assert used.failed > 0


@pytest.mark.parametrize("slots", [1, 5, 20])
def test_no_tenant_is_above_its_limit(slots: int) -> None:
    loads, used = night(slots)
    for tenant in SMALL:
        assert used.busiest[tenant.name] <= tenant.limit * 1.000001
        started = min(site.started for site in loads if site.tenant is tenant) / 3600
        hours = used.ends[tenant.name] - started
        assert used.requests[tenant.name] <= tenant.limit * hours * 3600 * 1.000001


def test_more_slots_are_never_slower() -> None:
    hours = [night(slots)[1].hours for slots in (1, 2, 5, 10, 20, 40)]
    assert all(more <= fewer + STEP / 3600 for fewer, more in pairwise(hours))
    assert hours[0] > 3 * hours[-1]


def test_slots_beyond_the_pools_change_nothing() -> None:
    assert night(20)[1] == night(200)[1]


def test_large_load_reaches_nearly_the_limit_with_few_429s() -> None:
    """The benchmark of real loads: 0.98 of the limit, 0.25 to 1.5 % of the answers are 429."""
    tenant = Tenant("X", 4, 1_000_000, 100.0)
    _, used = night(4, tenants=[tenant])
    assert 0.96 * tenant.limit <= 1_000_000 / (used.hours * 3600) <= tenant.limit
    assert used.throttled / sum(used.requests.values()) < 0.02


def test_a_task_stops_at_its_first_429() -> None:
    tenant = Tenant("X", 1, 1_000, 1.0)
    _, used = night(1, tenants=[tenant])
    assert 0 < used.throttled <= IN_FLIGHT * used.hours * 3600 / STEP
