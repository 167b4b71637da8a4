"""Each night of a daily schedule has a different day, and each moment is in exactly one day."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import airflow.sdk
import pendulum
import pytest
from airflow.sdk import DAG, Asset
from airflow.timetables import assets, interval, trigger
from airflow.timetables.base import TimeRestriction

from airflow_provider_assistant.operators.runs import day_of_run, start_of_day, zone_of_run
from airflow_provider_assistant.parameters import timezone
from tests.task_runs.context import task_context

ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "Asia/Beirut", "Australia/Lord_Howe", "Pacific/Apia")
DAY = timedelta(days=1)


def of_dag(module, name):
    """Return the class of a timetable for DAG files; before Airflow 3.2, these had those of the scheduler."""
    return getattr(airflow.sdk, name, getattr(module, name))


def nights(timetable, start):
    """Return the logical dates of the runs of a year, as Airflow's scheduler computes them."""
    restriction = TimeRestriction(pendulum.instance(start), None, catchup=True)
    dates = []
    interval = None
    while not dates or dates[-1] < start + 365 * DAY:
        info = timetable.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
        interval = info.data_interval
        dates.append(info.logical_date)
    return dates


def days_of(dag, dates):
    return [day_of_run(None, task_context(dag=dag, moment=moment)) for moment in dates]


def are_consecutive(days):
    return all(later - earlier == DAY for earlier, later in itertools.pairwise(days))


def check_nights(zone, cron, name, module):
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))
    scheduled = getattr(module, name)(cron, timezone=pendulum.timezone(zone))
    dates = nights(scheduled, start)
    for schedule in (scheduled, of_dag(module, name)(cron, timezone=pendulum.timezone(zone))):
        days = days_of(DAG("d", schedule=schedule), dates)
        assert are_consecutive(days), (cron, schedule)
        assert days[0] == start.date()


@pytest.mark.promise(
    "lake and warehouse", "Each night of a daily schedule exports a different day, in every time zone."
)
def test_each_night_of_a_year_has_its_own_day():
    for zone in ("Europe/London", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"):
        check_nights(zone, "@daily", "CronTriggerTimetable", trigger)
    check_nights("Europe/Berlin", "0 1 * * *", "CronDataIntervalTimetable", interval)


def test_nights_of_a_fixed_interval_have_their_own_days():
    kinds = [of_dag(interval, "DeltaDataIntervalTimetable"), interval.DeltaDataIntervalTimetable]
    for zone, month in itertools.product(ZONES, (1, 7)):
        start = datetime(2026, month, 1, tzinfo=ZoneInfo(zone))
        dates = [start.astimezone(UTC) + number * DAY for number in range(365)]
        for schedule in (DAY, *(kind(DAY) for kind in kinds)):
            days = days_of(DAG("d", schedule=schedule, start_date=start), dates)
            assert are_consecutive(days)
            assert days[0] == start.date()


def test_each_moment_is_in_exactly_one_day():
    random_numbers = random.Random(3)
    for name in ZONES:
        zone = ZoneInfo(name)
        days = [date(2026, 1, 1) + number * DAY for number in range(800)]
        starts = [start_of_day(day, zone) for day in days]
        lengths = [later - earlier for earlier, later in itertools.pairwise(starts)]
        assert {length.total_seconds() / 3600 for length in lengths} <= {22, 23, 23.5, 24, 24.5, 25, 26}
        for day, (start, end) in zip(days, itertools.pairwise(starts), strict=False):
            moments = [start, end - timedelta(microseconds=1), start + (end - start) * random_numbers.random()]
            assert {moment.astimezone(zone).date() for moment in moments} == {day}


def test_the_zone_is_that_of_the_schedule_then_of_the_dag():
    tokyo = datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    cron = of_dag(trigger, "CronTriggerTimetable")("@daily", timezone="America/Lima")
    several = of_dag(trigger, "MultipleCronTriggerTimetable")("@daily", "30 2 * * *", timezone="America/Lima")
    with_assets = of_dag(assets, "AssetOrTimeSchedule")(timetable=cron, assets=[Asset("a")])
    for schedule, zone in (
        (cron, "America/Lima"),
        (several, "America/Lima"),
        (with_assets, "America/Lima"),
        *((schedule, "Asia/Tokyo") for schedule in (None, "@once", "@daily", Asset("a"), [Asset("a")])),
    ):
        dag = DAG("d", schedule=schedule, start_date=tokyo)
        assert str(zone_of_run(None, task_context(dag=dag))) == zone, schedule
        assert str(zone_of_run("Europe/Paris", task_context(dag=dag))) == "Europe/Paris"


def test_the_day_of_runs_without_a_logical_date():
    dag = DAG("d", schedule=of_dag(trigger, "CronTriggerTimetable")("@daily", timezone="Asia/Tokyo"))
    late = datetime(2026, 11, 20, 16, tzinfo=UTC)
    for run, day in (
        (SimpleNamespace(logical_date=None, run_after=late), "2026-11-21"),
        (SimpleNamespace(logical_date=late - DAY, run_after=late), "2026-11-20"),
        (SimpleNamespace(logical_date=None, run_after=late, partition_date=late - 2 * DAY), "2026-11-19"),
    ):
        context = {**task_context(dag=dag), "dag_run": run}
        assert day_of_run(None, context).isoformat() == day
        assert day_of_run("2020-02-29", context) == date(2020, 2, 29)


@pytest.mark.parametrize("name", ["Europe/berlin", "Europe", "../UTC", "+05:30", "\0", "a" * 300])
def test_a_wrong_name_of_a_zone_is_refused(name):
    with pytest.raises(ValueError, match="must be the name of a time zone"):
        timezone(name)
