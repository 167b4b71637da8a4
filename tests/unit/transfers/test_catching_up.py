"""After pauses, changes of clocks and pruning, each rating is in the lake once, and what is missing is counted."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.settle import prune
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    MOST_DAYS,
    AssistantFeedbackToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from tests.ledgers import Filler
from tests.task_runs.context import execute_operator

DAY = timedelta(days=1)
NIGHT = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture
def record(ledger_home):
    """Add ratings or chat requests to the ledger, by their numbers and times."""
    with Ledger.open() as ledger:
        filler = Filler(ledger.engine)

        def recorded(kind, *entries):
            for number, moment in entries:
                details = {"session_id": "s", "mode": "async" if kind == "chat" else None, "rating": "good"}
                filler.attempt(f"r{number}", "created", kind=kind, at=moment, remote_id=f"r{number}", details=details)

        yield recorded


def export(folder, moment, kind=AssistantFeedbackToParquetOperator, dag=None, **arguments):
    operator = kind(task_id="export", output_path=str(folder), **arguments)
    return execute_operator(operator, moment=moment, dag=dag)


def exported(folder, dataset="feedback"):
    """Return the requests in the lake, with the days of their partitions."""
    table = ds.dataset(folder / dataset, partitioning="hive").to_table(["request_id", "date"])
    return sorted((row["request_id"], row["date"]) for row in table.to_pylist())


# The clocks change in these weeks: in London, Berlin, St. John's, Santiago, Sydney and on Lord Howe.
WEEKS = (
    (date(2024, 3, 9), date(2024, 3, 12)),
    (date(2024, 3, 29), date(2024, 4, 9)),
    (date(2024, 9, 6), date(2024, 9, 10)),
    (date(2024, 10, 4), date(2024, 10, 8)),
    (date(2024, 10, 25), date(2024, 11, 5)),
)
SLOW_ZONES = ("Australia/Lord_Howe", "Pacific/Apia")


@pytest.mark.promise(
    "lake and warehouse",
    "Each rating is in the lake once, after pauses of the DAG and changes of the clock.",
)
@pytest.mark.parametrize(
    "zone",
    ["Europe/London", *(pytest.param(zone, marks=pytest.mark.nightly) for zone in SLOW_ZONES)],
)
def test_each_rating_of_many_nights_is_in_the_lake_once(zone, record, tmp_path):
    random_numbers = random.Random(zone)
    tz = ZoneInfo(zone)
    dag = DAG("nightly", schedule="@daily", start_date=datetime(2024, 1, 1, tzinfo=tz))
    number = 0
    expected = []
    for first, last in WEEKS:
        night = datetime.combine(first, datetime.min.time(), tz)
        while night.date() < last:
            export(tmp_path / str(first), night.astimezone(UTC), dag=dag)
            # A pause of some days now and then.
            next_day = night.date() + DAY * random_numbers.choice((1, 1, 1, 1, 9))
            following = datetime.combine(next_day, datetime.min.time(), tz)
            began, ends = night.astimezone(UTC), following.astimezone(UTC)
            moments = [began, ends - timedelta(microseconds=1)]
            moments += [began + (ends - began) * random_numbers.random() for _ in range(8)]
            # Hours around the changes of clocks and midnights.
            moments += [began + timedelta(hours=hours) for hours in (1, 2, 3, 22.6)]
            for moment in moments:
                number += 1
                expected.append((f"r{number}", moment.astimezone(tz).date().isoformat()))
            start = number - len(moments) + 1
            record("rating", *((start + index, moment) for index, moment in enumerate(moments)))
            night = following
        # What the last night has not written.
        export(tmp_path / str(first), night.astimezone(UTC), dag=dag)
    found = [row for first, _ in WEEKS for row in exported(tmp_path / str(first))]
    assert sorted(found) == sorted(expected)


def test_a_pause_is_caught_up_and_a_backfill_is_not(record, tmp_path):
    record("rating", *((number, NIGHT + DAY * number + timedelta(hours=1)) for number in range(40)))

    def days(moment, **arguments):
        result = export(tmp_path, moment, **arguments)
        return [path.rpartition("date=")[2][5:10] for path in result["paths"]]

    assert days(NIGHT + DAY) == ["05-01", "05-02"]
    assert days(NIGHT + DAY * 2) == ["05-02", "05-03"]
    # A day that was asked for, within the pause.
    assert days(None, date="2024-05-08", days=1) == ["05-08"]
    caught_up = [f"05-{day:02}" for day in range(3, 13)]
    assert days(NIGHT + DAY * 11) == caught_up
    # The same run again, an earlier one, and the next one.
    assert days(NIGHT + DAY * 11) == ["05-11", "05-12"]
    assert days(NIGHT + DAY * 5) == ["05-05", "05-06"]
    assert days(NIGHT + DAY * 12) == ["05-12", "05-13"]
    # With more days, the last ones may have changed after the pause began.
    assert days(NIGHT + DAY * 15, days=4) == [f"05-{day:02}" for day in range(11, 17)]


def test_a_run_writes_a_bounded_number_of_days(record, tmp_path, capsys):
    def days(moment, **arguments):
        return export(tmp_path, moment, **arguments)["paths"]

    days(NIGHT)
    # A file of long ago is not a gap of years.
    assert len(days(None, date="2010-01-01", days=1)) == 1
    assert len(days(NIGHT + DAY * 1000)) == MOST_DAYS
    assert "The last file of feedback is of 2024-05-01. To write the days before 2025-12-23" in capsys.readouterr().out
    assert len(days(NIGHT + DAY * 1001)) == 2
    assert len(days(None, date="2024-01-01", days=500)) == 500


@pytest.mark.promise("lake and warehouse", "Pruning the ledger does not change days that were exported.")
def test_pruning_does_not_change_what_was_exported(record, tmp_path, capsys):
    record("chat", *((number, NIGHT + DAY * number + timedelta(hours=1)) for number in range(10)))
    record("chat", ("late", NIGHT + DAY * 5 + timedelta(seconds=1)))
    kind = AssistantRequestsToParquetOperator
    arguments = {"kind": kind, "dag": None, "date": "2024-05-10", "days": 8}
    export(tmp_path, None, **arguments)
    before = exported(tmp_path, "requests")
    assert len(before) == 9
    with Ledger.open() as ledger:
        assert prune(ledger, NIGHT + DAY * 5, dry_run=True)["chat"] == 5
        assert export(tmp_path, None, **arguments)["kept"] == 0
        for day in (5, 4):
            prune(ledger, NIGHT + DAY * day)
    result = export(tmp_path, None, **{**arguments, "days": 10})
    assert exported(tmp_path, "requests") == before
    assert (result["kept"], result["gaps"], result["gap_days"]) == (3, 2, ["2024-05-01", "2024-05-02"])
    assert len(result["paths"]) == 5
    logged = capsys.readouterr().out
    assert (
        "5 days (2024-05-03, 2024-05-04, 2024-05-05, 2024-05-01, 2024-05-02) have been pruned, so the files" in logged
    )
    # The day during which the ledger was pruned.
    with Ledger.open() as ledger:
        prune(ledger, NIGHT + DAY * 7 + timedelta(hours=12))
    result = export(tmp_path, NIGHT + DAY * 7, kind)
    assert (result["rows"], result["path"], result["paths"], result["kept"]) == (0, None, [], 2)
    assert exported(tmp_path, "requests") == before
