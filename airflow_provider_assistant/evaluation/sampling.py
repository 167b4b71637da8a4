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
    rows_by_stratum: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, stratum in enumerate(strata):
        rows_by_stratum[stratum].append(row)
    groups = list(rows_by_stratum.values())
    if size < len(groups):
        raise ValueError(f"a sample of {size} cannot represent {len(groups)} groups; draw at least one of each")
    generator = random.Random(seed)  # noqa: S311 (a sample, no secret)
    group_sizes = [len(rows) for rows in groups]
    sample_sizes = _sample_sizes(group_sizes, min(size, len(strata)))
    sample: list[int] = []
    for rows, sample_size in zip(groups, sample_sizes, strict=True):
        sample += generator.sample(rows, sample_size)
    return sorted(sample)


def _sample_sizes(group_sizes: Sequence[int], total: int) -> list[int]:
    """Return how many rows to draw of each group: one, and the rest by the largest remainders."""
    rows = sum(group_sizes)
    exact = [total * group_size / rows for group_size in group_sizes]
    sample_sizes = [max(1, int(share)) for share in exact]
    groups = range(len(group_sizes))

    def lacking(group: int) -> float:
        return exact[group] - sample_sizes[group]

    while sum(sample_sizes) < total:
        growing = [group for group in groups if sample_sizes[group] < group_sizes[group]]
        sample_sizes[max(growing, key=lacking)] += 1
    # Groups that got one row instead of none may have taken too many.
    while sum(sample_sizes) > total:
        shrinking = [group for group in groups if sample_sizes[group] > 1]
        sample_sizes[min(shrinking, key=lacking)] -= 1
    return sample_sizes
