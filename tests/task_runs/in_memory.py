"""
Run tasks as Airflow's workers do, with Airflow's API in memory.

``dag.test()`` takes 0.13 s of processor time for each task, most of it in the database behind Airflow's API. Tasks use
little of that API: their context, and a place for their state and their XComs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.task_runs.run import Run
from tests.versions import DagSerialization, deserialize, import_string, serialize, serialize_arguments
from tests.versions import airflow_httpx as httpx

if TYPE_CHECKING:
    from airflow.sdk import DAG


@dataclass
class MemoryRun(Run):
    """
    The result of tasks that ran without Airflow's database.

    :param values: XComs as they are stored, by task, map index and key.
    :param deferrals: Number of times that a task was deferred.
    """

    values: dict[tuple[str, int, str], Any] = field(default_factory=dict)
    deferrals: int = 0

    def xcoms(self) -> dict[tuple[str, int, str], Any]:
        return {place: deserialize(value) for place, value in self.values.items()}


@dataclass
class ExecutionAPI:
    """
    Airflow's API for workers, as far as a task uses it. Any other request is an error.

    :param context: What all tries of the task are told.
    :param place: Id of the task and its map index.
    :param values: XComs of the run, as they are stored, by task, map index and key.
    """

    context: dict[str, Any]
    place: tuple[str, int]
    values: dict[tuple[str, int, str], Any]
    try_number: int = 1
    deferred: dict[str, Any] = field(default_factory=dict)
    deferrals: int = 0
    rescheduled: list[str] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or "null")
        match request.method, *request.url.path.strip("/").split("/"):
            case "PATCH", "task-instances", _, "run":
                return httpx.Response(200, json=self._started())
            case "PATCH", "task-instances", _, "state":
                self._note(body)
            case "PUT", "task-instances", _, "rtif" | "heartbeat":
                pass
            case "GET", "task-instances", _, "validate-inlets-and-outlets":
                return httpx.Response(200, json={"inactive_assets": []})
            case "GET", "task-reschedules", _, "start_date":
                return httpx.Response(200, json=self.rescheduled[0] if self.rescheduled else None)
            case method, "xcoms", _, _, task_id, key:
                map_index = int(request.url.params.get("map_index", -1))
                return self._xcom(method, (task_id, map_index, key), body)
            case "GET", "connections" | "variables", *_:
                return _missing()
            case unknown:
                return httpx.Response(
                    501, json={"detail": f"{unknown}: see ExecutionAPI in tests/task_runs/in_memory.py"}
                )
        return httpx.Response(200, json={"ok": True})

    def _xcom(self, method: str, place: tuple[str, int, str], body: Any) -> httpx.Response:
        """Return an XCom of any task, or change one of this task."""
        key = place[-1]
        if method == "GET" and place not in self.values:
            return _missing()
        if method == "GET":
            return httpx.Response(200, json={"key": key, "value": self.values[place]})
        if method == "POST":
            self.values[*self.place, key] = body
        else:
            self.values.pop((*self.place, key), None)
        return httpx.Response(200, json={"ok": True})

    def _started(self) -> dict[str, Any]:
        resumed = self.deferred
        own_keys = [key for *place, key in self.values if tuple(place) == self.place]
        return {
            **self.context,
            "should_retry": self.try_number <= self.context["max_tries"],
            "task_reschedule_count": len(self.rescheduled),
            "xcom_keys_to_clear": [] if resumed else own_keys,
            **resumed,
        }

    def _note(self, state: dict[str, Any]) -> None:
        self.deferred = {}
        if state["state"] == "up_for_reschedule":
            self.rescheduled.append(state["end_date"])


def _missing() -> httpx.Response:
    return httpx.Response(404, json={"detail": {"reason": "not_found", "message": "There is none"}})


def _dag_run(dag: DAG, run_id: str, run_after: datetime | None = None, **options: Any) -> dict[str, Any]:
    from airflow.sdk.api.datamodels._generated import DagRun

    run_after = run_after or datetime.now(UTC)
    logical_date = options.pop("logical_date", run_after)
    assert not options, f"only dag.test() has the options {', '.join(options)}: use the fixture run_stored"
    unknown: dict[str, Any] = {name: None for name, known in DagRun.model_fields.items() if known.is_required()}
    known: dict[str, Any] = {"dag_id": dag.dag_id, "run_id": run_id, "run_type": "manual", "state": "running"}
    interval = dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end"), _text(logical_date))
    started = dict.fromkeys(("run_after", "start_date"), _text(run_after))
    return {**unknown, **known, **interval, **started, "conf": {}, "consumed_asset_events": []}


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def run_in_memory(
    dag: DAG,
    *,
    run_id: str | None = None,
    clears: int = 0,
    lost_triggerers: int = 0,
    xcoms: Mapping[tuple[str, int, str], Any] | None = None,
    **run: Any,
) -> MemoryRun:
    """
    Run the tasks of a DAG one after the other until each has ended, through deferrals, reschedules and retries.

    Nothing waits for the next try. A task that fails does not keep later tasks from running.

    :param run_id: Id of the run. Default: None, a new one.
    :param clears: Number of times that the tasks of this run ran and were cleared before.
    :param lost_triggerers: Number of triggerers that die while a task is deferred, before one goes on.
    :param xcoms: Values of tasks that have run, by task, map index and key.
    :param run: ``logical_date`` and ``run_after``.
    """
    dag.validate()
    DagSerialization.to_dict(dag)
    run_id = run_id or f"run-{uuid.uuid4()}"
    dag_run = _dag_run(dag, run_id, **run)
    values = {place: serialize(value) for place, value in (xcoms or {}).items()}
    states: dict[tuple[str, int], tuple[str, int]] = {}
    errors: list[BaseException] = []
    deferrals = 0
    for task in dag.topological_sort():
        # Airflow increases max_tries when a task is cleared.
        context = {"dag_run": dag_run, "max_tries": task.retries + clears * (task.retries + 1)}
        for map_index in _map_indexes(task, values):
            place = (task.task_id, map_index)
            api = ExecutionAPI(context, place, values, try_number=1 + clears * (task.retries + 1))
            with _answered_by(api):
                state = _run_until_ended(task, api, run_id, errors, lost_triggerers)
            states[place] = (state, api.try_number)
            deferrals += api.deferrals
    failed = any(state not in {"success", "skipped"} for state, _ in states.values())
    return MemoryRun(dag.dag_id, run_id, "failed" if failed else "success", states, errors, values, deferrals)


def _map_indexes(task: Any, values: Mapping[tuple[str, int, str], Any]) -> Iterable[int]:
    """Return the indexes of a mapped task, whose lists may be XComs of tasks that have run; -1 for any other task."""
    if not task.is_mapped:
        return [-1]

    def length(items: Any) -> int:
        if hasattr(items, "operator"):
            items = deserialize(values[items.operator.task_id, -1, items.key])
        return len(items)

    mapped = task._get_specified_expand_input().value
    lists = mapped.values() if isinstance(mapped, dict) else [mapped]
    return range(math.prod(map(length, lists)))


def _run_until_ended(
    task: Any, api: ExecutionAPI, run_id: str, errors: list[BaseException], lost_triggerers: int
) -> str:
    """Run the tries of a task instance, and return its last state."""
    from airflow.sdk.api.datamodels._generated import TaskInstance
    from airflow.sdk.execution_time import supervisor

    task_id, map_index = api.place
    names = {"dag_id": task.dag.dag_id, "task_id": task_id, "run_id": run_id, "map_index": map_index}
    ids: dict[str, Any] = {"id": uuid.uuid4(), "dag_version_id": uuid.uuid4()}
    while True:
        instance = TaskInstance(**ids, **names, try_number=api.try_number)
        result = supervisor.run_task_in_process(ti=instance, task=task)
        if result.error:
            errors.append(result.error)
        state: str = result.state.value
        if state == "deferred":
            api.deferrals += 1
            event = _event(result.msg, instance, lost_triggerers)
            api.deferred = {"next_method": result.msg.next_method, "next_kwargs": _resumed(result.msg, event)}
        elif state == "up_for_retry":
            api.try_number += 1
        elif state != "up_for_reschedule":
            return state


@contextmanager
def _answered_by(api: ExecutionAPI) -> Iterator[None]:
    """Have Airflow's in-process supervisor ask this API."""
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor

    kwargs: dict[str, Any] = {"base_url": None, "token": "", "dry_run": True, "transport": httpx.MockTransport(api)}
    client = InProcessTestSupervisor._Client(**kwargs)
    client.base_url = "http://in-memory.invalid/"  # type: ignore[assignment]  # httpx's setter takes a string
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcessTestSupervisor, "_api_client", staticmethod(lambda *_: client))
        yield


class _Restarted:
    """A trigger that runs in one triggerer after the other; each but the last dies after a moment."""

    def __init__(self, deferral: Any, lost_triggerers: int) -> None:
        self._deferral, self._lost_triggerers = deferral, lost_triggerers

    def _started(self) -> Any:
        return import_string(self._deferral.classpath)(**deserialize(self._deferral.trigger_kwargs))

    async def run(self) -> Any:
        for _ in range(self._lost_triggerers):
            trigger = self._started()
            events = trigger.run()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(events, None), 0.03)
            await events.aclose()
            await trigger.cleanup()
        yield await anext(self._started().run(), None)


def _event(deferral: Any, instance: Any, lost_triggerers: int) -> Any:
    """Run the trigger of a deferred task; return its first event, or None."""
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor

    trigger = _Restarted(deferral, lost_triggerers)
    return InProcessTestSupervisor.run_trigger_in_process(trigger=trigger, ti=instance)


def _resumed(deferral: Any, event: Any) -> dict[str, Any]:
    """Return the arguments with which a deferred task goes on, as Airflow stores them."""
    arguments = deserialize(deferral.next_kwargs or {})
    return serialize_arguments({**arguments, "event": event.payload} if event else arguments)
