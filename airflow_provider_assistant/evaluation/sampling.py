"""Draw a stratified sample: a smaller table with the same proportions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence


def stratified_sample(strata: Sequence[Hashable], size: int, *, seed: int = 0) -> list[int]:
    """
    Draw rows at random, so that each stratum has its share of the sample, rounded, and at least one row.

    The same strata, size and seed give the same rows.

    :param strata: The stratum of each row.
    :param size: Number of rows to draw. All rows are drawn if there are fewer.
    :return: Indices of the rows, from 0, in ascending order.
    :raises ValueError: ``size`` is smaller than the number of strata.
    """
    strata_rows: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, stratum in enumerate(strata):
        strata_rows[stratum].append(row)
    groups = list(strata_rows.values())
    if size < len(groups):
        raise ValueError(f"{size} rows cannot represent {len(groups)} groups; draw at least one of each")
    chosen = random.Random(seed)  # noqa: S311 (a sample, no secret)
    shares = _shares([len(rows) for rows in groups], min(size, len(strata)))
    drawn: list[int] = []
    for rows, share in zip(groups, shares, strict=True):
        drawn += chosen.sample(rows, share)
    return sorted(drawn)


def _shares(counts: Sequence[int], size: int) -> list[int]:
    """Return how many rows each stratum gets: one, and the rest by the largest remainders."""
    exact = [size * count / sum(counts) for count in counts]
    shares = [max(1, int(share)) for share in exact]
    numbers = range(len(counts))
    while sum(shares) < size:
        growing = [number for number in numbers if shares[number] < counts[number]]
        shares[max(growing, key=lambda number: exact[number] - shares[number])] += 1
    # Strata that got one row instead of none may have taken too many.
    while sum(shares) > size:
        shrinking = [number for number in numbers if shares[number] > 1]
        shares[max(shrinking, key=lambda number: shares[number] - exact[number])] -= 1
    return shares
