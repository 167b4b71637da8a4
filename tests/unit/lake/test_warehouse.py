"""A warehouse has the rows of the lake, each once, whatever happened to the lake or to a load."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import duckdb as of_duckdb
from airflow_provider_assistant.lake import postgres
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.warehouse import views
from tests.threads import at_once
from tests.unit.lake.nights import FIRST, ODD, origin, rating, write_nights, write_rows, write_statistics

SECOND = FIRST + timedelta(days=1)


def in_lake(root, dataset):
    """Return all rows of a dataset, as another program reads them."""
    with duckdb.connect() as connection:
        files = f"{root}/{dataset}/*/*.parquet"
        rows = connection.sql(f"SELECT * FROM read_parquet('{files}', union_by_name = true)").to_arrow_table()
        return rows.to_pylist()


def in_order(rows):
    return sorted(repr(sorted((name, str(value)) for name, value in row.items())) for row in rows)


@pytest.mark.promise("lake and warehouse", "The warehouse has every row of the lake once, however often it is loaded.")
def test_the_rows_are_those_of_the_lake(base):
    days = write_nights(base.root)
    for _ in range(2):
        loaded = base.load()
    assert loaded.last_day == days[-1]
    assert loaded.rows.keys() == DATASETS.keys()
    for dataset in DATASETS:
        names = list(DATASETS[dataset].columns)
        found = [{name: row[name] for name in names} for row in base.rows(dataset)]
        if base.__class__.__name__ == "DuckDB":
            assert len(found) == loaded.rows[dataset]
        if dataset in ("statistics", "limits", "answers", "findings"):
            there = in_lake(base.root, dataset)
            assert [len(found), {row["date"] for row in base.rows(dataset)}] == [len(there), set(days)]
            texts = [name for name in names if not name.endswith("_at") and name != "value"]
            assert in_order([{name: row[name] for name in texts} for row in found]) == in_order(
                [{name: row[name] for name in texts} for row in there]
            )


def test_odd_values_arrive(base):
    write_statistics(base.root, FIRST, ODD)
    base.load()
    rows = {row["metric"]: row for row in base.rows("statistics")}
    assert rows["nul\\x00in\\x00name"]["value"] == 6
    assert rows["text"]["text"] == "a\\x00b"
    assert (rows["empty"]["text"], rows["nothing"]["text"], rows["quoted"]["text"]) == ("", "null", ODD["quoted"])
    assert (rows["huge"]["value"], rows["huge"]["text"]) == (None, str(10**400))
    assert {row["period"] for row in rows.values()} == {None}


def test_a_file_that_lacks_a_column_has_nulls_there_and_one_with_more_is_read(base):
    for day in (FIRST, SECOND):
        path = write_statistics(base.root, day, {"a": 1}).path
        table = pq.ParquetFile(path).read()
        changed = table.drop_columns(["period"]) if day == FIRST else table.append_column("new", pa.array(["x"]))
        pq.write_table(changed, path)
    base.load()
    assert [(row["metric"], row["period"]) for row in base.rows("statistics")] == [("a", None)] * 2


@pytest.mark.promise("lake and warehouse", "A file of another program in a dataset's folder is named, and never read.")
def test_a_foreign_file_is_named(base):
    folder = Path(write_statistics(base.root, FIRST, {"a": 1}).path).parent
    (folder / "_temporary.parquet").write_text("no Parquet")
    base.load()
    pq.write_table(pa.table({"metric": ["theirs"], "value": [1.0]}), folder / "foreign.parquet")
    with pytest.raises(AssistantWarehouseError, match=r"foreign\.parquet is not a file of a dataset: .*Move it out"):
        base.load()
    assert [row["metric"] for row in base.rows("statistics")] == ["a"]
    assert (folder / "foreign.parquet").exists()


def test_a_dataset_of_another_route_is_loaded_if_it_is_named(base):
    row = {**origin(), "metric": "chats", "text": "1", "type": "number", "value": 1.0}
    write_rows(base.root, "usage", FIRST, [row])
    with pytest.raises(AssistantInputError, match=r"has no files of statistics, .*Give the output_path"):
        base.load()
    with pytest.raises(AssistantInputError, match="has no files of feedback"):
        base.load(["usage", "feedback"])
    assert base.load(["usage"]).rows == {"usage": 1}
    assert [row["metric"] for row in base.rows("usage")] == ["chats"]
    assert base.rows("statistics") == []
    write_statistics(base.root, FIRST, {"a": 1})
    base.load()
    # A load of one dataset leaves the others.
    assert base.load(["usage"]).rows.keys() == {"usage"}
    assert [row["metric"] for row in base.rows("statistics")] == ["a"]


# -- PostgreSQL ------------------------------------------------------------------------------------

of_postgres = pytest.mark.system


def values(base):
    return sorted(row["value"] for row in base.rows("statistics"))


@of_postgres
@pytest.mark.promise("lake and warehouse", "A load reads only the days that changed, and keeps those that are gone.")
def test_only_what_changed_is_read_and_the_lake_may_forget(on_postgres):
    root = on_postgres.root
    days = [FIRST + timedelta(days=number) for number in range(5)]
    for number, day in enumerate(days):
        write_statistics(root, day, {"a": number})
    loaded = on_postgres.load()
    assert (loaded.partitions, loaded.replaced, loaded.unchanged, loaded.kept) == (5, 0, 0, 0)
    write_statistics(root, days[1], {"a": 11, "b": 12})
    write_rows(root, "statistics", days[2], [], whose="other")
    write_statistics(root, days[3], {"a": 31})
    shutil.rmtree(root / "statistics" / f"date={days[0]}")
    loaded = on_postgres.load()
    assert (loaded.partitions, loaded.rows, loaded.unchanged, loaded.kept) == (3, {"statistics": 4}, 1, 1)
    assert values(on_postgres) == [0, 2, 4, 11, 12, 31]
    # A day whose files have no rows has none, and one that is back is loaded again.
    for path in (root / "statistics" / f"date={days[1]}").iterdir():
        pq.write_table(pq.ParquetFile(path).read().slice(0, 0), path)
    write_statistics(root, days[0], {"a": 7})
    loaded = on_postgres.load()
    assert (loaded.partitions, loaded.replaced, loaded.kept) == (2, 3, 0)
    assert values(on_postgres) == [2, 4, 7, 31]


@of_postgres
@pytest.mark.promise("lake and warehouse", "After a failure, the warehouse has all the rows that it had before.")
@pytest.mark.parametrize("failure", ["file", "server", "table"])
def test_a_failure_leaves_the_old_days_of_all_datasets(failure, on_postgres, monkeypatch):
    root = on_postgres.root
    write_rows(root, "feedback", FIRST, [rating(FIRST, "good")])
    write_statistics(root, FIRST, {"a": 1})
    on_postgres.load()
    write_rows(root, "feedback", FIRST, [rating(FIRST, "bad")])
    path = Path(write_statistics(root, FIRST, {"a": 2}).path)
    content = path.read_bytes()
    if failure == "file":
        path.write_bytes(b"no Parquet")
    elif failure == "table":
        on_postgres.run("ALTER TABLE assistant.statistics ADD CHECK (value < 2)")
    else:
        read_day = postgres.read_day

        def ended(*arguments):
            on_postgres.run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
            return read_day(*arguments)

        monkeypatch.setattr(postgres, "read_day", ended)
    with pytest.raises(AssistantWarehouseError, match="hanged"):
        on_postgres.load()
    assert [row["rating"] for row in on_postgres.rows("feedback")] == ["good"]
    assert values(on_postgres) == [1]
    monkeypatch.undo()
    if failure == "file":
        path.write_bytes(content)
    elif failure == "table":
        on_postgres.run("ALTER TABLE assistant.statistics DROP CONSTRAINT statistics_value_check")
    on_postgres.load()
    assert [row["rating"] for row in on_postgres.rows("feedback")] == ["bad"]
    assert values(on_postgres) == [2]


@of_postgres
@pytest.mark.promise(
    "lake and warehouse", "Loads that run at the same time write each day once, at every isolation level."
)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_concurrent_loads_create_no_duplicates(level, on_postgres):
    for day in (FIRST, SECOND):
        write_statistics(on_postgres.root, day, {"a": 1, "b": 2})
    options = {"options": f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"}
    partitions = []

    def loads():
        mine = sa.create_engine(on_postgres.engine.url, connect_args=options)
        partitions.append(on_postgres.load(engine=mine).partitions)

    at_once(4, loads)
    assert sorted(partitions) == [0, 0, 0, 2]
    assert values(on_postgres) == [1, 1, 2, 2]


@of_postgres
@pytest.mark.promise(
    "lake and warehouse", "A reader that is idle in a transaction does not delay a load or other readers."
)
def test_a_reader_that_is_idle_in_a_transaction_delays_nobody(on_postgres):
    write_statistics(on_postgres.root, FIRST, {"a": 1})
    on_postgres.load()
    with on_postgres.engine.begin() as reader:
        for name in (*DATASETS, *views()):
            reader.exec_driver_sql(f"SELECT * FROM assistant.{name}")
        write_statistics(on_postgres.root, SECOND, {"a": 2})
        assert on_postgres.load(lock_timeout=1).partitions == 1
        assert values(on_postgres) == [1, 2]
        # After an upgrade, a view is replaced, for which the load waits.
        on_postgres.run("COMMENT ON VIEW assistant.latency_daily IS 'earlier'")
        with pytest.raises(AssistantWarehouseError, match=r"lock timeout.*unchanged"):
            on_postgres.load(lock_timeout=0.1)
    on_postgres.load()


@of_postgres
@pytest.mark.parametrize("change", ["drop", "rename"])
def test_a_column_that_was_changed_by_hand_is_named(change, on_postgres):
    write_statistics(on_postgres.root, FIRST, {"a": 1})
    on_postgres.load()
    on_postgres.run(
        {
            "drop": "ALTER TABLE assistant.statistics DROP COLUMN period CASCADE",
            "rename": "ALTER TABLE assistant.statistics RENAME COLUMN period TO time",
        }[change]
    )
    write_statistics(on_postgres.root, SECOND, {"a": 2})
    with pytest.raises(AssistantWarehouseError, match=r"assistant.statistics has no column 'period' any more"):
        on_postgres.load()
    # As the error says.
    on_postgres.run("DROP TABLE assistant.statistics", "DELETE FROM assistant.partitions WHERE dataset = 'statistics'")
    on_postgres.load()
    assert values(on_postgres) == [1, 2]


@of_postgres
def test_a_column_of_a_newer_version_is_added_with_its_values(on_postgres):
    write_statistics(on_postgres.root, FIRST, {"a": 1, "period": "2026"})
    on_postgres.load()
    on_postgres.run(
        "ALTER TABLE assistant.statistics DROP COLUMN period",
        "UPDATE assistant.partitions SET columns = replace(columns, ',period', '')",
    )
    assert on_postgres.load().partitions == 1
    assert {row["period"] for row in on_postgres.rows("statistics")} == {"2026"}


@of_postgres
def test_views_on_the_views_stay(on_postgres):
    write_statistics(on_postgres.root, FIRST, {"a": 1})
    on_postgres.load()
    on_postgres.run("CREATE VIEW assistant.mine AS SELECT date, good FROM assistant.feedback_daily")
    on_postgres.run("COMMENT ON VIEW assistant.feedback_daily IS 'earlier'")
    write_rows(on_postgres.root, "feedback", FIRST, [rating(FIRST, "good")])
    on_postgres.load()
    assert on_postgres.rows("mine") == [{"date": FIRST, "good": 1}]


@of_postgres
def test_both_drivers_copy(on_postgres, server):
    for driver in ("psycopg2", "psycopg"):
        write_statistics(on_postgres.root, FIRST, ODD | {"driver": driver})
        on_postgres.load(engine=sa.create_engine(server.url.replace("psycopg2", driver)))
        rows = {row["metric"]: row["text"] for row in on_postgres.rows("statistics")}
        assert (rows["driver"], rows["quoted"], rows["empty"]) == (driver, ODD["quoted"], "")


@of_postgres
def test_a_role_without_rights_is_told_what_lacks(on_postgres, server):
    write_statistics(on_postgres.root, FIRST, {"a": 1})
    on_postgres.run("DROP ROLE IF EXISTS loader", "CREATE ROLE loader LOGIN")
    mine = sa.create_engine(server.url.replace("airflow@", "loader@"))
    with pytest.raises(
        AssistantWarehouseError, match=r"permission denied for database.*administrator grant the rights"
    ):
        on_postgres.load(engine=mine)
    on_postgres.run("CREATE SCHEMA assistant", "GRANT USAGE, CREATE ON SCHEMA assistant TO loader")
    assert on_postgres.load(engine=mine).rows == {"statistics": 1}
    on_postgres.run("DROP SCHEMA assistant CASCADE", "DROP OWNED BY loader", "DROP ROLE loader")


@of_postgres
def test_an_unreachable_server_hides_its_password(on_postgres, server):
    write_statistics(on_postgres.root, FIRST, {"a": 1})
    away = sa.create_engine(server.url.replace("airflow@", "airflow:hunter2@").replace(f":{server.port}/", ":1/"))
    with pytest.raises(AssistantWarehouseError, match="refused") as error:
        on_postgres.load(engine=away)
    assert "hunter2" not in str(error.value)


def test_another_database_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_FILE", f"sqlite:///{tmp_path / 'file.db'}")
    with pytest.raises(AssistantInputError, match="connection 'file' must be one to PostgreSQL, not sqlite"):
        postgres.postgres_engine("file")
    assert not list(tmp_path.iterdir())


# -- DuckDB ----------------------------------------------------------------------------------------


def test_the_views_show_what_is_in_the_lake_now(on_duckdb):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    assert on_duckdb.load().rows == {"statistics": 1}
    written = on_duckdb.file.stat().st_mtime_ns
    write_statistics(on_duckdb.root, SECOND, {"a": 2})
    assert [row["value"] for row in on_duckdb.query("FROM assistant.statistics ORDER BY date")] == [1, 2]
    assert on_duckdb.load().rows == {"statistics": 2}
    assert on_duckdb.file.stat().st_mtime_ns == written, "the file is written only if a view changes"
    write_rows(on_duckdb.root, "feedback", FIRST, [rating(FIRST, "good")])
    assert on_duckdb.load().rows == {"statistics": 2, "feedback": 1}
    assert [row["good"] for row in on_duckdb.rows("feedback_daily")] == [1]


def test_a_folder_may_have_any_name(tmp_path, on_duckdb):
    on_duckdb.root = tmp_path / "site_id=other" / "date=2020-01-01" / "la[k]e 'of' *?"
    path = Path(write_statistics(on_duckdb.root, FIRST, {"a": 1}).path)
    no_day = path.parent.with_name("date=2026-02-30")
    no_day.mkdir()
    shutil.copy(path, no_day)
    assert on_duckdb.load().rows == {"statistics": 1}
    assert [(row["date"], row["site_id"]) for row in on_duckdb.rows("statistics")] == [(FIRST, "docs")]


@pytest.mark.promise("lake and warehouse", "A file that is not a DuckDB database is never overwritten.")
def test_files_that_are_not_a_warehouse_are_left_alone(on_duckdb, tmp_path):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    on_duckdb.load()
    whole = on_duckdb.file.read_bytes()
    contents = {
        "text": b"a,b\n" * 5000,
        "sqlite": b"SQLite format 3\0" + b"\1" * 4000,
        "truncated": whole[: len(whole) // 2],
        "changed": whole[:5000] + b"?" * 9000 + whole[14_000:],
    }
    for name, content in contents.items():
        on_duckdb.file = tmp_path / f"{name}.db"
        on_duckdb.file.write_bytes(content)
        with pytest.raises(AssistantWarehouseError, match=rf"{name}\.db.*are unchanged"):
            on_duckdb.load()
        assert on_duckdb.file.read_bytes() == content
    on_duckdb.file = tmp_path
    with pytest.raises(AssistantWarehouseError, match="are unchanged"):
        on_duckdb.load()


def test_a_folder_that_does_not_exist_is_not_created(on_duckdb, tmp_path):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    on_duckdb.file = tmp_path / "mistyped" / "warehouse.duckdb"
    with pytest.raises(AssistantInputError, match=r"mistyped.*does not exist .*Correct the path, or create the folder"):
        on_duckdb.load()
    assert not on_duckdb.file.exists()


HOLDS = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_another_process_that_has_the_file_open_is_waited_for(on_duckdb, monkeypatch):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    on_duckdb.load()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(on_duckdb.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        waits = []

        def sleep(seconds):
            waits.append(seconds)
            holder.communicate()

        monkeypatch.setattr(of_duckdb._open.retry, "sleep", sleep)
        assert on_duckdb.load().rows == {"statistics": 1}
        assert waits == [of_duckdb.PAUSE]


def test_another_process_that_keeps_the_file_open_is_an_error(on_duckdb, monkeypatch):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    on_duckdb.load()
    monkeypatch.setattr(of_duckdb._open.retry, "stop", tenacity.stop_after_attempt(1))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(on_duckdb.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AssistantWarehouseError, match=r"lock on file.*are unchanged"):
            on_duckdb.load()
        holder.communicate()


def test_without_duckdb_the_error_says_what_to_install(on_duckdb, monkeypatch):
    write_statistics(on_duckdb.root, FIRST, {"a": 1})
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[warehouse\]'"):
        on_duckdb.load()
    assert not on_duckdb.file.exists()
