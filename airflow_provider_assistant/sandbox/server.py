"""The double on a TCP port of the loopback interface: in a thread for tests, or as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY, DEFAULT_SITE, Reply, Request, json_reply
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings, read_settings

API_ROOT = "/api/v1"
CONTROL_ROOT = "/_sandbox"
_DROP = "assistant.drop"
_START_SECONDS = 30


class _DroppingProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """An HTTP protocol whose application can close the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        app: Any = self.app  # type: ignore[has-type]

        # Each connection has a protocol, so this application closes only its own connection.
        async def droppable(scope: Any, receive: Any, send: Any) -> None:
            scope[_DROP] = transport.abort
            await app(scope, receive, send)

        self.app = droppable


def _application(service: Service) -> Any:
    """Return the ASGI application of the API and its control plane."""

    async def reply_to(scope: Any, body: bytes) -> Reply | None:
        path = scope["raw_path"].decode("latin-1")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"]
        if path.startswith(f"{CONTROL_ROOT}/"):
            return service.control(Request(method, path.removeprefix(CONTROL_ROOT), query, headers, body))
        if path.startswith(f"{API_ROOT}/"):
            return await service.exchange(Request(method, path.removeprefix(API_ROOT), query, headers, body))
        return json_reply({"error": "not found"}, 404)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        reply = await reply_to(scope, bytes(body))
        if reply is not None:
            names = {**reply.headers, "Content-Length": str(len(reply.body))}
            headers = [(name.encode(), value.encode()) for name, value in names.items()]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            sent = reply.body[: len(reply.body) // 2] if reply.is_cut else reply.body
            await send({"type": "http.response.body", "body": sent, "more_body": reply.is_cut})
        if reply is None or reply.is_cut:
            scope[_DROP]()
            while (await receive())["type"] != "http.disconnect":
                pass

    return application


class SandboxServer:
    """Run the double on a port of the loopback interface.

    ``with SandboxServer() as server:`` runs it in a thread, on a port that the operating system picks. By default,
    asynchronous chat requests complete without delay. :attr:`service` is the service behind the port.

    :param settings: settings. Default: those of :class:`~.settings.Settings`, with a free port and no delay.
    :param clock: returns the current time in seconds since the epoch. Default: the system clock.
    :param changes: settings to override, as keyword arguments.
    """

    def __init__(
        self, settings: Settings | None = None, *, clock: Callable[[], float] | None = None, **changes: Any
    ) -> None:
        base = settings or Settings(port=0, processing_seconds=0.0)
        self.service = Service(base.changed(**changes), clock=clock)
        self._thread: threading.Thread | None = None
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(("127.0.0.1", self.service.settings.port))
        except (OSError, OverflowError):
            self._socket.close()
            self.service.store.close()
            raise
        config = uvicorn.Config(
            _application(self.service),
            http=_DroppingProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    @property
    def root(self) -> str:
        """Return the URL without a path; the control plane is below it under ``/_sandbox``."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """Return the base URL of the API, which ends in ``/api/v1``."""
        return self.root + API_ROOT

    def conn_json(self, *, key: str = DEFAULT_KEY, site_id: str = DEFAULT_SITE, **extra: Any) -> str:
        """Return an Airflow connection to the service, as JSON.

        The service is named after its port, so that a ledger takes sandboxes on other ports for other services.

        :param extra: further fields of the connection's extra, such as ``tenant_id``.
        """
        keys = self.service.keys
        tenant = keys.get(key, keys[DEFAULT_KEY]).tenant  # a test may pass an unknown key
        name = f"sandbox-{self._socket.getsockname()[1]}"
        extra = {"tenant_id": tenant, "site_id": site_id, "service_name": name, **extra}
        connection = {"conn_type": "assistant", "host": self.url, "password": key, "extra": extra}
        return json.dumps(connection, separators=(",", ":"))

    def start(self) -> Self:
        """Start serving in a thread, and return once the service accepts requests."""
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="assistant-sandbox", daemon=True
        )
        self._thread.start()
        give_up_at = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > give_up_at:
                raise RuntimeError("The embedded service did not start.")
            time.sleep(0.01)
        return self

    def wait(self) -> None:
        """Wait until the service ends by itself, which only an error causes."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stop the service and its thread."""
        self._server.should_exit = True
        self.wait()
        self._thread = None
        self.service.store.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def main(arguments: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT, which end the process with status 0.

    :param arguments: flags.
    """
    settings = read_settings(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        server = SandboxServer(settings)
    except (OSError, OverflowError, ValueError) as error:
        sys.exit(f"The embedded service cannot start: {error}")
    with server:
        kept = f"in {settings.data}" if settings.data else "in memory"
        lines = [
            f"The embedded Assistant service listens on {server.url}; its data is {kept}.",
            f"Control plane: {server.root}{CONTROL_ROOT}. End it with Ctrl-C.",
            "To use it, write 'export' and the next line in another shell, and start Airflow there:",
        ]
        print(*lines, sep="\n", file=sys.stderr, flush=True)  # noqa: T201
        # The last line, because a program that reads it may end this process at once.
        print(f"AIRFLOW_CONN_ASSISTANT_DEFAULT='{server.conn_json()}'", flush=True)  # noqa: T201
        server.wait()
