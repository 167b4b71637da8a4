"""
Measure what a document costs in the ledger: ``python -m tests.benchmarks.ledger_costs``.

Every cost is of one document, or of one entry that a query reads: bytes of the table and of its index, processor time
of the load and of the database server, commits, write-ahead log, pages. The loads are those of the operators. The
results are kept in results/ledger_costs.json, which :mod:`tests.benchmarks.capacity` reads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_provider_assistant.ledger import Ledger
    from tests.benchmarks.service import Service

RESULTS = Path(__file__).parent / "results" / "ledger_costs.json"
SITES = 10
TABLE = "assistant_documents"
# Documents per second that the service of the last load allows, and its seconds.
LIMIT, SECONDS = 100.0, 20.0


def site_url(number: int) -> str:
    """Return the URL of a site, of a usual length."""
    return f"https://assistant.example.com/api/v1/m2m/sites/handbook-{number:04}"


@dataclass
class Server:
    """
    The server of a ledger. SQLite has none; its work is a part of the load's processor time.

    :param engine: Engine of the ledger.
    """

    engine: sa.Engine

    @property
    def _is_postgresql(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    def _value(self, query: str) -> Any:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.execute(sa.text(query)).scalar_one()

    def vacuum(self) -> None:
        """Remove dead rows, and write everything to the table."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in ("VACUUM ANALYZE", "CHECKPOINT") if self._is_postgresql else ("VACUUM",):
                connection.execute(sa.text(statement))

    def counters(self) -> dict[str, float]:
        """Return what the server has used so far."""
        if not self._is_postgresql:
            return {"server_cpu_us": 0.0}
        self._value("SELECT pg_stat_clear_snapshot()::text")
        postmaster = psutil.Process(self._value("SELECT pg_backend_pid()")).parent()
        assert postmaster is not None
        own = postmaster.cpu_times()
        cpu = own.user + own.system + own.children_user + own.children_system
        for child in postmaster.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                cpu += sum(child.cpu_times()[:2])
        database = "FROM pg_stat_database WHERE datname = current_database()"
        return {
            "server_cpu_us": cpu * 1e6,
            "wal_bytes": float(self._value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")),
            "commits": float(self._value(f"SELECT xact_commit {database}")),
            "pages": float(self._value(f"SELECT blks_hit + blks_read {database}")),
        }

    def sizes(self) -> dict[str, float]:
        """Return the bytes of the table and of its index."""
        if self._is_postgresql:
            return {
                "table_bytes": float(self._value(f"SELECT pg_table_size('{TABLE}')")),
                "index_bytes": float(self._value(f"SELECT pg_indexes_size('{TABLE}')")),
                "dead_rows": float(
                    self._value(f"SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '{TABLE}'")
                ),
            }
        pages = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name"
        return {
            "table_bytes": float(self._value(f"{pages} = '{TABLE}'")),
            "index_bytes": float(self._value(f"{pages} LIKE 'sqlite_autoindex_{TABLE}%'")),
        }


@contextlib.contextmanager
def measured(server: Server, documents: int, into: dict[str, float]) -> Iterator[None]:
    """Measure what a block uses for each of its documents."""
    before, worked, started = server.counters(), time.process_time(), time.perf_counter()
    yield
    worked, seconds = time.process_time() - worked, time.perf_counter() - started
    if "wal_bytes" in before:
        time.sleep(1.5)  # PostgreSQL's processes report their counts with a delay
    used = {name: round((value - before[name]) / documents, 3) for name, value in server.counters().items()}
    into |= {"client_cpu_us": round(worked * 1e6 / documents, 2), "us": round(seconds * 1e6 / documents, 2), **used}


def costs(
    ledger: Ledger, service: Service, folder: Path, *, sites: int, rows: int, seconds: float = SECONDS
) -> dict[str, dict[str, float]]:
    """
    Return the costs of a document by what happens to it.

    :param ledger: A new ledger.
    :param service: The service that the documents go to.
    :param folder: Folder for the sources.
    :param sites: Number of sites.
    :param rows: Number of documents of a site.
    :param seconds: Duration of the load into a service with a limit.
    """
    from airflow_provider_assistant.ledger import DocumentScope
    from tests.benchmarks import cases, loads
    from tests.sites import site_at

    server, documents = Server(ledger.engine), sites * rows
    found: dict[str, dict[str, float]] = {
        name: {} for name in ("new", "size", "unchanged", "scan", "changed", "limited")
    }
    source = cases.parquet(folder, rows)
    with measured(server, documents, found["new"]):
        for site in range(sites):
            counts, _ = loads.load(str(source), service, ledger, scope=site_url(site))
            assert counts.created == rows, counts
    server.vacuum()
    found["size"] = {name: round(size / documents, 1) for name, size in server.sizes().items()}
    with measured(server, documents, found["unchanged"]):
        for site in range(sites):
            counts, _ = loads.load(str(source), service, ledger, scope=site_url(site))
            assert counts.unchanged == rows, counts
    with measured(server, documents, found["scan"]):
        for site in range(sites):
            scope = DocumentScope(site_at("bench", site_url(site)), "documents/qa")
            with ledger.documents(scope=scope, source="bench", run=loads.RUN) as entries:
                assert not list(entries.stale(lambda _: True))
    changed = [{**row, "answer": f"Changed: {row['answer']}"} for row in loads.rows(rows // 10)]
    with measured(server, len(changed) * sites, found["changed"]):
        for site in range(sites):
            counts, _ = loads.load(changed, service, ledger, scope=site_url(site), partial=True)
            assert counts.created == counts.changed == len(changed), counts
    service.reset(limit={"rate": LIMIT, "bucket": 1.0})
    many = loads.rows(int(LIMIT * seconds))
    with measured(server, len(many), found["limited"]):
        loads.load(many, service, ledger, scope=site_url(sites))
    service.reset()
    return found


def main() -> None:
    """Measure the databases that the command line names, or both, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ledger_costs", description=__doc__)
    parser.add_argument("databases", nargs="*", default=["postgresql", "sqlite"], metavar="postgresql, sqlite")
    parser.add_argument("--rows", type=int, default=20_000, help="documents of each of the ten sites")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as home:
        # Set before the first import of Airflow.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        logging.disable(logging.INFO)
        from tests.benchmarks import loads
        from tests.benchmarks.measure import machine
        from tests.benchmarks.service import served
        from tests.live.postgres import PostgresServer

        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        for name in wanted.databases:
            with contextlib.ExitStack() as stack:
                service, folder = stack.enter_context(served()), Path(home)
                if name == "postgresql":
                    opened = loads.ledger_at(stack.enter_context(PostgresServer()).url)
                else:
                    opened = loads.sqlite_ledger(folder)
                found = costs(stack.enter_context(opened), service, folder, sites=SITES, rows=wanted.rows)
            print(name, json.dumps(found, indent=1), flush=True)
            kept[name] = {"machine": machine(), "documents": SITES * wanted.rows, "costs": found}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
