"""A small client of Airflow's REST API, for tests and the demo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from tests.live.clients import local_client
from tests.live.process import WAIT, NotReadyError, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

JSON = dict[str, Any]
T = TypeVar("T")

RUN_OVER = {"success", "failed"}
# States of a task that waits for a person: from Airflow 3.3 on, and before.
WAITING = ("awaiting_input", "deferred")


class AirflowApi:
    """Airflow's REST API, as one user.

    :param base_url: address of the api-server
    """

    # Seconds between two requests that wait for a state. Each takes Airflow about 40 ms of processor time, which delays
    # the tasks that the test waits for.
    POLL = 0.5

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self.base_url = base_url
        self.user = user
        self.password = password
        self._http = local_client(base_url)

    def check(self) -> None:
        """Raise an error if the condition can no longer be met; :meth:`wait` calls this between polls."""

    def wait(self, what: str, probe: Callable[[], T | None], *, timeout: float) -> T:
        """Poll until ``probe`` returns a true value."""

        def checked() -> T | None:
            self.check()
            return probe()

        return wait_for(what, checked, timeout=timeout, interval=self.POLL)

    def send(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        """Send a request with a token; return the response with any status."""
        if "Authorization" not in self._http.headers:
            credentials = {"username": self.user, "password": self.password}
            answer = self._http.post("/auth/token", json=credentials).raise_for_status()
            self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return self._http.request(method, path, **kwargs)

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """Send a request with a token; return the JSON of the response."""
        answer = self.send(method, path, **kwargs)
        if answer.is_error:
            raise httpx.HTTPStatusError(
                f"{method} {path}: {answer.status_code} {answer.text}",
                request=answer.request,
                response=answer,
            )
        return answer.json() if answer.content else None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- health ------------------------------------------------------------------------------------

    def health(self) -> JSON:
        """Return the health of Airflow's components; empty while the API does not respond."""
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5)
        except httpx.TransportError:
            return {}
        return answer.json() if answer.is_success else {}

    def wait_ready(self, timeout: float = WAIT) -> None:
        """Wait until the api-server answers and every other component has a heartbeat."""

        def ready() -> bool:
            health = self.health()
            return bool(health) and all((part or {}).get("status") == "healthy" for part in health.values())

        self.wait("a healthy Airflow", ready, timeout=timeout)

    # -- DAGs and runs -----------------------------------------------------------------------------

    def import_errors(self) -> dict[str, str]:
        """Return the stack trace of each DAG file that did not import."""
        errors = self.request("GET", "/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def dag(self, dag_id: str) -> JSON | None:
        """Return a DAG once it has been parsed."""
        try:
            return self.request("GET", f"/api/v2/dags/{dag_id}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404:
                return None
            raise

    def wait_dag(self, dag_id: str, timeout: float = WAIT) -> JSON:
        """Wait until a DAG has been parsed."""
        try:
            return self.wait(f"DAG {dag_id}", lambda: self.dag(dag_id), timeout=timeout)
        except NotReadyError as late:
            raise NotReadyError("\n".join([str(late), *self.import_errors().values()])) from None

    def trigger(
        self,
        dag_id: str,
        conf: JSON | None = None,
        logical_date: str | None = None,
        timeout: float = WAIT,
    ) -> str:
        """Start a run of a DAG, unpaused and parsed by then, and return the run's id."""
        self.wait_dag(dag_id, timeout)
        run = self.request(
            "POST",
            f"/api/v2/dags/{dag_id}/dagRuns",
            json={"logical_date": logical_date, "conf": conf or {}},
        )
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

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str | None:
        """Return the state of one task instance."""
        return self.task_instance(dag_id, run_id, task_id, map_index)["state"]

    def wait_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *states: str,
        map_index: int = -1,
        timeout: float = WAIT,
    ) -> JSON:
        """Wait until a task instance is in one of these states."""

        def reached() -> JSON | None:
            if self.task_state(dag_id, run_id, task_id, map_index) not in states:
                return None
            found = self.task_instance(dag_id, run_id, task_id, map_index)
            return found if found["state"] in states else None

        return self.wait(f"{dag_id}.{task_id} {'/'.join(states)}", reached, timeout=timeout)

    def xcom(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        key: str = "return_value",
        map_index: int = -1,
    ) -> Any:
        """Return an XCom value as plain JSON data; None if there is none."""
        path = f"{self._task(dag_id, run_id, task_id)}/xcomEntries/{key}"
        try:
            entry = self.request("GET", path, params={"map_index": map_index, "stringify": False})
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404:
                return None
            raise
        return entry["value"]

    def task_log(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        try_number: int | None = None,
        map_index: int = -1,
    ) -> str:
        """Return a task's log as text, one event per line; by default of its latest try."""
        if try_number is None:
            task = self.task_instance(dag_id, run_id, task_id, map_index)
            try_number = max(1, task["try_number"])
        log = self.request(
            "GET",
            f"{self._task(dag_id, run_id, task_id)}/logs/{try_number}",
            params={"map_index": map_index, "full_content": True},
            headers={"Accept": "application/json"},
        )
        return "\n".join(_line(event) for event in log["content"])

    def clear(self, dag_id: str, run_id: str, *task_ids: str, only_failed: bool = False, **options: Any) -> None:
        """Clear tasks of a run, so that they run again; all tasks if none is named."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "only_failed": only_failed,
            "reset_dag_runs": True,
            **options,
        }
        if task_ids:
            body["task_ids"] = list(task_ids)
        self.request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str, map_index: int = -1) -> None:
        """Mark a task instance ``success``, ``failed`` or ``skipped``."""
        path = self._task(dag_id, run_id, task_id, map_index)
        self.request("PATCH", path, json={"new_state": state})

    def wait_question(self, dag_id: str, run_id: str, task_id: str) -> JSON:
        """Wait until a task waits for a person, and return its question: ``subject``, ``body``, ``options``, …"""
        self.wait_task(dag_id, run_id, task_id, *WAITING)
        return self.request("GET", f"{self._task(dag_id, run_id, task_id)}/-1/hitlDetails")

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer the question of a task, as a person does in the UI."""
        path = f"{self._task(dag_id, run_id, task_id)}/-1/hitlDetails"
        self.request("PATCH", path, json={"chosen_options": [option]})

    # -- connections -------------------------------------------------------------------------------

    def hook_meta(self) -> dict[str, JSON]:
        """Return the connection form's data by connection type."""
        hooks = self.request("GET", "/ui/connections/hook_meta")
        return {hook["connection_type"]: hook for hook in hooks}

    def test_connection(self, connection: JSON) -> tuple[bool, str]:
        """Test a connection as the form's button does; ``extra`` may be a dict."""
        body = dict(connection)
        if isinstance(body.get("extra"), dict):
            body["extra"] = json.dumps(body["extra"])
        result = self.request("POST", "/api/v2/connections/test", json=body)
        return result["status"], result["message"]


def _line(event: JSON | str) -> str:
    if isinstance(event, str):
        return event
    rest = {k: v for k, v in event.items() if k not in ("timestamp", "event", "level", "logger")}
    parts = [event.get("timestamp"), event.get("level"), event.get("event")]
    line = " ".join(str(part) for part in parts if part)
    return f"{line} {json.dumps(rest, default=str)}" if rest else line
