"""Rows of the ledger as the pages show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import ColumnElement, and_, or_, select, tuple_

from airflow_provider_assistant.ledger.queries import AmbiguousEntry
from airflow_provider_assistant.ledger.resolution import allowed_outcomes
from airflow_provider_assistant.ledger.schema import COUNTS
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.operators.links import task_path
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.ids import STALE, SUPERSEDED, entry_id, outdated_id
from airflow_provider_assistant.ui.models import (
    ChatRequest,
    Counts,
    Entry,
    Load,
    LoadOutcome,
    Outdated,
    SettleOutcome,
    SourceState,
    Task,
)

# Outcomes of tries, those that need attention first.
_WORST: tuple[LoadOutcome, ...] = ("failed", "unfinished", "running", "deferred", "succeeded")
# Outcomes in the ledger, and the word for each in a settle request.
_SETTLE_OUTCOMES: dict[str, SettleOutcome] = {"created": "created", "failed": "not_created"}
# Columns that identify a task instance.
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
# Maximum number of failed task instances among which the last one of each source is searched.
MOST_FAILURES = 500
# The clocks of Airflow and of the ledger may differ.
_CLOCK_DIFFERENCE = timedelta(seconds=5)


def loads_of(rows: Sequence[Any], rights: Rights) -> list[Load]:
    """
    Return tries of loads.

    :param rows: Rows of the ledger's table of loads.
    """
    rows_without_end = [row for row in rows if row.outcome is None and row.dag_id in rights.dags]
    running_ids = _running_ids(rows_without_end)
    loads = []
    for row in rows:
        outcome = row.outcome
        if not outcome:
            outcome = "running" if row.load_id in running_ids else "unfinished"
        load = Load(
            load_id=row.load_id,
            started_at=row.started_at,
            ended_at=row.ended_at,
            outcome=outcome,
            site_id=row.site_id,
            endpoint=row.endpoint,
            source=row.source,
            counts=Counts(**{name: getattr(row, name) for name in COUNTS}),
            seconds=row.seconds,
            error=row.error,
            task=rights.task(row),
        )
        loads.append(load)
    return loads


def _running_ids(rows: Sequence[Any]) -> set[str]:
    """Return the ids of those tries without an end whose task instance is running."""
    if not rows:
        return set()
    with create_session() as session:
        query = select(*_airflow_columns(*_TASK_COLUMNS, "start_date"))
        query = query.where(TaskInstance.state == "running", _task_condition(rows))
        start_by_task = {_task_key(task): task.start_date for task in session.execute(query)}
    running_ids = set()
    for row in rows:
        start = start_by_task.get(_task_key(row))
        # A killed try of the same task instance started before the one that runs now.
        if start and row.started_at >= start - _CLOCK_DIFFERENCE:
            running_ids.add(row.load_id)
    return running_ids


def _task_key(row: Any) -> tuple[Any, ...]:
    """Return what identifies the task instance of a row, of the ledger's or of Airflow's."""
    return tuple(getattr(row, name) for name in _TASK_COLUMNS)


def _airflow_columns(*names: str) -> list[Any]:
    return [getattr(TaskInstance, name) for name in names]


def _task_condition(rows: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition that selects the task instances of rows of the ledger."""
    task_keys = {_task_key(row) for row in rows}
    return tuple_(*_airflow_columns(*_TASK_COLUMNS)).in_(task_keys)


def source_states(loads: Iterable[Load], sites: Mapping[str, Site], now: datetime) -> list[SourceState]:
    """
    Return the state of each source, those that need attention first.

    :param loads: The latest tries of each source and mapped task, latest start first.
    :param sites: Site by id of the try.
    """
    tries_by_source: dict[tuple[Site, str], list[Load]] = {}
    for load in loads:
        source = (sites[load.load_id], load.source)
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


def entry_row(entry: AmbiguousEntry, rights: Rights, now: datetime) -> Entry:
    """Return an ambiguous entry."""
    may_settle = not entry.may_be_under_way and rights.may_settle(entry.run.dag_id)
    return Entry(
        id=entry_id(entry),
        kind=entry.kind,
        site_id=entry.site_id,
        source=entry.source,
        label=entry.label,
        outcome=entry.outcome,
        attempts=entry.attempts,
        error=entry.error,
        claimed_at=entry.claimed_at,
        age_seconds=_age(entry.claimed_at, now),
        may_be_under_way=entry.may_be_under_way,
        may_settle=may_settle,
        outcomes=[_SETTLE_OUTCOMES[outcome] for outcome in allowed_outcomes(entry)],
        task=rights.task(entry.run),
    )


def outdated_row(kind: str, row: Any, rights: Rights) -> Outdated:
    """
    Return a key with outdated documents.

    :param kind: ``superseded`` or ``stale``.
    :param row: Row of the ledger's table of documents.
    """
    return Outdated(
        id=outdated_id(kind, row),
        site_id=row.site_id,
        source=row.source,
        label=row.label,
        document_ids=outdated_document_ids(kind, row),
        stale_at=row.stale_at if kind == STALE else None,
        may_settle=rights.may_settle(row.dag_id),
        task=rights.task(row),
    )


def request_row(row: Any, rights: Rights, now: datetime) -> ChatRequest:
    """
    Return an open chat request.

    :param row: Row of the ledger.
    """
    return ChatRequest(
        request_id=row.request_id,
        site_id=row.site_id,
        submitted_at=row.claimed_at,
        age_seconds=_age(row.claimed_at, now),
        is_batch=row.batch is not None,
        task=rights.task(row),
    )


def _age(moment: datetime, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds())


def outdated_document_ids(kind: str, row: Any) -> list[str]:
    """
    Return the ids of an entry's outdated documents, without those whose ids the service did not return.

    :param kind: ``superseded`` or ``stale``.
    """
    if kind == SUPERSEDED:
        ids: list[str] = json.loads(row.superseded)
        return ids
    if row.document_id is None:
        return []
    return [row.document_id]
