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
    :param seed: Seed of the random choice. Default: 0.
    :return: Indices of the rows, from 0, in ascending order.
    :raises ValueError: ``size`` is smaller than the number of strata.
    """
    rows: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, stratum in enumerate(strata):
        rows[stratum].append(row)
    if size < len(rows):
        raise ValueError(f"{size} rows cannot represent {len(rows)} groups; draw at least one of each")
    chosen = random.Random(seed)  # noqa: S311 (a sample, no secret)
    shares = _shares([len(found) for found in rows.values()], min(size, len(strata)))
    drawn = [chosen.sample(found, share) for found, share in zip(rows.values(), shares, strict=True)]
    return sorted(row for found in drawn for row in found)


def _shares(counts: Sequence[int], size: int) -> list[int]:
    """Return how many rows each stratum gets: one, and the rest by the largest remainders."""
    exact = [size * count / sum(counts) for count in counts]
    shares = [max(1, int(share)) for share in exact]
    # Strata that got one row instead of none may have taken too many.
    while (missing := size - sum(shares)) != 0:
        step = 1 if missing > 0 else -1
        open_strata = [
            number for number, share in enumerate(shares) if (share < counts[number] if step > 0 else share > 1)
        ]
        number = max(open_strata, key=lambda stratum: step * (exact[stratum] - shares[stratum]))
        shares[number] += step
    return shares
