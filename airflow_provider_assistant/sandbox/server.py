"""The HTTP server of the sandbox, in a thread."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from airflow_provider_assistant.sandbox.app import API_ROOT, MODELS_ROOT, create_app
from airflow_provider_assistant.sandbox.browsers import BrowserGuard
from airflow_provider_assistant.sandbox.middleware import DROP_EXTENSION
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.tenants import DEFAULT_KEY, DEFAULT_SITE, KEYS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from airflow_provider_assistant.sandbox.service import Service

_START_SECONDS = 30
_STOP_SECONDS = 10
# Address for clients if the service listens on all addresses.
_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class _DroppingProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """An HTTP protocol with an ASGI extension by which the application can close the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        app: Any = self.app  # type: ignore[has-type]

        # Each connection has a protocol, so this application can close only its own connection.
        async def droppable(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"] = {DROP_EXTENSION: transport.abort}
            await app(scope, receive, send)

        self.app = droppable


class SandboxServer:
    """Run the sandbox on a TCP port.

    ``with SandboxServer() as service:`` runs it in a thread, on a port that the operating system picks. By default,
    async requests complete without delay.

    :param settings: settings of the service. Default: a free port of the loopback interface.
    :param clock: returns the current time in seconds since the epoch. Default: the system clock.
    :param changes: settings to override, as keyword arguments.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        **changes: Any,
    ) -> None:
        base = settings or Settings(port=0, processing_seconds=0.0)
        self.settings = base.changed(**changes)
        app = create_app(self.settings, clock=clock)
        self.service: Service = app.state.service
        self._thread: threading.Thread | None = None
        try:
            self._socket = _listen(self.settings.host, self.settings.port)
        except OSError:
            self.service.database.close()
            raise
        self._server = uvicorn.Server(
            uvicorn.Config(
                BrowserGuard(app, self.settings.host),
                http=_DroppingProtocol,
                ws="none",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def root(self) -> str:
        """Return the URL without a path; the control plane is below it under ``/_sandbox``."""
        host: str = _REACHABLE.get(self.settings.host, self.settings.host)
        if ":" in host:  # an IPv6 address
            host = f"[{host}]"
        return f"http://{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the base URL of the API, which ends in ``/api/v1``."""
        return self.root + API_ROOT

    def conn_json(self, *, key: str = DEFAULT_KEY, site_id: str = DEFAULT_SITE, **extra: Any) -> str:
        """Return an Airflow connection to the service, as JSON.

        The service is named after its port, so that a ledger takes sandboxes on other ports for other services.

        :param key: API key.
        :param site_id: id of the site.
        :param extra: further fields of the connection's extra, such as ``tenant_id``.
        """
        # A test may pass an unknown key.
        tenant = KEYS.get(key, KEYS[DEFAULT_KEY]).tenant
        return json.dumps(
            {
                "conn_type": "assistant",
                "host": self.url,
                "password": key,
                "extra": {
                    "tenant_id": tenant.tenant_id,
                    "site_id": site_id,
                    "service_name": f"sandbox-{self.port}",
                    **extra,
                },
            },
            separators=(",", ":"),
        )

    def judge_conn_json(self, *, key: str = DEFAULT_KEY) -> str:
        """Return an Airflow connection to the judge of the service, as JSON.

        :param key: API key.
        """
        return json.dumps(
            {
                "conn_type": "pydanticai",
                "host": self.root + MODELS_ROOT,
                "password": key,
                "extra": {"model": "openai:word-overlap"},
            },
            separators=(",", ":"),
        )

    def start(self) -> Self:
        """Start serving in a thread, and return once the service accepts requests."""
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="assistant-sandbox", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("The embedded service did not start.")
            time.sleep(0.01)
        return self

    def wait(self) -> None:
        """Wait until the service ends by itself, which only an error causes."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stop the service and its thread."""
        if self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
