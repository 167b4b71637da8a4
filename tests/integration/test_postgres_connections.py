"""Airflow connections to PostgreSQL: their settings, databases that cannot be a ledger, and PgBouncer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count

import pytest

from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantLedgerError,
    AssistantWarehouseError,
)
from airflow_provider_assistant.lake.postgres import load, postgres_engine
from airflow_provider_assistant.lake.warehouse import days_to_load
from airflow_provider_assistant.ledger import Claim, Ledger, LedgerLocation, Outcome, RunRef, Scope, Site, queries
from tests.live.pgbouncer import pgbouncer, program
from tests.live.postgres import USER, PostgresServer
from tests.proxies import certificate
from tests.task_runs.finals import is_final
from tests.threads import at_once
from tests.unit.lake.nights import FIRST, write_statistics

pytestmark = pytest.mark.system

DRIVERS = ("postgresql+psycopg", "postgresql+psycopg2")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def connect(server, monkeypatch):
    """Return a function that defines the connection ``team``."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)

    def defined(extra=(), *, driver=DRIVERS[0], database="postgres", login=USER, port=None):
        value = {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": port or server.port,
            "login": login,
            "schema": database,
            "extra": {"sqlalchemy_scheme": driver, **dict(extra)},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", json.dumps(value))
        return LedgerLocation("team")

    return defined


def scalar(engine, sql):
    with engine.connect() as connection:
        return connection.exec_driver_sql(sql).scalar()


IS_ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


def refused(location, kind=AssistantLedgerError):
    with pytest.raises(kind) as caught:
        Ledger.open(location)
    assert "connection 'team'" in str(caught.value)
    assert "Nothing was sent" in str(caught.value)
    return str(caught.value)


def warehouse_refused(kind=AssistantWarehouseError):
    with pytest.raises(kind) as caught:
        load(postgres_engine("team"), "assistant", "lake", {})
    return str(caught.value)


def test_settings_of_libpq_are_honoured_or_refused_by_name(server, connect, tmp_path):
    pairs = []
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
        pairs.append(certificate(tmp_path / name))
    (bundle, key), (other, _) = pairs
    words = "Enable SSL on the server"
    assert words in refused(connect({"sslmode": "require"}))
    assert words in warehouse_refused()
    server.use_certificate(bundle, key)
    server.run_sql("CREATE SCHEMA team")
    for driver in DRIVERS:
        for extra, encrypted in (
            ({"sslmode": "verify-full", "sslrootcert": str(bundle)}, True),
            ({"sslmode": "require", "connect_timeout": 5, "keepalives_idle": "30"}, True),
            ({"sslmode": "disable", "target_session_attrs": "read-write", "client_encoding": "UTF-8"}, False),
        ):
            with Ledger.open(connect(extra, driver=driver)) as ledger:
                assert scalar(ledger.engine, IS_ENCRYPTED) is encrypted
            assert scalar(postgres_engine("team"), IS_ENCRYPTED) is encrypted
        extra = {"options": "-csearch_path=team -cclient_encoding=latin1", "application_name": "nightly"}
        with Ledger.open(connect(extra, driver=driver)) as ledger:
            assert scalar(ledger.engine, "SELECT 'assistant_tries'::regclass::oid = 'team.assistant_tries'::regclass")
            assert scalar(ledger.engine, "SELECT current_setting('application_name')") == "nightly"
            assert scalar(ledger.engine, "SELECT current_setting('client_encoding')") == "UTF8"
        for extra, text in (
            ({"sslmode": "verify-full", "sslrootcert": str(other)}, "certificate.*Set sslrootcert"),
            ({"sslmode": "verify-ca", "sslrootcert": str(tmp_path / "none.pem")}, "none.pem.*Set sslrootcert"),
            ({"sslmode": "sometimes"}, "sslmode.*sometimes.*Correct or remove this setting"),
            ({"sslmod": "require"}, "sslmod.*Correct or remove this setting"),
            ({"connect_timeout": "soon"}, "soon.*Correct or remove this setting"),
        ):
            connect(extra, driver=driver)
            for message in (refused(LedgerLocation("team")), warehouse_refused()):
                assert_matches(text, message)
        for extra in ({"client_encoding": "latin1"}, {"autocommit": True}, {"cursor_factory": "x"}):
            (name,) = extra
            connect(extra, driver=driver)
            for message in (refused(LedgerLocation("team")), warehouse_refused(AssistantInputError)):
                assert f"settings that are not supported: '{name}'" in message


def assert_matches(pattern, text):
    assert re.search(pattern, text), text


def test_databases_that_cannot_be_a_ledger(server, connect):
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = encoding.lower()
        server.run_sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        for driver in DRIVERS:
            words = f"encoding of the database is {encoding}"
            assert_matches(f"{words}.*UTF8", refused(connect(database=name, driver=driver)))
            assert_matches(f"{words}.*UTF8", warehouse_refused())
    assert_matches('database "nowhere" does not exist.*Create the database', refused(connect(database="nowhere")))
    assert_matches("Correct login", refused(connect(login="nobody_here")))
    message = refused(connect(port=1), AssistantLedgerError)
    assert "A retry of the task continues" in message
    server.run_sql("CREATE ROLE plain LOGIN")
    server.create("granted")
    assert_matches(
        "permission denied for schema public.*ledger list", refused(connect(login="plain", database="granted"))
    )
    Ledger.open(connect(database="granted")).close()
    server.run_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain", "granted")
    with Ledger.open(connect(login="plain", database="granted")) as ledger:
        work(ledger, 0)
    read_only = {"options": "-cdefault_transaction_read_only=on"}
    with Ledger.open(connect(read_only, database="granted")) as ledger:
        with pytest.raises(AssistantLedgerError, match=r"read-only.*target_session_attrs", check=is_final):
            work(ledger, 1)
    server.run_sql("ALTER TABLE assistant_attempts RENAME COLUMN content_hash TO content", "granted")
    with Ledger.open(connect(database="granted")) as ledger:
        with pytest.raises(AssistantLedgerError, match=r"content_hash.*changed by hand", check=is_final):
            work(ledger, 2)


def work(ledger, number, groups=1):
    """Claim and record rows as a load does; return the ids of the documents that the ledger has then."""
    scope, run, source = Scope(Site("h", "docs"), "qa"), RunRef("dag", f"run {number}", "task", -1), f"source {number}"
    with ledger.of(scope, source, run) as attempts:
        known = []
        for group in range(groups):
            keys = [f"{number}.{group}.{row}" for row in range(4)]
            assert attempts.known(keys) == {}
            claims = [Claim(key, key, 1, "content") for key in keys]
            assert attempts.commit([], claims) == set(keys)
            attempts.commit([Outcome(claim, "created", f"doc {claim.key}") for claim in claims], [])
            known += [attempt.remote_id for found in attempts.known(keys).values() for attempt in found]
        assert ledger.read(queries.documents_of, scope, source) == len(known)
    return known


@pytest.mark.nightly
@pytest.mark.skipif(program() is None, reason="needs pgbouncer: make pgbouncer")
@pytest.mark.parametrize("driver", DRIVERS)
def test_ledger_and_warehouse_behind_pgbouncer(server, connect, tmp_path, driver):
    write_statistics(tmp_path / "lake", FIRST, {"a": 1})
    database = f"pooled_{driver.rpartition('+')[2]}"
    server.create(database)
    for mode in ("transaction", "session"):
        with pgbouncer(server, mode) as port:
            location = connect(driver=driver, database=database, port=port)

            numbers = count()

            def loads(location=location, mode=mode, numbers=numbers):
                with Ledger.open(location) as ledger:
                    assert len(work(ledger, f"{mode} {next(numbers)}", groups=20)) == 80

            # In session mode, a client that waits for one of the two sessions would wait for the others to end.
            at_once(4 if mode == "transaction" else 1, loads)
            for _ in range(2):
                days = days_to_load(str(tmp_path / "lake"), None)
                load(postgres_engine("team"), "assistant", str(tmp_path / "lake"), days)
                assert scalar(postgres_engine("team"), "SELECT value FROM assistant.statistics") == 1
            words = "PgBouncer does not pass a setting.*ALTER ROLE"
            connect({"options": "-csearch_path=team"}, driver=driver, database=database, port=port)
            assert_matches(words, refused(location))
    if driver == DRIVERS[1]:
        # psycopg2 does not say why the connection was closed.
        return
    with pgbouncer(server, "statement") as port:
        connect(driver=driver, database=database, port=port)
        assert_matches("pool_mode.*pools statements", refused(location))
        assert_matches("pool_mode.*pools statements", warehouse_refused())
