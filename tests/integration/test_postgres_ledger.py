"""Loads whose ledger is on a PostgreSQL server that fails in the middle of them.

The rules of the ledger are those of ``tests/unit/ledger``, in both databases.
"""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError, AssistantLedgerPermanentError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.findings import read_findings
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.sending import sender
from tests.live.postgres import PostgresServer
from tests.task_runs.context import task_context
from tests.unit.loads.test_ledger_truth import rows_of, said_of

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def engine(server: PostgresServer) -> Iterator[sa.Engine]:
    engine = sa.create_engine(server.url, pool_pre_ping=True)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield engine
    engine.dispose()


GRANT = "GRANT ALL ON SCHEMA public TO worker; GRANT ALL ON ALL TABLES IN SCHEMA public TO worker"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'"
# What happens to the ledger in the middle of a load, and what undoes it.
FAULTS = {
    "no update": ("REVOKE UPDATE ON assistant_attempts FROM worker", GRANT),
    "no right": ("REVOKE ALL ON assistant_attempts FROM worker", GRANT),
    "no schema": ("REVOKE ALL ON SCHEMA public FROM worker", GRANT),
    "other column": (
        "ALTER TABLE assistant_attempts RENAME state TO result",
        "ALTER TABLE assistant_attempts RENAME result TO state",
    ),
    "dropped": ("DROP TABLE assistant_attempts", None),
    "role is read-only": (
        f"ALTER ROLE worker SET default_transaction_read_only = on; {CUT}",
        "ALTER ROLE worker RESET default_transaction_read_only",
    ),
    "database is read-only": (
        f"ALTER DATABASE postgres SET default_transaction_read_only = on; {CUT}",
        "ALTER DATABASE postgres RESET default_transaction_read_only",
    ),
    "no login": (f"ALTER ROLE worker NOLOGIN; {CUT}", "ALTER ROLE worker LOGIN"),
    "no connection": (f"ALTER ROLE worker CONNECTION LIMIT 0; {CUT}", "ALTER ROLE worker CONNECTION LIMIT -1"),
    "refused": (None, None),
}


class FailingLoad:
    """A load of random size whose ledger fails at a random moment."""

    def __init__(self, kind, random, server, folder):
        self.kind, self.server = kind, server
        self.rows, self.concurrency = random.randint(12, 40), random.choice([1, 3, 8])
        self.first = random.randint(1, self.rows // 2)
        self.on_ambiguous = random.choice(["retry", "skip"])
        self.driver = random.choice(["postgresql+psycopg", "postgresql+psycopg2"])
        self.findings = folder / f"{kind}.parquet"
        self.is_broken = False
        self.admin = sa.create_engine(server.url, isolation_level="AUTOCOMMIT")

    def sql(self, text):
        with self.admin.connect() as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            return connection.exec_driver_sql(text)

    def connection(self):
        facts = {"host": "127.0.0.1", "port": self.server.port, "login": "worker", "schema": "postgres"}
        return json.dumps({"conn_type": "postgres", "extra": {"sqlalchemy_scheme": self.driver}, **facts})

    def break_after(self, service):
        def break_ledger(connection, *_):
            if self.is_broken or connection.engine is self.admin or service.posts() < self.first:
                return
            if self.kind == "refused":
                self.server.stop(signal.SIGQUIT)
            else:
                try:
                    self.sql(f"SET lock_timeout = '50ms'; {FAULTS[self.kind][0]}")
                except sa.exc.OperationalError:
                    # The transaction of the load has locked the table: between two of them.
                    return
            self.is_broken = True

        return break_ledger

    def undo(self):
        self.admin.dispose()
        if self.kind == "refused":
            self.server.start()
        elif FAULTS[self.kind][1]:
            self.sql(FAULTS[self.kind][1])

    def operator(self, **options):
        return AssistantLoadQAOperator(
            task_id="load", source=rows_of(self.rows), key_columns="id",
            findings_path=str(self.findings), on_ambiguous=self.on_ambiguous, **options,
        )  # fmt: skip

    def fails(self):
        """Return what the failed load says about what is safe."""
        operator, context = self.operator(), task_context("load")
        with pytest.raises(AssistantLedgerError) as caught:
            operator.execute(context)
        assert "LINE 1" not in str(caught.value)
        is_permanent = isinstance(caught.value, AssistantLedgerPermanentError)
        assert is_permanent == (self.kind not in {"no connection", "refused"})
        return operator.failure_context(context).safe

    def runs_again(self):
        return self.operator(max_rejected=0).execute(task_context("load"))


@pytest.mark.promise("ledger", "A load that its ledger stops says how many documents exist and how many are recorded.")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_the_numbers_of_a_load_are_those_of_the_ledger(
    seed, server, service, connect, ledger_home, tmp_path, monkeypatch
):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    monkeypatch.setattr(sender, "GRACE", 60.0)
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "team")
    server.run_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP ROLE IF EXISTS worker")
    server.run_sql("CREATE ROLE worker LOGIN")
    random = Random(seed)
    for kind in FAULTS:
        load = FailingLoad(kind, random, server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", load.connection())
        connect(max_concurrency=load.concurrency)
        load.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        Ledger(sa.create_engine(server.url)).close()
        load.sql(GRANT)
        service.reset()
        service.behave(allow_duplicates=True)
        event = random.choice(["before_cursor_execute", "after_cursor_execute"])
        if kind in {"dropped", "other column"}:
            # After a statement, the load has locked its table.
            event = "before_cursor_execute"
        break_ledger = load.break_after(service)
        sa.event.listen(sa.Engine, event, break_ledger)
        try:
            told = load.fails()
        finally:
            sa.event.remove(sa.Engine, event, break_ledger)
            load.undo()
        created = {document["title"].replace("T", "k") for document in service.documents("acme-docs")}
        # The numbers are true as well if the ledger cannot be read any more.
        said = said_of(told.replace("had recorded", "has recorded"))
        assert said[0] == len(created), (kind, told)
        if kind == "dropped":
            assert "cannot be read now" in told
            continue
        recorded = {key for (key,) in load.sql("SELECT label FROM assistant_attempts WHERE state = 'created'")}
        assert said == (len(created), len(recorded), len(created - recorded)), kind
        listed = {found["key"] for found in read_findings(load.findings) if found["kind"] == "ambiguous"}
        assert listed == created - recorded
        # The next run does what the message says.
        others = re.search(r"the outcome of (\d+) other row", told)
        claimed = said[2] + (int(others[1]) if others else 0)
        load.sql("UPDATE assistant_attempts SET alive_until = NULL")
        result = load.runs_again()
        copies = Counter(document["title"] for document in service.documents("acme-docs"))
        doubled = sum(copies.values()) - len(copies)
        is_sent = load.on_ambiguous == "retry"
        assert result["failed"] == 0
        assert doubled == (said[2] if is_sent else 0), kind
        counts = (result["possibly_duplicated"], result["ambiguous"])
        assert counts == ((claimed, 0) if is_sent else (0, claimed)), kind
