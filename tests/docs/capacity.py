"""
Write the tables of the page on capacity from the simulation.

``python -m tests.docs.capacity``, or ``make capacity``, updates the page and prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.benchmarks.capacity import TENANTS, Costs, Night, measured, simulate, sites

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "capacity.md"
BEGIN, END = "<!-- from the simulation: begin -->\n", "<!-- from the simulation: end -->\n"
SLOTS = (2, 5, 10, 20)
# The share of documents that is sent, and whether the sources have all documents.
SCENARIOS = {
    "First load": (1.0, True),
    "Night, sources with all rows": (0.015, True),
    "Night, sources with the changes only": (0.015, False),
    "Night after a change of 10 %": (0.1, True),
}
GB = 1e9


@cache
def night(scenario: str, slots: int, costs: Costs) -> Night:
    """Return a simulated night."""
    share, whole = SCENARIOS[scenario]
    return simulate(sites(share, whole=whole), slots, costs)


def tables(costs: Costs) -> str:
    """Return the tables of the page."""
    return "\n".join(
        "\n".join(part) + "\n" for part in (_costs(costs), _tenants(costs), _hours(costs), _work(costs), _ledger(costs))
    )


def _costs(costs: Costs) -> Iterator[str]:
    yield "| Cost of a row | Measured |"
    yield "|---|---|"
    yield f"| Processor time of a worker, row that is sent | {costs.new_worker:.0f} µs |"
    yield f"| Processor time of PostgreSQL, row that is sent | {costs.new_database:.0f} µs |"
    yield f"| Processor time of a worker, unchanged row | {costs.same_worker:.0f} µs |"
    yield f"| Processor time of PostgreSQL, unchanged row | {costs.same_database:.0f} µs |"
    yield f"| Transactions of a row, if the service's limit is the bottleneck | {costs.commits:.2f} |"
    yield f"| Write-ahead log of a row that is sent | {costs.wal_bytes:,.0f} bytes |"
    yield f"| Start of a task until its first row | {costs.start:.1f} s |"


def _tenants(costs: Costs) -> Iterator[str]:
    first, nightly = (night(name, SLOTS[-1], costs).ends for name in list(SCENARIOS)[:2])
    yield "| Tenant | Sites | Documents | Limit per second | First load, hours | Night, hours |"
    yield "|---|---|---|---|---|---|"
    for one in TENANTS:
        facts = f"{one.name} | {one.sites} | {one.documents:,} | {one.limit:,.0f}"
        yield f"| {facts} | {first[one.name]:.1f} | {nightly[one.name]:.1f} |"
    documents, limit = sum(one.documents for one in TENANTS), sum(one.limit for one in TENANTS)
    total = f"{max(first.values()):.1f} | {max(nightly.values()):.1f}"
    yield f"| together | {sum(one.sites for one in TENANTS):,} | {documents:,} | {limit:,.0f} | {total} |"


def _hours(costs: Costs) -> Iterator[str]:
    yield f"| Hours, by number of slots | {' | '.join(map(str, SLOTS))} |"
    yield f"|---|{'---|' * len(SLOTS)}"
    for name in SCENARIOS:
        yield f"| {name} | {' | '.join(f'{night(name, slots, costs).hours:.1f}' for slots in SLOTS)} |"


def _work(costs: Costs) -> Iterator[str]:
    nights = [night(name, SLOTS[-1], costs) for name in SCENARIOS]
    yield f"| With {SLOTS[-1]} slots | {' | '.join(SCENARIOS)} |"
    yield f"|---|{'---|' * len(SCENARIOS)}"
    rows = {
        "Rows that are read, millions": [one.read / 1e6 for one in nights],
        "Documents that are created, millions": [one.created / 1e6 for one in nights],
        "Rows that are retried after a 5xx, thousands": [one.failed / 1e3 for one in nights],
        "Answers that are 429, %": [
            100 * one.throttled / (sum(one.requests.values()) + one.throttled) for one in nights
        ],
        "Longest task, hours": [one.longest for one in nights],
        "Processor hours of the workers": [one.worker_hours for one in nights],
        "Processor hours of PostgreSQL": [one.database_hours for one in nights],
        "Documents per second, at most": [one.rows_per_second for one in nights],
        "Commits per second, at most": [one.rows_per_second * costs.commits for one in nights],
        "Write-ahead log, GB": [one.created * costs.wal_bytes / GB for one in nights],
        "Dead rows, millions": [one.created / 1e6 for one in nights],
    }
    for name, values in rows.items():
        yield f"| {name} | {' | '.join(f'{value:,.0f}' if value >= 100 else f'{value:.1f}' for value in values)} |"


def _ledger(costs: Costs) -> Iterator[str]:
    documents = sum(one.documents for one in TENANTS)
    table, index = documents * costs.table_bytes / GB, documents * costs.index_bytes / GB
    yield "| Ledger | Bytes per document | 100 million documents, GB |"
    yield "|---|---|---|"
    yield f"| Table | {costs.table_bytes:.0f} | {table:.0f} |"
    yield f"| Index of the primary key | {costs.index_bytes:.0f} | {index:.0f} |"
    yield f"| Together | {costs.table_bytes + costs.index_bytes:.0f} | {table + index:.0f} |"


def written() -> str:
    """Return the page with the text between the marks replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(measured())}\n{END}{after}"


if __name__ == "__main__":
    print(tables(measured()))
    PAGE.write_text(written())
