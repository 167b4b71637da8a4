"""A service on a real socket that speaks no HTTP but what a test says, byte by byte."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Upload
from airflow_provider_assistant.api.payloads import ChatMessage, Feedback, QADocument, SessionClose, TextDocument

KEY = "canary-key-0123456789"

CHAT = ChatMessage(session_id="s", message="m")
CALLS = {
    "limits": endpoints.get_limits("acme-inc"),
    "text": endpoints.create_text_document("docs", TextDocument(title="t", content="c", category="k")),
    "qa": endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="k")),
    "upload": endpoints.upload_document(
        "docs", Upload(lambda: contextlib.nullcontext(io.BytesIO(b"file")), "a.txt", "text/plain")
    ),
    "chat": endpoints.chat("docs", CHAT),
    "submit": endpoints.submit_chat("docs", CHAT),
    "request": endpoints.get_chat_request("docs", "r1"),
    "feedback": endpoints.send_feedback("docs", Feedback(session_id="s", request_id="r1", feedback="good")),
    "close": endpoints.close_session("docs", SessionClose(session_id="s")),
    "statistics": endpoints.get_statistics("docs"),
    "other": endpoints.other("GET", "/m2m/tenants/acme-inc/usage"),
}


class Line:
    """
    One connection, from the side of the service.

    :param connection: The socket.
    """

    def __init__(self, connection: socket.socket, gone: threading.Event) -> None:
        self._connection = connection
        self._gone = gone
        self.sent = 0

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._connection.sendall(piece)
            self.sent += len(piece)

    def drip(self, content: bytes, seconds: float) -> None:
        """Say one byte after the other, until the client hangs up."""
        for byte in content:
            if self._gone.wait(seconds):
                return
            self.say(bytes([byte]))

    def hear(self, pauses: Iterable[float] = ()) -> bool:
        """Read one request, with pauses before the first pieces of its body; return whether there was one."""
        waits = iter(pauses)
        heard = b""
        while b"\r\n\r\n" not in heard:
            if not (piece := self._connection.recv(65536)):
                return False
            heard += piece
        head, _, body = heard.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if fields.get(b"transfer-encoding") == b"chunked":
            while not body.endswith(b"0\r\n\r\n"):
                self._gone.wait(next(waits, 0))
                if not (piece := self._connection.recv(65536)):
                    return False
                body = body[-10:] + piece
        size, length = len(body), int(fields.get(b"content-length", 0))
        while size < length:
            self._gone.wait(next(waits, 0))
            if not (piece := self._connection.recv(65536)):
                return False
            size += len(piece)
        return True


class HostileService:
    """
    Answers every request on every connection as a function does.

    :param speak: Is given the connection, once for each request; what it raises for a client that hung up is no error.
    :param pauses: Seconds before it reads the first pieces of a request, of 64 KB each.
    """

    def __init__(self, speak: Callable[[Line], None], pauses: Sequence[float] = ()) -> None:
        self.speak = speak
        self.pauses = pauses
        self.requests = 0
        self.sent = 0
        self._gone = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        if pauses:
            # Or the system takes for it what it has not read.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self._open: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/api/v1"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        line = Line(connection, self._gone)
        with connection, contextlib.suppress(OSError):
            try:
                while line.hear(self.pauses):
                    self.requests += 1
                    before = line.sent
                    self.speak(line)
                    if line.sent == before:
                        return
            except Closed:
                connection.shutdown(socket.SHUT_RDWR)
            finally:
                self.sent += line.sent

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        # Closing does not end the accept() of another thread: interrupted, it continues with the next socket that gets
        # this number, which is the one of the next test.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Closed(Exception):
    """Raised to hang up."""


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK", length: int | None = None) -> bytes:
    """Return a whole answer, with a Content-Length that may be a lie."""
    size = len(body) if length is None else length
    head = [b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Content-Length: %d" % size, *headers]
    return b"\r\n".join([*head, b"", body])
