"""What follows from the DAG run of a task: its day, and names of files that are unique to the task instance."""

from __future__ import annotations

import datetime
import logging
from typing import Any
from zoneinfo import ZoneInfo

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_assistant.exceptions import NOTHING_SENT, OWN_PATH, AssistantInputError
from airflow_provider_assistant.hooks.task_parameters import is_given_later
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.findings import findings_folder
from airflow_provider_assistant.names import file_name
from airflow_provider_assistant.storage.opening import StoragePath

log = logging.getLogger(__name__)


# For the offset of schedules without a zone, if the DAG has no start date.
NO_START = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


def zone_of_run(timezone: str | None, context: Context) -> datetime.tzinfo:
    """
    Return the zone in which the days of a DAG run begin at midnight.

    :param timezone: Name of an explicit zone, such as ``Europe/Berlin``, or None for the zone of the DAG's schedule.
    :param context: Airflow's task context.
    :return: The zone of the timetable. If it has none, as with assets or ``schedule=None``, the zone of the DAG. Fixed
        intervals, such as ``timedelta(days=1)``, ignore changes of clocks, so the offset is always that of the DAG's
        start date: otherwise two nights would be on one day.
    """
    if timezone is not None:
        return ZoneInfo(timezone)
    dag = context.get("dag")
    if dag is None:
        return datetime.UTC
    schedule = dag.timetable
    # A schedule of assets and times has a timetable, and one of several cron expressions has a list of them.
    schedule = getattr(schedule, "timetable", schedule)
    several = _attribute(schedule, "timetables")
    if several:
        schedule = several[0]
    zone: str | datetime.tzinfo = _attribute(schedule, "timezone") or dag.timezone
    if isinstance(zone, str):
        return ZoneInfo(zone)
    if _attribute(schedule, "delta") is not None:
        start = dag.start_date or NO_START
        offset = start.astimezone(zone).utcoffset() or datetime.timedelta()
        return datetime.timezone(offset)
    return zone


def _attribute(timetable: object, name: str) -> Any:
    """Return an attribute of a timetable, which is private in the classes of Airflow's scheduler; None without it."""
    return getattr(timetable, name, None) or getattr(timetable, f"_{name}", None)


def day_of_run(date: str | None, context: Context, timezone: str | None = None) -> datetime.date:
    """
    Return the day that a DAG run is for.

    :param date: An explicit day, ``YYYY-MM-DD``, or None for the day of the DAG run.
    :param context: Airflow's task context.
    :param timezone: Name of the zone of the day, see :func:`zone_of_run`.
    :return: The local day of the partition date, the logical date or, without both, the time when the run was due.
    """
    if date is not None:
        return datetime.date.fromisoformat(date)
    run = context["dag_run"]
    # Only runs of a partitioned schedule have a partition date. Runs that were started by hand or by an asset have no
    # logical date.
    moment = getattr(run, "partition_date", None) or run.logical_date or run.run_after
    local = moment.astimezone(zone_of_run(timezone, context))
    # Airflow's own type of dates counts differences in another way.
    return datetime.date(local.year, local.month, local.day)


def start_of_day(day: datetime.date, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the first moment of a day in a zone, in UTC. If midnight is skipped, the day begins after the gap."""
    return datetime.datetime.combine(day, datetime.time(), zone).astimezone(datetime.UTC)


def instance_suffix(run: RunRef) -> str:
    """
    Return a suffix for file names that is unique per instance of a task in one DAG run.

    :param run: The task instance.
    :return: ``.`` and the map index, ``.loop`` and the region, both, or an empty string.
    """
    suffix = ""
    if run.map_index >= 0:
        suffix = f".{run.map_index}"
    if run.region is not None:
        suffix += f".loop{run.region}"
    return suffix


def check_own_path(task: BaseOperator, context: Context, name: str) -> None:
    """
    Check that a mapped task does not give all its instances one file.

    :param name: Parameter with the path of a file that a task instance replaces.
    :raises AssistantInputError: The path is the same for all instances. Nothing was sent.
    """
    run = RunRef.of(context)
    is_single = run.map_index < 0 and run.region is None
    if is_single or getattr(task, name) is None or is_given_later(task, name):
        return
    dag = context.get("dag")
    mapped = dag.task_dict.get(task.task_id) if dag else None
    if name not in getattr(mapped, "partial_kwargs", {name}):
        # Each instance has its own.
        return
    raise AssistantInputError(
        f"task {task.task_id!r} is mapped, and {name} {str(getattr(task, name))!r} is the same for all its instances, "
        "so each would replace the file of the others",
        safe=NOTHING_SENT,
        todo=OWN_PATH.format(name=name),
        field=name,
    )


def findings_file(run: RunRef) -> StoragePath:
    """
    Return the path of the findings of a task that has no ``findings_path``.

    :param run: The task instance.
    """
    name = f"{run.run_id}{instance_suffix(run)}.parquet".replace("/", "_")
    return findings_folder() / file_name(run.dag_id) / file_name(run.task_id) / name


def warn_of_findings(listed: str | None, count: int | None = None) -> None:
    """
    Log a warning with the path of the findings, if there are any.

    :param listed: Path of the findings file, or None if there are no findings.
    :param count: Number of findings, or None if it is not known.
    """
    if not listed:
        return
    findings = f"{count} findings" if count else "Findings"
    log.warning("%s need attention. They are listed in %s.", findings, listed)
