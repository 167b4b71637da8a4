"""
Write the tables of the page on capacity from the simulation.

``python -m tests.docs.capacity``, or ``make capacity``, updates the page and prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.benchmarks.capacity import TENANTS, Night, measured, simulate, sites

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "capacity.md"
BEGIN, END = "<!-- from the simulation: begin -->\n", "<!-- from the simulation: end -->\n"
SLOTS = (2, 5, 10, 20)
# The share of documents that is sent, whether the sources have all documents, and what is sent.
SCENARIOS = {
    "First load": (1.0, True, "new"),
    "Night, sources with all rows": (0.015, True, "changed"),
    "Night, sources with the changes only": (0.015, False, "changed"),
    "Night after a change of 10 %": (0.1, True, "changed"),
}
GB = 1e9


@cache
def night(scenario: str, slots: int) -> Night:
    """Return a simulated night."""
    share, whole, sent = SCENARIOS[scenario]
    return simulate(sites(share, whole=whole), slots, measured(sent))


def tables() -> str:
    """Return the tables of the page."""
    return "\n".join("\n".join(part) + "\n" for part in (_costs(), _tenants(), _hours(), _work(), _ledger()))


def _costs() -> Iterator[str]:
    new, changed = measured("new"), measured("changed")
    yield "| Cost of a row | New | Changed | Unchanged |"
    yield "|---|---|---|---|"
    workers, databases = (new.sent_worker, changed.sent_worker), (new.sent_database, changed.sent_database)
    yield f"| Processor time of a worker, µs | {workers[0]:.0f} | {workers[1]:.0f} | {new.same_worker:.0f} |"
    yield f"| Processor time of PostgreSQL, µs | {databases[0]:.0f} | {databases[1]:.0f} | {new.same_database:.0f} |"
    yield f"| Write-ahead log, bytes | {new.wal_bytes:,.0f} | {changed.wal_bytes:,.0f} | 0 |"
    yield f"| Dead rows in the ledger | {new.dead_rows} | {changed.dead_rows} | 0 |"
    yield f"| Transactions, if the service's limit is the bottleneck | {new.commits:.2f} | {changed.commits:.2f} | 0 |"


def _tenants() -> Iterator[str]:
    first, nightly = (night(name, SLOTS[-1]).ends for name in list(SCENARIOS)[:2])
    yield "| Tenant | Sites | Documents | Limit per second | First load, hours | Night, hours |"
    yield "|---|---|---|---|---|---|"
    for one in TENANTS:
        facts = f"{one.name} | {one.sites} | {one.documents:,} | {one.limit:,.0f}"
        yield f"| {facts} | {first[one.name]:.1f} | {nightly[one.name]:.1f} |"
    documents, limit = sum(one.documents for one in TENANTS), sum(one.limit for one in TENANTS)
    total = f"{max(first.values()):.1f} | {max(nightly.values()):.1f}"
    yield f"| together | {sum(one.sites for one in TENANTS):,} | {documents:,} | {limit:,.0f} | {total} |"


def _hours() -> Iterator[str]:
    yield f"| Hours, by number of slots | {' | '.join(map(str, SLOTS))} |"
    yield f"|---|{'---|' * len(SLOTS)}"
    for name in SCENARIOS:
        yield f"| {name} | {' | '.join(f'{night(name, slots).hours:.1f}' for slots in SLOTS)} |"


def _work() -> Iterator[str]:
    nights = [night(name, SLOTS[-1]) for name in SCENARIOS]
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
        "Commits per second, at most": [one.rows_per_second * one.costs.commits for one in nights],
        "Write-ahead log, GB": [one.created * one.costs.wal_bytes / GB for one in nights],
        "Dead rows, millions": [one.created * one.costs.dead_rows / 1e6 for one in nights],
    }
    for name, values in rows.items():
        yield f"| {name} | {' | '.join(f'{value:,.0f}' if value >= 99.95 else f'{value:.1f}' for value in values)} |"


def _ledger() -> Iterator[str]:
    documents, costs = sum(one.documents for one in TENANTS), measured("new")
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
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    print(tables())
    PAGE.write_text(written())
