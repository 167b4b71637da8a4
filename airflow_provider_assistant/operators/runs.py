"""What follows from the DAG run of a task: its day, and names of files that are unique to the task instance."""

from __future__ import annotations

import datetime
import logging

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.findings import findings_folder
from airflow_provider_assistant.storage.paths import StoragePath

log = logging.getLogger(__name__)


def day_of_run(date: str | None, context: Context) -> datetime.date:
    """
    Return the UTC day that a DAG run is for.

    :param date: An explicit day, ``YYYY-MM-DD``, or None for the day of the DAG run.
    :param context: Airflow's task context.
    :return: The day.
    """
    if date is None:
        # Runs that were started by hand or by an asset have no logical date.
        run = context["dag_run"]
        return (run.logical_date or run.run_after).astimezone(datetime.UTC).date()
    return datetime.date.fromisoformat(date)


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


def findings_file(run: RunRef) -> StoragePath:
    """
    Return the path of the findings of a task that has no ``findings_path``.

    :param run: The task instance.
    """
    name = f"{run.run_id}{instance_suffix(run)}.parquet".replace("/", "_")
    return findings_folder() / run.dag_id / run.task_id / name


def kept_rows_file(run: RunRef) -> StoragePath:
    """
    Return the path of the rows that a deferred load keeps: next to its findings, with a name that readers skip.

    :param run: The task instance.
    """
    findings = findings_file(run)
    return findings.parent / f".{findings.name}.rows.jsonl"


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
