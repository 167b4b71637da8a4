"""The embedded Assistant service in a separate process."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Self

from tests.live.clients import local_client
from tests.live.process import WAIT, NotReadyError, Process, free_port

CONNECTION = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


class AssistantService:
    """
    The embedded service, listening on the loopback interface while the context is entered.

    :param home: Folder of its data and its log.
    :param settings: Its flags, such as ``rate_limit=20`` for ``--rate-limit 20``.
    """

    def __init__(self, home: Path, **settings: Any) -> None:
        self.home = home.resolve()
        self.connection: dict[str, Any] = {}
        self._settings = {"data": self.home / "service.jsonl", "port": free_port(), **settings}
        log = self.home / "service.log"
        self._process = Process(
            "service", [], env=os.environ | {"PYTHONUNBUFFERED": "1"}, cwd=self.home, log=log, pipes=True
        )
        # The control plane needs no API key.
        self._http = local_client()

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._http.close()

    # -- life --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise an error with the end of the log if the service has ended by itself."""
        self._process.check()

    def start(self) -> None:
        """Start the service, and return once it listens."""
        flags = [part for name, value in self._settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        self._process.command = [sys.executable, "-m", "airflow_provider_assistant.sandbox", *flags]
        self._process.start()
        # It prints its connection as soon as it listens, with the API key, which is in no log therefore.
        for line in self._process.popen.stdout or ():
            name, _, value = line.decode().partition("=")
            if name == CONNECTION:
                self.connection = json.loads(shlex.split(value)[0])
                return
        self._process.popen.wait()
        self.check()

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
        """The environment variable that makes the service Airflow's default connection."""
        return {CONNECTION: json.dumps(self.connection)}

    # -- control plane -----------------------------------------------------------------------------

    def control(self, method: str, path: str, **kwargs: Any) -> Any:
        """Send a request to the control plane and return the JSON of the answer."""
        answer = self._http.request(method, f"{self.root}/_sandbox/{path}", **kwargs)
        assert not answer.is_error, answer.text
        return answer.json() if answer.content else None

    def journal(self, status: int | None = None, **filters: Any) -> list[dict[str, Any]]:
        """Return the last requests, oldest first, without keys and bodies.

        :param filters: ``method`` and ``path`` (a regular expression)
        """
        requests = self.control("GET", "journal", params=filters)["requests"]
        return [one for one in requests if status in {None, one["status"]}]

    def documents(self, site_id: str | None = None) -> list[dict[str, Any]]:
        """Return the documents of a site, in the order they came."""
        return self.control("GET", "documents", params={"site": site_id or self.site_id})["documents"]

    def chats(self) -> list[dict[str, Any]]:
        """Return the chat requests of all sites, in the order they came."""
        return self.control("GET", "chats")["chats"]

    def count_documents(self, site_id: str | None = None) -> int:
        """Return how many documents a site has."""
        return len(self.documents(site_id))

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
        self.faults(rules=[{"action": "hold", "path": path, "times": None, "skip": skip}])

    def reset(self, *only: str) -> None:
        """Reset ``data``, ``journal``, ``faults``, or all of them."""
        self.control("POST", "reset", params={"only": ",".join(only)} if only else None)

    def faults(self, **changes: Any) -> dict[str, Any]:
        """Set the faults, such as ``rules=[…]`` or ``processing_seconds=60``."""
        return self.control("POST", "faults", json=changes)
