"""Rows of the ledger as the pages show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import ColumnElement, and_, or_, select, tuple_

from airflow_provider_assistant.ledger.queries import AmbiguousEntry
from airflow_provider_assistant.ledger.resolution import allowed_outcomes
from airflow_provider_assistant.ledger.schema import COUNTS
from airflow_provider_assistant.operators.links import task_path
from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.ids import entry_id, superseded_id
from airflow_provider_assistant.ui.models import (
    ChatRequest,
    Counts,
    Entry,
    Load,
    LoadOutcome,
    SettleOutcome,
    SourceState,
    Superseded,
    Task,
)

# Outcomes of tries, those that need attention first.
_WORST: tuple[LoadOutcome, ...] = ("failed", "unfinished", "running", "deferred", "succeeded")
_SETTLED: dict[str, SettleOutcome] = {"created": "created", "failed": "not_created"}
# Columns that identify a task instance.
_INSTANCE = ("dag_id", "run_id", "task_id", "map_index")
# Maximum number of failed task instances among which the last one of each source is searched.
MOST_FAILURES = 500
# The clocks of Airflow and of the ledger may differ.
_SKEW = timedelta(seconds=5)


def loads_of(rows: Sequence[Any], rights: Rights) -> list[Load]:
    """
    Return tries of loads.

    :param rows: Rows of the ledger's table of loads.
    """
    running = _running([row for row in rows if row.outcome is None and row.dag_id in rights.dags])
    return [
        Load(
            **{name: getattr(row, name) for name in ("load_id", "started_at", "ended_at", "site_id", "endpoint")},
            outcome=row.outcome or ("running" if row.load_id in running else "unfinished"),
            source=row.source,
            counts=Counts(**{name: getattr(row, name) for name in COUNTS}),
            seconds=row.seconds,
            error=row.error,
            task=rights.task(row),
        )
        for row in rows
    ]


def _running(rows: Sequence[Any]) -> set[str]:
    """Return the ids of those tries without an end whose task instance is running."""
    if not rows:
        return set()
    with create_session() as session:
        query = select(*_columns(*_INSTANCE, "start_date"))
        query = query.where(TaskInstance.state == "running", _is_one_of(rows))
        starts = {_instance(task): task.start_date for task in session.execute(query)}
    running = set()
    for row in rows:
        start = starts.get(_instance(row))
        # A killed try of the same task instance started before the one that runs now.
        if start and row.started_at >= start - _SKEW:
            running.add(row.load_id)
    return running


def _instance(row: Any) -> tuple[Any, ...]:
    """Return what identifies the task instance of a row, of the ledger's or of Airflow's."""
    return tuple(getattr(row, name) for name in _INSTANCE)


def _columns(*names: str) -> list[Any]:
    return [getattr(TaskInstance, name) for name in names]


def _is_one_of(rows: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition for the task instances of these rows."""
    instances = {_instance(row) for row in rows}
    return tuple_(*_columns(*_INSTANCE)).in_(instances)


def source_states(loads: Iterable[Load], urls: dict[str, str], now: datetime) -> list[SourceState]:
    """
    Return the state of each source, those that need attention first.

    :param loads: The latest tries of each source and mapped task, latest start first.
    :param urls: URL of the site by id of the try: sites of two services may have the same id.
    """
    tries: dict[tuple[str, str], list[Load]] = {}
    for load in loads:
        tries.setdefault((urls[load.load_id], load.source), []).append(load)
    states = [SourceState(load=_worst(found), due=_is_due(found, now)) for found in tries.values()]
    return sorted(states, key=lambda state: (_WORST.index(state.load.outcome), not state.due, state.load.source))


def add_failures(states: Sequence[SourceState], rights: Rights) -> None:
    """Set ``failed_since`` of the states."""
    tasks = {(state.load.task.dag_id, state.load.task.task_id) for state in states}
    known = [(dag_id, task_id) for dag_id, task_id in tasks if dag_id in rights.dags]
    if not known:
        return
    same = or_(*(and_(TaskInstance.dag_id == dag_id, TaskInstance.task_id == task_id) for dag_id, task_id in known))
    first = min(state.load.started_at for state in states)
    query = (
        select(*_columns(*_INSTANCE, "end_date"))
        .where(same, TaskInstance.state.in_(("failed", "upstream_failed")), TaskInstance.end_date > first)
        .order_by(TaskInstance.end_date.desc())
        .limit(MOST_FAILURES)
    )
    with create_session() as session:
        failures = session.execute(query).all()
    for state in states:
        mine = state.load.task
        for row in failures:
            is_same = (row.dag_id, row.task_id) == (mine.dag_id, mine.task_id) and row.run_id != mine.run_id
            if is_same and row.end_date > state.load.started_at:
                found = dict(zip(_INSTANCE, _instance(row), strict=True))
                state.failed_since = Task(**found, path=task_path(**found))
                break


def _worst(tries: Sequence[Load]) -> Load:
    """Return the worst of the latest tries of the mapped tasks of the latest run."""
    run = tries[0].task.run_id
    latest: dict[tuple[Any, ...], Load] = {}
    for load in tries:
        if load.task.run_id == run:
            latest.setdefault((load.task.task_id, load.task.map_index, load.task.region), load)
    return min(latest.values(), key=lambda load: _WORST.index(load.outcome))


def _is_due(tries: Sequence[Load], now: datetime) -> bool:
    starts: dict[str | None, datetime] = {}
    for load in tries:
        # The earliest start of each run: a retry starts later.
        starts[load.task.run_id] = load.started_at
    gaps = [later - earlier for later, earlier in pairwise(starts.values())]
    return len(gaps) > 1 and now - next(iter(starts.values())) > 2 * max(gaps)


def entry_row(entry: AmbiguousEntry, rights: Rights, now: datetime) -> Entry:
    """Return an ambiguous entry."""
    may_settle = not entry.may_be_under_way and rights.may_settle(entry.run.dag_id)
    return Entry(
        id=entry_id(entry),
        **{name: getattr(entry, name) for name in ("kind", "site_id", "source", "label", "outcome", "attempts")},
        error=entry.error,
        claimed_at=entry.claimed_at,
        age_seconds=_age(entry.claimed_at, now),
        may_be_under_way=entry.may_be_under_way,
        may_settle=may_settle,
        outcomes=[_SETTLED[outcome] for outcome in allowed_outcomes(entry)],
        task=rights.task(entry.run),
    )


def superseded_row(row: Any, rights: Rights) -> Superseded:
    """
    Return a key with superseded documents.

    :param row: Row of the ledger's table of documents.
    """
    return Superseded(
        id=superseded_id(row),
        **{name: getattr(row, name) for name in ("site_id", "source", "label")},
        document_ids=json.loads(row.superseded),
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
