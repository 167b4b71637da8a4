"""The embedded Assistant service in a separate process."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.live.clients import local_client
from tests.live.process import WAIT, NotReadyError, Process, free_port, wait_for

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

CONNECTION = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
JUDGE = "AIRFLOW_CONN_PYDANTICAI_DEFAULT"
SETTINGS = "ASSISTANT_SANDBOX_"


class AssistantService:
    """The embedded service, listening on the loopback interface while the context is entered.

    :param home: directory of its data and its log
    :param settings: its flags, e.g. ``rate_limit=20`` for ``--rate-limit 20``
    """

    def __init__(self, home: Path, **settings: Any) -> None:
        self.home = home.resolve()
        self.log = self.home / "service.log"
        self.connection: dict[str, Any] = {}
        self._settings = {"data": self.home / "data", "port": free_port(), **settings}
        self._process = Process(
            "service",
            [],
            env={k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)},
            cwd=self.home,
            log=self.log,
            on_line=self._on_line,
        )
        # The control plane needs no API key.
        self._http = local_client()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the service and wait until it listens."""
        with ExitStack() as stack:
            self.home.mkdir(parents=True, exist_ok=True)
            stack.enter_context(self._http)
            stack.callback(self._process.stop)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the service."""
        self._stack.close()

    def _on_line(self, line: str) -> bool:
        """Parse the connection from the service's output, and keep its API key out of the log."""
        name, _, value = line.partition("=")
        if name != CONNECTION:
            return False
        self.connection = json.loads(shlex.split(value)[0])
        return True

    # -- life --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise an error with the end of the log if the service has ended unexpectedly."""
        self._process.check()

    def start(self) -> None:
        """Start the service."""
        self.connection = {}
        flags = [(f"--{name.replace('_', '-')}", str(v)) for name, v in self._settings.items()]
        self._process.command = [
            *(sys.executable, "-m", "airflow_provider_assistant.sandbox"),
            *(part for flag in flags for part in flag),
        ]
        self._process.start()

        def ready() -> bool:
            self.check()
            return bool(self.connection)

        wait_for("the service", ready, timeout=WAIT)

    def stop(self, *, kill: bool = False) -> None:
        """Stop the service, with SIGTERM or SIGKILL."""
        self._process.stop(kill=kill)

    def restart(self, *, kill: bool = False, **settings: Any) -> None:
        """Restart with the same port and data, and with changed settings."""
        self.stop(kill=kill)
        self._settings.update(settings)
        self.start()

    # -- connection --------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """The base URL of the API, including its version."""
        return self.connection.get("host", "")

    @property
    def root(self) -> str:
        """The base URL of the control plane."""
        return self.base_url.removesuffix("/").removesuffix("/api/v1")

    @property
    def api_key(self) -> str:
        """The API key."""
        return self.connection["password"]

    @property
    def tenant_id(self) -> str:
        """The tenant of the API key."""
        return self.connection["extra"]["tenant_id"]

    @property
    def site_id(self) -> str:
        """A site of the tenant."""
        return self.connection["extra"]["site_id"]

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that make the service and its judge Airflow's default connections."""
        judge = {
            "conn_type": "pydanticai",
            "host": f"{self.root}/v1",
            "password": self.api_key,
            "extra": {"model": "openai:word-overlap"},
        }
        return {CONNECTION: json.dumps(self.connection), JUDGE: json.dumps(judge)}

    # -- control plane -----------------------------------------------------------------------------

    def control(self, method: str, path: str, **kwargs: Any) -> Any:
        """Send a request to the control plane and return the JSON of the answer."""
        answer = self._http.request(method, f"{self.root}/_sandbox/{path}", **kwargs)
        if answer.is_error:
            raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
        return answer.json() if answer.content else None

    def journal(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the last requests, oldest first, without keys and bodies.

        :param filters: ``method``, ``path`` (a regular expression), ``status``, ``key``, ``limit``
        """
        return self.control("GET", "journal", params=filters)["requests"]

    def documents(self, site_id: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """Return the first documents of a site, in the order they came."""
        params = {"site": site_id or self.site_id, "limit": limit}
        return self.control("GET", "documents", params=params)["documents"]

    def count_documents(self, site_id: str | None = None) -> int:
        """Return how many documents a site has."""
        params = {"site": site_id or self.site_id, "limit": 0}
        return self.control("GET", "documents", params=params)["count"]

    def settle(self) -> None:
        """Wait until the service has answered all requests, including those of clients that have disconnected."""
        idle = 0
        deadline = time.monotonic() + WAIT
        while idle < 2:  # a request may still be in the socket's buffer at the first check
            in_flight = self.control("GET", "health")["in_flight"]
            idle = 0 if in_flight else idle + 1
            if time.monotonic() > deadline:
                raise NotReadyError(f"{in_flight} requests are still in flight")
            time.sleep(0.02)

    def hold(self, path: str, *, skip: int) -> None:
        """Hold the requests of a path, starting with a given one, until the faults change; replaces all rules."""
        self.faults(rules=[{"action": "hold", "match": {"path": path}, "times": None, "skip": skip}])

    def reset(self, *only: str) -> None:
        """Reset ``data``, ``journal``, ``faults``, or all of them."""
        self.control("POST", "reset", params={"only": list(only)})

    def faults(self, **changes: Any) -> dict[str, Any]:
        """Set the faults, such as ``rules=[…]`` or ``fault_rate=0.1``."""
        return self.control("POST", "faults", json=changes)
