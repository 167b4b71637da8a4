"""AssistantParquetToWarehouseOperator: its arguments, results and errors."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

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
        arguments = {"output_path": str(root), "database": str(database), **arguments}
        return run(AssistantParquetToWarehouseOperator, **arguments)

    return loaded


def count(database, what="statistics"):
    with duckdb.connect(database, read_only=True) as connection:
        return connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]


def test_what_was_loaded_is_told(load, root, database, tmp_path):
    write_rows(root, "feedback", SECOND, [rating(SECOND, "good")])
    expected = {
        "rows": 5,
        "datasets": {"statistics": 4, "feedback": 1},
        "partitions": 3,
        "unchanged": 0,
        "replaced": 0,
        "kept": 0,
        "missing": 0,
        "date": SECOND.isoformat(),
        "views": [f"assistant.{view}" for view in warehouse.VIEWS],
        "views_behind": 0,
    }
    assert load().xcom() == expected
    # The lake forgets a day, and another one changes.
    (root / "statistics" / f"date={FIRST}").rename(tmp_path / "elsewhere")
    write_statistics(root, SECOND, capture(SECOND, {"a": 1}))
    expected |= {"rows": 1, "datasets": {"statistics": 1, "feedback": 0}, "partitions": 1, "unchanged": 1}
    assert load().xcom() == expected | {"replaced": 2, "kept": 1}
    assert count(database, "assistant.statistics") == 3


def test_given_days_are_loaded_again(load, capsys):
    load()
    run = load(date=SECOND.isoformat(), days=3)
    assert [run.xcom()[name] for name in ("rows", "replaced", "missing")] == [4, 4, 1]
    message = f"does not have these days; what the warehouse has of them stays: statistics/date={FIRST - timedelta(1)}."
    assert message in capsys.readouterr().out
    assert load(date=FIRST.isoformat()).xcom()["rows"] == 2


def test_another_schema(load, database):
    assert load(schema="nightly").xcom()["views"][0] == "nightly.statistics_daily"
    assert count(database, "nightly.statistics_daily") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "set either database.*or conn_id"),
        ({"database": "a", "conn_id": "b"}, "set either database.*or conn_id"),
        ({"database": "a", "days": 2}, "days needs date"),
        ({"database": "a", "days": 0}, "days must be a whole number from 1"),
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
        ({"datasets": ["statistics", "questions"]}, "datasets must be a list of some of statistics, .*'questions'"),
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
