"""The limiter with token buckets in simulated time: half a minute of a load takes a fraction of a second."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field

import pytest

from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter, RateEstimator
from tests.virtual_time import now, simulated

RATE = 300.0
SECONDS = 30.0
LATENCIES = [(0.002, 0), (0.02, 1), (0.05, 2)]


@dataclass
class Bucket:
    """A service with a token bucket: a burst, then a constant rate."""

    size: float
    rate: float = RATE
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self):
        self.tokens = self.size

    def retry_after(self) -> float | None:
        self.tokens = min(self.size, self.tokens + (now() - self.at) * self.rate)
        self.at = now()
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return None
        return float(max(1, math.ceil((1.0 - self.tokens) / self.rate)))


@dataclass
class Loaded:
    """The result of one simulated load."""

    accepted: int = 0
    refused: int = 0


async def load(bucket: Bucket, latency: float, rng: random.Random, start: float, end: float) -> Loaded:
    """Send requests like the loader, from a start to an end in seconds."""
    concurrency = 32
    await asyncio.sleep(start)
    limiter, seen = AdaptiveRateLimiter(concurrency), Loaded()

    async def work() -> None:
        while True:
            await limiter.acquire()
            await asyncio.sleep(latency * rng.uniform(0.7, 1.5))
            wait = bucket.retry_after()
            limiter.release()
            if wait is None:
                limiter.accepted()
                seen.accepted += 1
            else:
                seen.refused += 1
                limiter.refused(wait + rng.uniform(0.0, max(0.1 * wait, 0.1)))

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    await asyncio.sleep(end - start)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return seen


def loaded(
    burst: float,
    *,
    rate: float = RATE,
    loaders: int = 1,
    latency: float = 0.005,
    seed: int = 0,
    starts_within: float = 0.0,
    seconds: float = SECONDS,
) -> list[Loaded]:
    async def main() -> list[Loaded]:
        shared, rng = Bucket(burst, rate), random.Random(seed)
        starts = [rng.uniform(0.0, starts_within) for _ in range(loaders)]
        return await asyncio.gather(*(load(shared, latency, rng, start, seconds) for start in starts))

    return simulated(main())


def share(seen: list[Loaded]) -> float:
    return sum(one.accepted for one in seen) / (RATE * SECONDS)


# Burst and rate of a service, and the share of its requests that may be refused. A service of few requests a second
# refuses most of the first ones, which are in flight together.
BUCKETS = [
    (20, 300, 0.01),
    (300, 300, 0.02),
    (1000, 300, 0.02),
    (100, 100, 0.02),
    (50, 50, 0.05),
    (20, 50, 0.05),
    (20, 10, 0.15),
    (10, 10, 0.15),
    (5, 5, 0.15),
    (2, 2, 0.15),
    (1, 1, 0.16),
    (20, 1, 0.15),
]


def simulations():
    """Each bucket with each latency; make test runs one latency for each bucket."""
    for number, bucket in enumerate(BUCKETS):
        for latency, seed in LATENCIES:
            marks = [] if seed == number % len(LATENCIES) else [pytest.mark.nightly]
            yield pytest.param(*bucket, latency, seed, marks=marks)


@pytest.mark.parametrize(("burst", "rate", "most_refused", "latency", "seed"), simulations())
def test_a_limit_is_used_with_few_refusals(burst, rate, most_refused, latency, seed):
    """A load of half a minute, or of 300 requests if that takes longer."""
    seconds = max(SECONDS, 300 / rate)
    (seen,) = loaded(burst, rate=rate, latency=latency, seed=seed, seconds=seconds)

    # A burst of less than a second is smaller than what a pause of a second loses: four pauses of half a minute.
    least = 0.83 if burst < rate else 0.85
    assert seen.accepted / (rate * seconds) >= least
    assert seen.refused / (seen.accepted + seen.refused) <= most_refused


def test_four_loaders_share_a_limit():
    """The result depends on chance, so the worst of several simulations may be far from the average."""
    fairness = []
    for seed in range(3):
        seen = loaded(300, loaders=4, seed=seed)
        assert share(seen) >= 0.9
        accepted = [one.accepted for one in seen]
        fairness.append(min(accepted) / max(accepted))

    assert sum(fairness) / len(fairness) >= 0.6
    assert min(fairness) >= 0.35


@pytest.mark.parametrize("seed", range(3))
def test_a_loader_that_finds_an_empty_bucket_gets_its_share_as_well(seed):
    """The first requests of the last loader are refused, because the others have emptied the bucket."""
    accepted = [one.accepted for one in loaded(300, loaders=4, seed=seed, starts_within=2.0)]

    assert min(accepted) / max(accepted) >= 0.4


def test_further_refusals_of_one_round_only_lengthen_the_pause():
    async def main() -> tuple[float, float, int]:
        limiter = AdaptiveRateLimiter(32)
        for seconds in (2.0, 2.0, 3.0):
            limiter.refused(seconds)
        limit = limiter.limit
        await limiter.acquire()
        return limit, now(), limiter.throttled

    assert simulated(main()) == (16.0, 3.0, 3)


def test_a_slot_is_taken_at_once_only_if_nothing_delays_the_request():
    async def main() -> None:
        limiter = AdaptiveRateLimiter(2)
        assert [limiter.acquire_now() for _ in range(3)] == [True, True, False]
        assert limiter.in_flight == 2
        for _ in range(2):
            limiter.release()
        limiter.refused(1.0)
        assert not limiter.acquire_now()
        await limiter.acquire()
        assert now() >= 1.0
        limiter.release()
        assert not limiter.acquire_now(), "after a refusal, the rate decides"
        stopped = AdaptiveRateLimiter(2)
        stopped.stop(RuntimeError("stopped"))
        assert not stopped.acquire_now()

    simulated(main())


def test_waiting_requests_fail_when_the_load_stops():
    async def main() -> None:
        limiter = AdaptiveRateLimiter(1)
        await limiter.acquire()
        waiting = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        limiter.stop(RuntimeError("stopped"))
        with pytest.raises(RuntimeError, match="stopped"):
            await waiting
        with pytest.raises(RuntimeError, match="stopped"):
            await limiter.acquire()

    simulated(main())


@pytest.mark.parametrize("idle", [256.0, 3600.0, 1e6])
@pytest.mark.parametrize("refusals", [1, 2, 5])
def test_a_long_time_without_requests_costs_no_slot(idle, refusals):
    """The rate grows while nothing is sent; it must not overflow, and no slot may be lost."""

    async def main() -> tuple[int, float]:
        limiter = AdaptiveRateLimiter(1)
        for _ in range(refusals):
            await limiter.acquire()
            limiter.release()
            limiter.accepted()
            limiter.refused(1.0)
            await asyncio.sleep(idle)
        for _ in range(3):
            await limiter.acquire()
            limiter.release()
        return limiter.in_flight, limiter.estimator.rate

    in_flight, rate = simulated(main())
    assert in_flight == 0
    assert 0.0 < rate < math.inf


def test_without_a_refusal_the_rate_is_unlimited():
    assert RateEstimator().wait(1.0) is None
