"""AssistantParquetToWarehouseOperator: its arguments, results and errors."""
# ruff: noqa: F811 (fixtures)

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake.warehouse import views
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from tests.unit.lake.conftest import engine, server  # noqa: F401 (fixtures)
from tests.unit.lake.nights import FIRST, rating, write_rows, write_statistics

SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "lake"
    for day in (FIRST, SECOND):
        write_statistics(root, day, {"a": 1, "b": 2})
    return root


@pytest.fixture
def database(tmp_path):
    return tmp_path / "warehouse.duckdb"


@pytest.fixture
def load(run_operator, root, database):
    def loaded(run=run_operator, **arguments):
        arguments = {"output_path": str(root), "database": str(database), **arguments}
        return run(AssistantParquetToWarehouseOperator, **arguments)

    return loaded


def count(database, what="statistics"):
    with duckdb.connect(database, read_only=True) as connection:
        return connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]


def test_what_was_loaded_is_told(load, root, database):
    write_rows(root, "feedback", SECOND, [rating(SECOND, "good")])
    assert load().xcom() == {
        "rows": 5,
        "datasets": {"statistics": 4, "feedback": 1},
        "partitions": 3,
        "unchanged": 0,
        "replaced": 0,
        "kept": 0,
        "date": SECOND.isoformat(),
        "views": [f"assistant.{view}" for view in views()],
    }
    assert count(database, "assistant.statistics") == 4


@pytest.mark.system
def test_the_operator_loads_through_an_airflow_connection(server, engine, root, load, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", server.airflow_url)
    found = load(database=None, conn_id="{{ 'warehouse' }}").xcom()
    assert (found["datasets"], found["partitions"], found["unchanged"]) == ({"statistics": 4}, 2, 0)
    found = load(database=None, conn_id="warehouse").xcom()
    assert (found["datasets"], found["partitions"], found["unchanged"]) == ({"statistics": 0}, 0, 2)


def test_another_schema(load, database):
    assert load(schema="nightly").xcom()["views"][0] == "nightly.answers_weekly"
    assert count(database, "nightly.statistics") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "set either database.*or conn_id"),
        ({"database": "a", "conn_id": "b"}, "set either database.*or conn_id"),
        ({"database": "a", "schema": 'x"; DROP'}, "schema must be a plain SQL name"),
    ],
)
def test_arguments_that_cannot_be(arguments, message):
    with pytest.raises(AssistantInputError, match=message):
        AssistantParquetToWarehouseOperator(task_id="task", output_path="lake", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"datasets": ["statistics", "questions"]}, "has no files of questions"),
        ({"datasets": []}, "has no files of any dataset"),
        ({"datasets": "{{ 'statistics' }}"}, "datasets must be a list"),
        ({"datasets": ["limits"]}, "has no files of limits. Nothing was changed"),
        ({"output_path": "/nowhere"}, "has no files of statistics, limits"),
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
