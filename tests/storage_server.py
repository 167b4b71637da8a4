"""An S3 server with configurable faults, and buckets in it."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs

import pytest
from airflow.sdk import ObjectStoragePath

BROKEN = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
STATUSES = {200: "200 OK", 403: "403 Forbidden", 500: "500 Internal Server Error", 503: "503 Slow Down"}


@dataclass
class Fault:
    """
    A fault for requests of certain operations.

    :param of: The operations, such as ``put``; see :func:`operation`.
    :param status: Respond with this status, and do not execute the request.
    :param body: Body of that response.
    :param cut: Close the connection ``before`` the request is read, in the ``middle`` of its body, or ``after`` it is
        carried out.
    :param skip: Number of requests that succeed before the fault.
    :param call: Function that is called when the request arrives.
    """

    of: tuple[str, ...]
    status: int | None = None
    body: bytes = BROKEN
    cut: str = ""
    skip: int = 0
    call: Callable[[], None] | None = None
    seen: int = 0


def operation(environ: dict[str, Any]) -> str:
    """Return the operation of a request."""
    method = environ["REQUEST_METHOD"].lower()
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    has_key = environ["PATH_INFO"].strip("/").count("/") > 0
    if "uploads" in query:
        return "create upload" if method == "post" else "list uploads"
    if "uploadId" in query:
        return {"put": "part", "post": "complete", "delete": "abort"}.get(method, method)
    return method if has_key else f"{method} bucket"


class Storage:
    """An S3 server on a separate port, and its current faults."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        self.faults: list[Fault] = []
        self.seen: list[str] = []
        self._lock = threading.Lock()
        self._server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        # S3 replaces an object atomically. moto closes the old content while another request still reads it.
        self._one_request = threading.Lock()

    def __enter__(self) -> Self:
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url, self.conn_id = f"http://{host}:{port}", f"lake_{port}"
        server = self._server._server
        self._app = server.app
        server.app = self._serve
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def connection(self) -> str:
        """Return Airflow's connection: its HTTP client does not retry, but s3fs retries a broken connection."""
        extra = {
            "endpoint_url": self.url,
            "region_name": "us-east-1",
            "config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 10},
        }
        return json.dumps({"conn_type": "aws", "login": "an-access-key", "password": "a-secret-key", "extra": extra})

    def _serve(self, environ: dict[str, Any], start_response: Any) -> Any:
        name = operation(environ)
        with self._lock:
            self.seen.append(name)
            fault = self._fault(name)
        if fault is None:
            return self._respond(environ, start_response)
        if fault.call:
            fault.call()
        if fault.cut:
            self._cut(fault.cut, environ)
        if fault.status is None:
            return self._respond(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(STATUSES[fault.status], [("Content-Length", str(len(fault.body)))])
        return [fault.body]

    def _respond(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with self._one_request:
            return list(self._app(environ, start_response))

    def _fault(self, name: str) -> Fault | None:
        for fault in self.faults:
            if name in fault.of:
                fault.seen += 1
                return fault if fault.seen > fault.skip else None
        return None

    def _cut(self, when: str, environ: dict[str, Any]) -> None:
        if when == "middle":
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]) // 2)
        if when == "after":
            self._respond(environ, lambda *_: None)
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError


@dataclass
class Bucket:
    """A separate bucket for each test."""

    storage: Storage
    name: str = field(default_factory=lambda: f"bucket-{uuid.uuid4().hex[:12]}")

    @property
    def root(self) -> str:
        return f"s3://{self.storage.conn_id}@{self.name}/lake"

    @property
    def fs(self) -> Any:
        return ObjectStoragePath(self.root).fs

    def fail(self, *of: str, **how: Any) -> None:
        self.storage.faults.append(Fault(of, **how))

    def heal(self) -> None:
        self.storage.faults.clear()

    def keys(self) -> list[str]:
        self.fs.invalidate_cache()
        return sorted(self.fs.find(self.name))

    def uploads(self) -> list[dict[str, Any]]:
        """Return the multipart uploads that are neither completed nor aborted."""
        return self.fs.call_s3("list_multipart_uploads", Bucket=self.name).get("Uploads", [])


@pytest.fixture(scope="session")
def _storage() -> Any:
    with Storage() as storage:
        yield storage


@pytest.fixture
def bucket(_storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket on an S3 server without faults."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{_storage.conn_id.upper()}", _storage.connection())
    _storage.faults.clear()
    bucket = Bucket(_storage)
    bucket.fs.call_s3("create_bucket", Bucket=bucket.name)
    _storage.seen.clear()
    return bucket
