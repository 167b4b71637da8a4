"""
Run one operator as Airflow's workers do, with Airflow's API in memory.

``dag.test()`` takes 0.13 s of processor time for each task, most of it in the database behind Airflow's API. An
operator on its own uses little of that API: its context, and a place for its state and its XComs.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.task_runs.run import Run
from tests.versions import airflow_httpx as httpx

if TYPE_CHECKING:
    from airflow.sdk import DAG


@dataclass
class SingleRun(Run):
    """The result of a task that ran without Airflow's database."""

    values: dict[str, Any] = field(default_factory=dict)

    def xcoms(self) -> dict[tuple[str, int, str], Any]:
        from tests.versions import deserialize

        (place,) = self.tasks
        return {(*place, key): deserialize(value) for key, value in self.values.items()}


class ExecutionAPI:
    """Airflow's API for workers, as far as a single task uses it. Any other request is an error."""

    def __init__(self, dag: DAG, run_id: str, run: dict[str, Any], max_tries: int) -> None:
        self._context = {"dag_run": _dag_run(dag, run_id, **run), "max_tries": max_tries}
        self.try_number = 1
        self.xcoms: dict[str, Any] = {}
        self.deferred: dict[str, Any] = {}
        self._rescheduled: list[str] = []

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
                return httpx.Response(200, json=self._rescheduled[0] if self._rescheduled else None)
            case "POST", "xcoms", _, _, _, key:
                self.xcoms[key] = body
            case "DELETE", "xcoms", _, _, _, key:
                self.xcoms.pop(key, None)
            case "GET", "xcoms", _, _, _, key if key in self.xcoms:
                return httpx.Response(200, json={"key": key, "value": self.xcoms[key]})
            case "GET", "xcoms" | "connections" | "variables", *_:
                return httpx.Response(404, json={"detail": {"reason": "not_found", "message": "There is none"}})
            case unknown:
                return httpx.Response(
                    501, json={"detail": f"{unknown}: see ExecutionAPI in tests/task_runs/in_memory.py"}
                )
        return httpx.Response(200, json={"ok": True})

    def _started(self) -> dict[str, Any]:
        resumed = self.deferred
        return {
            **self._context,
            "should_retry": self.try_number <= self._context["max_tries"],
            "task_reschedule_count": len(self._rescheduled),
            "xcom_keys_to_clear": [] if resumed else list(self.xcoms),
            **resumed,
        }

    def _note(self, state: dict[str, Any]) -> None:
        self.deferred = {}
        if state["state"] == "up_for_reschedule":
            self._rescheduled.append(state["end_date"])


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


def run_single(dag: DAG, **run: Any) -> Run:
    """Run the only task of a DAG until it has ended, through deferrals, reschedules and retries, without waiting."""
    from airflow.sdk.api.datamodels._generated import TaskInstance
    from airflow.sdk.execution_time import supervisor

    from tests.versions import DagSerialization

    dag.validate()
    DagSerialization.to_dict(dag)
    (task,) = dag.tasks
    run_id = f"run-{uuid.uuid4()}"
    api = ExecutionAPI(dag, run_id, run, max_tries=task.retries)
    names = {"dag_id": dag.dag_id, "task_id": task.task_id, "run_id": run_id, "map_index": -1}
    ids: dict[str, Any] = {"id": uuid.uuid4(), "dag_version_id": uuid.uuid4()}
    errors: list[BaseException] = []
    with _answered_by(api):
        while True:
            instance = TaskInstance(**ids, **names, try_number=api.try_number)
            result = supervisor.run_task_in_process(ti=instance, task=task)
            if result.error:
                errors.append(result.error)
            state = result.state.value
            if state == "deferred":
                event = _event(result.msg, instance)
                api.deferred = {"next_method": result.msg.next_method, "next_kwargs": _resumed(result.msg, event)}
            elif state == "up_for_retry":
                api.try_number += 1
            elif state != "up_for_reschedule":
                break
    ended = "success" if state in {"success", "skipped"} else "failed"
    place = {(task.task_id, -1): (state, api.try_number)}
    return SingleRun(dag.dag_id, run_id, ended, place, errors, values=api.xcoms)


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


def _event(deferral: Any, instance: Any) -> Any:
    """Run the trigger of a deferred task; return its first event, or None."""
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor

    from tests.versions import deserialize, import_string

    trigger = import_string(deferral.classpath)(**deserialize(deferral.trigger_kwargs))
    return InProcessTestSupervisor.run_trigger_in_process(trigger=trigger, ti=instance)


def _resumed(deferral: Any, event: Any) -> dict[str, Any]:
    """Return the arguments with which a deferred task goes on, as Airflow stores them."""
    from tests.versions import deserialize, serialize_arguments

    arguments = deserialize(deferral.next_kwargs or {})
    return serialize_arguments({**arguments, "event": event.payload} if event else arguments)
