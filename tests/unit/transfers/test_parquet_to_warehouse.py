"""AssistantParquetToWarehouseOperator: its arguments, results and errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from airflow.sdk import Asset
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake import warehouse
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from tests.unit.lake.nights import FIRST, capture, rating, write_rows, write_statistics

SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "lake"
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1, "b": 2}))
    return root


@pytest.fixture
def database(tmp_path):
    return tmp_path / "warehouse.duckdb"


@pytest.fixture
def load(run_operator, root, database):
    def loaded(run=run_operator, **arguments):
        arguments = {"output_path": str(root), "database": str(database), "date": SECOND.isoformat(), **arguments}
        return run(AssistantParquetToWarehouseOperator, **arguments)

    return loaded


def count(database, what="statistics"):
    with duckdb.connect(database, read_only=True) as connection:
        return connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]


def test_what_was_loaded_is_told(load, root, database):
    write_rows(root, "feedback", SECOND, [rating(SECOND, "good")])
    for replaced in (0, 5):
        assert load().xcom() == {
            "rows": 5,
            "datasets": {"statistics": 4, "feedback": 1},
            "replaced": replaced,
            "missing": 1,
            "views": [f"assistant.{view}" for view in warehouse.VIEWS],
            "date": SECOND.isoformat(),
        }
    assert count(database, "assistant.statistics") == 4


def test_missing_partitions_are_named_in_the_log(load, capsys):
    load(days=3)
    assert f"has no rows for them: statistics/date={FIRST - timedelta(days=1)}." in capsys.readouterr().out


@pytest.mark.parametrize(("days", "rows"), [(1, 2), (2, 4), (3, 4)])
def test_days(days, rows, load):
    assert load(days=days).xcom()["rows"] == rows


def test_the_day_is_that_of_the_run(load):
    run = load(date=None, days=1, run_options={"logical_date": datetime(2026, 11, 14, 23, 59, 59, tzinfo=UTC)})
    assert run.xcom()["date"] == FIRST.isoformat()
    assert run.xcom()["rows"] == 2


def test_only_the_datasets_that_were_asked_for(load, root):
    write_rows(root, "feedback", SECOND, [rating(SECOND, "good")])
    assert load(datasets=["feedback", "feedback"], days=1).xcom()["datasets"] == {"feedback": 1}


def test_another_schema(load, database):
    assert load(schema="nightly").xcom()["views"][0] == "nightly.statistics_daily"
    assert count(database, "nightly.statistics_daily") == 2


def test_a_url_of_files(load, root):
    assert load(output_path=root.as_uri()).xcom()["rows"] == 4


def test_the_asset_event_has_the_result(load, run_stored):
    from airflow.models.asset import AssetEvent

    asset = Asset("test_warehouse")
    run = load(run_stored, outlets=[asset])
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all()
    assert [event.extra for event in events if event.source_dag_id == run.dag_id] == [run.xcom()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "set either database.*or conn_id"),
        ({"database": "a", "conn_id": "b"}, "set either database.*or conn_id"),
        ({"database": "a", "days": 0}, "days must be a whole number, at least 1"),
        ({"database": "a", "schema": 'x"; DROP'}, "schema must be a plain SQL name"),
    ],
)
def test_arguments_that_cannot_be(arguments, message):
    with pytest.raises(AssistantInputError, match=message):
        AssistantParquetToWarehouseOperator(task_id="task", output_path="lake", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"date": "{{ 'yesterday' }}"}, "date must be YYYY-MM-DD"),
        ({"datasets": ["statistics", "answers"]}, "datasets must be a list of some of statistics, .*'answers'"),
        ({"datasets": []}, "datasets must be a list"),
        ({"datasets": "{{ 'statistics' }}"}, "datasets must be a list"),
        ({"datasets": ["limits"]}, "has no limits. Nothing was changed"),
        ({"output_path": "/nowhere"}, "has none of the datasets"),
        ({"database": "s3://bucket/file"}, "database must be the path of a file"),
        ({"database": "{{ '' }}"}, "database is empty"),
        ({"database": "Assistant.v1.duckdb"}, "have the same name"),
    ],
)
def test_bad_input_is_refused_before_anything_is_changed(arguments, message, load, database):
    run = load(**arguments)
    assert isinstance(run.error, AssistantInputError)
    assert run.error.args
    with pytest.raises(AssistantInputError, match=message):
        raise run.error
    assert not database.exists()
