"""A small client of Airflow's REST API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from tests.live.clients import local_client
from tests.live.process import WAIT, NotReadyError, wait_for

JSON = dict[str, Any]
T = TypeVar("T")

RUN_OVER = {"success", "failed"}
# States of a task that waits for a person: from Airflow 3.3 on, and before.
WAITING = ("awaiting_input", "deferred")


class AirflowApi:
    """Airflow's REST API at an address, as one user."""

    # Seconds between two requests that wait for a state. Each takes Airflow about 40 ms of processor time, which delays
    # the tasks that the test waits for.
    POLL = 0.5

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self.base_url, self.user, self.password = base_url, user, password
        self._http = local_client(base_url)

    def check(self) -> None:
        """Raise an error if what is waited for can no longer happen."""

    def wait(self, what: str, probe: Callable[[], T | None], *, timeout: float = WAIT) -> T:
        """Poll until ``probe`` returns a true value."""

        def checked() -> T | None:
            self.check()
            return probe()

        return wait_for(what, checked, timeout=timeout, interval=self.POLL)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request with a token; return the response with any status."""
        if "Authorization" not in self._http.headers:
            credentials = {"username": self.user, "password": self.password}
            reply = self._http.post("/auth/token", json=credentials).raise_for_status()
            self._http.headers["Authorization"] = f"Bearer {reply.json()['access_token']}"
        return self._http.request(method, path, **options)

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Send a request with a token; return the JSON of the response, or None if what it names does not exist."""
        reply = self.send(method, path, **options)
        if reply.status_code == 404:
            return None
        if reply.is_error:
            raise AssertionError(f"{method} {path}: {reply.status_code} {reply.text}")
        return reply.json() if reply.content else None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def wait_ready(self, timeout: float = WAIT) -> None:
        """Wait until the api-server answers and every other component has a heartbeat."""

        def ready() -> bool:
            try:
                reply = self._http.get("/api/v2/monitor/health", timeout=5)
            except httpx.TransportError:
                return False
            parts = reply.json().values() if reply.is_success else ()
            return bool(parts) and all((part or {}).get("status") == "healthy" for part in parts)

        self.wait("a healthy Airflow", ready, timeout=timeout)

    # -- DAGs and runs -----------------------------------------------------------------------------

    def wait_dag(self, dag_id: str) -> JSON:
        """Wait until a DAG has been parsed."""
        try:
            return self.wait(f"DAG {dag_id}", lambda: self.request("GET", f"/api/v2/dags/{dag_id}"))
        except NotReadyError as late:
            errors = self.request("GET", "/api/v2/importErrors")["import_errors"]
            raise NotReadyError("\n".join([str(late), *(error["stack_trace"] for error in errors)])) from None

    def trigger(self, dag_id: str, conf: JSON | None = None) -> str:
        """Start a run of a DAG once it has been parsed, unpause the DAG, and return the run's id."""
        self.wait_dag(dag_id)
        body = {"logical_date": None, "conf": conf or {}}
        run = self.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        # Unpause after triggering; otherwise a DAG with a schedule might start its scheduled run first.
        self.unpause(dag_id)
        return run["dag_run_id"]

    def unpause(self, dag_id: str) -> None:
        """Let a DAG's schedule start runs."""
        self.request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def runs(self, dag_id: str) -> list[JSON]:
        """Return the runs of a DAG, the latest first."""
        return self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"order_by": "-run_after"})["dag_runs"]

    def run(self, dag_id: str, run_id: str) -> JSON:
        """Return a DAG run."""
        return self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """Return the state of a DAG run."""
        return self.run(dag_id, run_id)["state"]

    def wait_run(self, dag_id: str, run_id: str, timeout: float = WAIT) -> str:
        """Wait until a DAG run is over and return its state."""

        def state() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in RUN_OVER else None

        try:
            return self.wait(f"run {run_id} of {dag_id}", state, timeout=timeout)
        except NotReadyError as late:
            raise NotReadyError(f"{late}; tasks: {self.task_states(dag_id, run_id)}") from None

    # -- task instances ----------------------------------------------------------------------------

    def _task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        return path if map_index < 0 else f"{path}/{map_index}"

    def task_instances(self, dag_id: str, run_id: str) -> list[JSON]:
        """Return the task instances of a run, with ``state``, ``try_number``, ``map_index``, …"""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[JSON] = []
        while True:
            page = self.request("GET", path, params={"limit": 100, "offset": len(found)})
            found += page["task_instances"]
            if not page["task_instances"] or len(found) >= page["total_entries"]:
                return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the state of each task of a run; ``task[2]`` is a mapped one."""
        return {
            task["task_id"] + (f"[{task['map_index']}]" if task["map_index"] >= 0 else ""): task["state"]
            for task in self.task_instances(dag_id, run_id)
        }

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> JSON:
        """Return one task instance."""
        return self.request("GET", self._task(dag_id, run_id, task_id, map_index))

    def tries(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[JSON]:
        """Return all tries of a task instance, the first one first, with ``hostname``, ``state`` and times."""
        path = f"{self._task(dag_id, run_id, task_id, map_index)}/tries"
        return sorted(self.request("GET", path)["task_instances"], key=lambda found: found["try_number"])

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """Return the state of a task."""
        return self.task_instance(dag_id, run_id, task_id)["state"]

    def wait_task(self, dag_id: str, run_id: str, task_id: str, *states: str, timeout: float = WAIT) -> JSON:
        """Wait until a task is in one of these states."""

        def reached() -> JSON | None:
            if self.task_state(dag_id, run_id, task_id) not in states:
                return None
            found = self.task_instance(dag_id, run_id, task_id)
            return found if found["state"] in states else None

        return self.wait(f"{dag_id}.{task_id} {'/'.join(states)}", reached, timeout=timeout)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """Return an XCom value as plain JSON data; None if there is none."""
        path = f"{self._task(dag_id, run_id, task_id)}/xcomEntries/{key}"
        entry = self.request("GET", path, params={"map_index": map_index, "stringify": False})
        return entry and entry["value"]

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, try_number: int | None = None, map_index: int = -1
    ) -> str:
        """Return a task's log as text, one event per line; by default of its latest try."""
        number = try_number or max(1, self.task_instance(dag_id, run_id, task_id, map_index)["try_number"])
        log = self.request(
            "GET",
            f"{self._task(dag_id, run_id, task_id)}/logs/{number}",
            params={"map_index": map_index, "full_content": True},
            headers={"Accept": "application/json"},
        )
        return "\n".join(event if isinstance(event, str) else _line(event) for event in log["content"])

    def clear(self, dag_id: str, run_id: str, *task_ids: str, **options: Any) -> None:
        """Clear tasks of a run, so that they run again."""
        body = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True, **options}
        self.request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body | {"task_ids": list(task_ids)})

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task ``success``, ``failed`` or ``skipped``."""
        self.request("PATCH", self._task(dag_id, run_id, task_id), json={"new_state": state})

    def wait_question(self, dag_id: str, run_id: str, task_id: str) -> JSON:
        """Wait until a task waits for a person, and return its question: ``subject``, ``body``, ``options``, …"""
        self.wait_task(dag_id, run_id, task_id, *WAITING)
        return self.request("GET", f"{self._task(dag_id, run_id, task_id)}/-1/hitlDetails")

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer the question of a task, as a person does in the UI."""
        path = f"{self._task(dag_id, run_id, task_id)}/-1/hitlDetails"
        self.request("PATCH", path, json={"chosen_options": [option]})


def _line(event: JSON) -> str:
    rest = {name: value for name, value in event.items() if name not in ("timestamp", "event", "level", "logger")}
    line = " ".join(str(event[name]) for name in ("timestamp", "level", "event") if event.get(name))
    return f"{line} {json.dumps(rest, default=str)}" if rest else line
