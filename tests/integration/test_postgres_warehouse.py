"""The warehouse in a real PostgreSQL: the rows of DuckDB, and other sessions and roles."""
# ruff: noqa: F811 (fixtures)

from __future__ import annotations

import dataclasses
from datetime import timedelta

import duckdb
import pytest
import sqlalchemy as sa

from airflow_provider_assistant import lake, strict_json
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import warehouse
from airflow_provider_assistant.lake.warehouse import postgres, views
from airflow_provider_assistant.observability.lineage import dataset_name
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from tests.docs.test_exports import ANSWERS, SIX_QUESTIONS, write_lake
from tests.threads import at_once
from tests.unit.lake.conftest import postgres_warehouse, server  # noqa: F401 (fixtures)
from tests.unit.lake.nights import FIRST, capture, write_nights, write_statistics
from tests.unit.lake.replies import sent_numbers

pytestmark = pytest.mark.system

SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def engine(postgres_warehouse):
    return postgres_warehouse


@pytest.fixture
def root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def load(engine, root):
    def loaded(*days, datasets=("statistics",), **options):
        with warehouse.postgres_transaction(engine, **options) as store:
            return warehouse.load(store, str(root), datasets, days or None)

    return loaded


@pytest.fixture
def read(engine):
    def rows(what, order="1"):
        with engine.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT * FROM assistant.{what} ORDER BY {order}")
            return [dict(row._mapping) for row in found]

    return rows


def test_every_reply_is_json_to_both_databases(engine):
    numbers = [*sent_numbers(), "NaN", "-Infinity", "1e10000", "1e-99999", "7" * 5000, r'"\u0000 \ud800"']
    captures = []
    for number in numbers:
        reply = strict_json.read(f'{{"n": [{number}, {{"n": {number}}}]}}'.encode())
        captures.append(dataclasses.replace(capture(FIRST, None), raw=reply.text))
    raw = lake.replies_table(captures)["raw"].to_pylist()
    metrics = lake.metrics_table(lake.STATISTICS, captures).to_pylist()
    texts = [row["text"] for row in metrics if row["type"] != "string"]
    assert len(raw) == len(numbers)
    with engine.connect() as connection:
        cast = sa.text("SELECT CAST(:reply AS jsonb) -> 'n' IS NOT NULL")
        assert all(connection.scalar(cast, {"reply": reply}) for reply in raw)
        assert all(
            connection.scalar(sa.text("SELECT CAST(:text AS jsonb) IS NOT NULL"), {"text": text}) for text in texts
        )
    with duckdb.connect() as connection:
        for text in raw + texts:
            assert connection.execute("SELECT CAST(? AS JSON) IS NOT NULL", [text]).fetchall() == [(True,)]


def exported(root):
    return [name for name in lake.DATASETS if lake.exported(str(root), name)]


def in_order(rows):
    # Collations differ, NaN is not equal to itself, and the databases round interpolated values differently.
    return sorted(repr({name: _plain(value) for name, value in row.items() if name != "loaded_at"}) for row in rows)


def _plain(value):
    if isinstance(value, float):
        return round(value, 9)
    return value.timestamp() if hasattr(value, "timestamp") else value


@pytest.mark.promise("lake and warehouse", "DuckDB and PostgreSQL have the same rows and views.")
def test_the_same_rows_as_in_duckdb(root, load, read, tmp_path):
    days = write_nights(root)
    for _ in range(2):
        loaded = load(*days, datasets=exported(root))
    database = str(tmp_path / "warehouse.duckdb")
    with warehouse.duckdb_transaction(database) as store:
        other = warehouse.load(store, str(root), exported(root))
    assert loaded.rows == other.rows
    assert loaded.replaced == sum(loaded.rows.values())
    with duckdb.connect(database) as connection:
        for name in (*exported(root), *warehouse.VIEWS, "metrics"):
            there = connection.sql(f"SELECT * FROM assistant.{name}").to_arrow_table()
            here = read(name)
            assert here, name
            assert set(here[0]) == set(there.column_names)
            assert in_order(here) == in_order(there.to_pylist()), name
    assert list(read("statistics_daily")[0])[5:7] == ["Total_49d73b26", "answered%"]


def test_the_six_questions(root, load, engine):
    write_lake(str(root))
    load(datasets=exported(root))
    with engine.connect() as connection:
        for query, rows in zip(SIX_QUESTIONS, ANSWERS.values(), strict=True):
            assert [tuple(row) for row in connection.exec_driver_sql(query)] == rows


def test_both_drivers_copy(server, engine, root, read):
    write_statistics(root, FIRST, capture(FIRST, {"quoted": 'a "b", \\.\n', "empty": "", "nothing": None}))
    found = []
    for driver in ("psycopg2", "psycopg"):
        mine = sa.create_engine(server.url.replace("psycopg2", driver))
        with warehouse.postgres_transaction(mine) as store:
            warehouse.load(store, str(root), ["statistics"], [FIRST])
        found.append([row | {"loaded_at": None} for row in read("statistics", "metric")])
    assert found[0] == found[1]
    assert [row["text"] for row in found[0]] == ["", "null", 'a "b", \\.\n']
    assert [row["period"] for row in found[0]] == [None] * 3


def test_views_on_the_views_stay(engine, root, load, read):
    write_statistics(root, FIRST, capture(FIRST, {"b": 1}))
    load(FIRST)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW assistant.mine AS SELECT date, b FROM assistant.statistics_daily")
    write_statistics(root, SECOND, capture(SECOND, {"a": 1}))
    write_statistics(root, FIRST)
    load(FIRST, SECOND)
    assert read("mine") == [{"date": SECOND, "b": None}]
    assert read("statistics_daily")[0]["a"] == 1


def test_a_failure_leaves_the_old_day(engine, root, load, read, monkeypatch):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load(FIRST)
    write_statistics(root, FIRST, capture(FIRST, {"a": 2}))
    insert = postgres.PostgresTransaction.insert

    def breaks(store, table, rows):
        insert(store, table, rows)
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            )

    monkeypatch.setattr(postgres.PostgresTransaction, "insert", breaks)
    with pytest.raises(AssistantWarehouseError, match="rolled back: the warehouse is unchanged"):
        load(FIRST)
    assert [row["value"] for row in read("statistics")] == [1]


@pytest.mark.promise(
    "lake and warehouse",
    "Loads that run at the same time write each day once, at every isolation level.",
)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_concurrent_loads_create_no_duplicates(level, engine, root, read):
    """Whatever is the default isolation of the database: the snapshot of a load is not from before its wait."""
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1, "b": 2}))
    options = {"options": f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"}
    partitions = []

    def loads():
        mine = sa.create_engine(engine.url, connect_args=options)
        with warehouse.postgres_transaction(mine) as store:
            partitions.append(warehouse.load(store, str(root), ["statistics"]).partitions)

    at_once(4, loads)
    assert sorted(partitions) == [0, 0, 0, 2]
    assert len(read("statistics")) == 4


def test_a_lock_that_stays_is_an_error(engine, root, load):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    with warehouse.postgres_transaction(sa.create_engine(engine.url)):
        with pytest.raises(AssistantWarehouseError, match=r"lock timeout.*is unchanged"):
            load(FIRST, lock_timeout=0.1)


def test_an_unreachable_server(server):
    away = sa.create_engine(server.url.replace("airflow@", "airflow:hunter2@").replace(f":{server.port}/", ":1/"))
    with pytest.raises(AssistantWarehouseError, match="refused") as error, warehouse.postgres_transaction(away):
        pass
    assert "hunter2" not in str(error.value)


def test_another_database_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_FILE", f"sqlite:///{tmp_path / 'file.db'}")
    with pytest.raises(AssistantInputError, match="connection 'file' must be one to PostgreSQL, not sqlite"):
        warehouse.postgres_engine("file")
    assert not list(tmp_path.iterdir())


def test_the_operator_loads_through_an_airflow_connection(server, engine, root, read, ran, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", server.airflow_url)
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    arguments = {"output_path": str(root), "conn_id": "{{ 'warehouse' }}", "date": FIRST.isoformat()}
    run, task = ran(AssistantParquetToWarehouseOperator, **arguments)
    assert run.xcom()["datasets"] == {"statistics": 1}
    assert [row["value"] for row in read("statistics")] == [1]
    (table,) = task.lineage_outputs
    url = engine.url
    assert dataset_name(table.uri) == (f"postgres://{url.host}:{url.port}", f"{url.database}.assistant.statistics")


# -- other sessions and roles ----------------------------------------------------------------------


@pytest.mark.promise(
    "lake and warehouse",
    "A reader that is idle in a transaction does not delay a load or other readers.",
)
def test_a_reader_that_is_idle_in_a_transaction_delays_nobody(engine, root, load, read, monkeypatch):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load()
    with engine.begin() as reader:
        for name in (*lake.DATASETS, *warehouse.VIEWS):
            reader.exec_driver_sql(f"SELECT * FROM assistant.{name}")
        write_statistics(root, SECOND, capture(SECOND, {"a": 2}))
        loaded = load(lock_timeout=60)
        assert (loaded.partitions, loaded.views_behind) == (1, [])
        # A new metric needs a column: the load tries for a while, and other readers do not wait.
        monkeypatch.setattr(views, "VIEW_TIMEOUT", 4.0)
        waits = []

        def sleep(_):
            assert len(read("statistics_daily")) == 2
            waits.append(1)

        monkeypatch.setattr(postgres.time, "sleep", sleep)
        write_statistics(root, SECOND, capture(SECOND, {"a": 2, "new": 3}))
        loaded = load(lock_timeout=60)
        assert (loaded.rows["statistics"], loaded.views_behind) == (2, ["statistics_daily"])
        assert waits
        # If all views change, as after an upgrade, the load waits once.
        with engine.begin() as other:
            other.exec_driver_sql("UPDATE assistant.definitions SET fingerprint = 'earlier'")
        waits.clear()
        assert load(lock_timeout=60).views_behind == list(warehouse.VIEWS)
        assert len(waits) == 1
    assert len(read("statistics")) == 3
    assert load().views_behind == []
    assert read("statistics_daily")[1]["new"] == 3


def test_a_lock_names_who_holds_it(engine, root, load):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load()
    other = sa.create_engine(engine.url, connect_args={"application_name": "a BI tool"}, poolclass=sa.NullPool)
    with other.begin() as blocker:
        blocker.exec_driver_sql("LOCK TABLE assistant.statistics IN EXCLUSIVE MODE")
        pid = blocker.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        write_statistics(root, FIRST, capture(FIRST, {"a": 2}))
        message = (
            rf"have held a lock for 0.1 s.*End these sessions.*process {pid} \(user airflow, a BI tool, idle in trans"
        )
        with pytest.raises(AssistantWarehouseError, match=message):
            load(lock_timeout=0.1)


@pytest.mark.promise(
    "lake and warehouse",
    "A role without rights is told the statements that an administrator has to run.",
)
def test_roles(server, engine, root):
    """An administrator's schema, a role without rights, a member of the owner, and a role that reads."""
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    with engine.begin() as admin:
        for role in ("loader", "second", "analyst"):
            admin.exec_driver_sql(f"DROP ROLE IF EXISTS {role}")
            admin.exec_driver_sql(f"CREATE ROLE {role} LOGIN")

    def load_as(role):
        mine = sa.create_engine(server.url.replace("airflow@", f"{role}@"))
        with warehouse.postgres_transaction(mine) as store:
            return warehouse.load(store, str(root), ["statistics"])

    def granted(error):
        """Run the statements that the error names."""
        statements = str(error.value).partition("then run the task again: ")[2].partition(" [")[0]
        assert statements, error.value
        with engine.begin() as admin:
            admin.exec_driver_sql(statements)

    with pytest.raises(AssistantWarehouseError, match="permission denied for database") as error:
        load_as("loader")
    granted(error)
    assert load_as("loader").rows == {"statistics": 1}
    with engine.begin() as admin:
        admin.exec_driver_sql("GRANT USAGE ON SCHEMA assistant TO analyst")
        admin.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA assistant TO analyst")
        admin.exec_driver_sql("GRANT USAGE, CREATE ON SCHEMA assistant TO second")
    write_statistics(root, SECOND, capture(SECOND, {"a": 1, "new": 2}))
    with pytest.raises(AssistantWarehouseError, match="GRANT loader TO second") as error:
        load_as("second")
    granted(error)
    assert load_as("second").rows == {"statistics": 2}
    reader = sa.create_engine(server.url.replace("airflow@", "analyst@"), poolclass=sa.NullPool)
    with reader.connect() as connection:
        found = connection.exec_driver_sql("SELECT new FROM assistant.statistics_daily ORDER BY date").scalars()
        assert list(found) == [None, 2]
    with engine.begin() as admin:
        admin.exec_driver_sql("DROP SCHEMA assistant CASCADE")
        for role in ("loader", "second", "analyst"):
            admin.exec_driver_sql(f"DROP OWNED BY {role}")
            admin.exec_driver_sql(f"DROP ROLE {role}")
