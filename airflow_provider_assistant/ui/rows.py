"""Rows of the ledger as the pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import and_, or_, select, tuple_

from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.operators.links import task_path
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.ids import id_of
from airflow_provider_assistant.ui.models import (
    Counts,
    Entry,
    ListName,
    Load,
    LoadOutcome,
    SourceState,
    Task,
)

# Outcomes of tries, those that need attention first.
_WORST: tuple[LoadOutcome, ...] = (
    "failed",
    "unfinished",
    "succeeded with findings",
    "running",
    "deferred",
    "succeeded",
)
# What the entries of a list can be settled as.
_OUTCOMES: Mapping[ListName, list[Settled]] = {
    "unresolved": ["created", "not-created"],
    "doubled": ["not-created", "removed"],
    "superseded": ["removed"],
    "stale": ["removed"],
    "draft": ["removed"],
    "open": [],
}
# Columns that identify a task instance.
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
# Maximum number of failed task instances among which the last one of each source is searched.
MOST_FAILURES = 500
# The clocks of Airflow and of the ledger may differ.
_CLOCK_DIFFERENCE = timedelta(seconds=5)


def loads_of(rows: Sequence[Mapping[str, Any]], rights: Rights) -> list[Load]:
    """
    Return tries of loads.

    :param rows: Tries of the ledger.
    """
    rows_without_end = [row for row in rows if row["ended_at"] is None and row["dag_id"] in rights.dags]
    running = _running_tokens(rows_without_end)
    names = ("token", "started_at", "ended_at", "site_id", "kind", "source", "seconds", "error")
    return [
        Load(
            **{name: row[name] for name in names},
            outcome="running" if row["token"] in running else row["outcome"],
            counts=Counts(**(row["counts"] or {})),
            task=rights.task(row),
        )
        for row in rows
    ]


def _running_tokens(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return those tries without an end whose task instance is running."""
    if not rows:
        return set()
    with create_session() as session:
        query = select(*_airflow_columns(*_TASK_COLUMNS, "start_date"))
        is_task = tuple_(*_airflow_columns(*_TASK_COLUMNS)).in_({_task_key(row) for row in rows})
        found = session.execute(query.where(TaskInstance.state == "running", is_task)).mappings()
        start_by_task = {_task_key(task): task["start_date"] for task in found}
    running = set()
    for row in rows:
        start = start_by_task.get(_task_key(row))
        # A killed try of the same task instance started before the one that runs now.
        if start and row["started_at"] >= start - _CLOCK_DIFFERENCE:
            running.add(row["token"])
    return running


def _task_key(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return what identifies the task instance of a row, of the ledger's or of Airflow's."""
    return tuple(row[name] for name in _TASK_COLUMNS)


def _airflow_columns(*names: str) -> list[Any]:
    return [getattr(TaskInstance, name) for name in names]


def source_states(rows: Sequence[Mapping[str, Any]], rights: Rights, now: datetime) -> list[SourceState]:
    """
    Return the state of each source, those that need attention first.

    :param rows: The latest tries of each source and mapped task, latest start first.
    """
    tries_by_source: dict[tuple[str, str, str], list[Load]] = {}
    for row, load in zip(rows, loads_of(rows, rights), strict=True):
        source = (row["service"], row["site_id"], row["source"])
        tries_by_source.setdefault(source, []).append(load)
    states = [SourceState(load=_worst(tries), due=_is_due(tries, now)) for tries in tries_by_source.values()]
    return sorted(states, key=_attention_order)


def _attention_order(state: SourceState) -> tuple[int, bool, str]:
    """Return the sort key of a state: the worst outcome comes first, then overdue sources."""
    return _WORST.index(state.load.outcome), not state.due, state.load.source


def add_failures(states: Sequence[SourceState], rights: Rights) -> None:
    """Set ``failed_since`` of the states: the last failure after the load that they show."""
    tasks = {(state.load.task.dag_id, state.load.task.task_id) for state in states}
    task_conditions = []
    for dag_id, task_id in tasks:
        if dag_id in rights.dags:
            is_task = and_(TaskInstance.dag_id == dag_id, TaskInstance.task_id == task_id)
            task_conditions.append(is_task)
    if not task_conditions:
        return
    earliest_start = min(state.load.started_at for state in states)
    query = (
        select(*_airflow_columns(*_TASK_COLUMNS, "end_date"))
        .where(
            or_(*task_conditions),
            TaskInstance.state.in_(("failed", "upstream_failed")),
            TaskInstance.end_date > earliest_start,
        )
        .order_by(TaskInstance.end_date.desc())
        .limit(MOST_FAILURES)
    )
    with create_session() as session:
        latest_failures = session.execute(query).all()
    for state in states:
        for failure in latest_failures:
            if _has_failed_since(state.load, failure):
                key = {name: getattr(failure, name) for name in _TASK_COLUMNS}
                state.failed_since = Task(**key, path=task_path(**key))
                break


def _has_failed_since(load: Load, failure: Any) -> bool:
    """Return whether a failed task instance is a later run of the task of a load."""
    task = load.task
    is_same_task = (failure.dag_id, failure.task_id) == (task.dag_id, task.task_id)
    is_other_run: bool = failure.run_id != task.run_id
    return is_same_task and is_other_run and failure.end_date > load.started_at


def _worst(tries: Sequence[Load]) -> Load:
    """Return the worst of the latest tries of the mapped tasks of the latest run."""
    latest_run_id = tries[0].task.run_id
    latest_tries: dict[tuple[Any, ...], Load] = {}
    for load in tries:
        task = load.task
        if task.run_id == latest_run_id:
            # Earlier tries of the same mapped task follow its latest one: they do not count.
            latest_tries.setdefault((task.task_id, task.map_index, task.region), load)
    return min(latest_tries.values(), key=lambda load: _WORST.index(load.outcome))


def _is_due(tries: Sequence[Load], now: datetime) -> bool:
    """
    Return whether the next run is late: the last one is twice as long ago as the longest gap between runs.

    :param tries: Latest start first.
    """
    start_by_run: dict[str | None, datetime] = {}
    for load in tries:
        # The earliest start of each run is kept, because it comes last: a retry starts later.
        start_by_run[load.task.run_id] = load.started_at
    starts = list(start_by_run.values())
    gaps = [later - earlier for later, earlier in pairwise(starts)]
    # One gap says nothing about the schedule.
    if len(gaps) < 2:
        return False
    return now - starts[0] > 2 * max(gaps)


def entry_row(which: ListName, row: Mapping[str, Any], rights: Rights, now: datetime) -> Entry:
    """
    Return an entry of a list.

    :param row: Attempt of the ledger.
    """
    names = ("kind", "site_id", "source", "label", "state", "requests", "error", "status", "claimed_at", "gone_at")
    outcomes = _OUTCOMES[which]
    if row["kind"] == "chat":
        # A chat request that was created needs its id, which only the command line takes.
        outcomes = [outcome for outcome in outcomes if outcome == "not-created"]
    elif row["kind"] == "rating":
        outcomes = [outcome for outcome in outcomes if outcome != "removed"]
    may_settle = bool(outcomes) and not row["is_alive"] and rights.may_settle(row["dag_id"])
    return Entry(
        **{name: row[name] for name in names},
        id=id_of(row),
        document_id=row["remote_id"],
        age_seconds=max(0.0, (now - row["claimed_at"]).total_seconds()),
        is_alive=row["is_alive"],
        is_batch=row["kind"] == "chat" and row["namespace"] is not None,
        may_settle=may_settle,
        outcomes=outcomes,
        task=rights.task(row),
    )
