"""An assistant in the shapes of the service's documentation, which closes sessions for good."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

from tests.servers import LocalServer, body_of, send

# Outcomes of a message, besides an error status.
HELD = "held"
FAILED = "failed"
LOST = "lost"


class DocumentedAssistant(LocalServer):
    """
    Answer chats, sync and async, and close sessions. A closed session refuses messages with 409.

    ``outcomes`` has the messages that are not answered: an error status, HELD until the test ends, or, for an async
    chat, FAILED or LOST. ``on_close`` is called with each session before it is closed; it returns the status.
    """

    def __init__(self) -> None:
        super().__init__()
        # The session and the message of each chat that was accepted, in their order.
        self.accepted: list[tuple[str, str]] = []
        # The same of each chat that was sent to a closed session.
        self.refused: list[tuple[str, str]] = []
        self.closed: set[str] = set()
        self.requests: dict[str, tuple[str, str]] = {}
        self.outcomes: dict[str, Any] = {}
        self.on_close: Callable[[str], int] = lambda _: 200
        self.is_over = threading.Event()

    @property
    def chats(self) -> Counter[str]:
        """How often each message was accepted."""
        return Counter(message for _, message in self.accepted)

    def connection(self, **extra: Any) -> str:
        """Return an Airflow connection to this service, as JSON."""
        return json.dumps(
            {
                "conn_type": "assistant",
                "host": f"http://{self.host}",
                "password": "canary-key-0123456789",
                "extra": {"site_id": "shop", "retries": 0, **extra},
            }
        )

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(body_of(request) or b"{}")
        route = request.path.partition("/sites/shop/")[2]
        if route.startswith("chat/requests/"):
            reply = self._polled(route.rpartition("/")[2])
        elif route == "chat/session/close":
            reply = self._close(body["session_id"])
        elif route in {"chat", "chat/async"}:
            reply = self._chat(body["session_id"], body["message"], is_async=route == "chat/async")
        else:
            reply = 404, {"error": "site not found"}
        if reply is not None:
            status, value = reply
            send(request, status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _chat(self, session: str, message: str, *, is_async: bool) -> tuple[int, Any] | None:
        with self._lock:
            if session in self.closed:
                self.refused.append((session, message))
                return 409, {"error": "session is closed"}
            self.accepted.append((session, message))
            outcome = self.outcomes.get(message)
            request_id = f"req_{uuid4().hex}"
            self.requests[request_id] = (session, message)
        if outcome == HELD:
            self.is_over.wait(60)
            return None
        if isinstance(outcome, int):
            return outcome, {"error": "internal"}
        if is_async:
            return 200, {"session_id": session, "request_id": request_id, "status": "processing"}
        return 200, {"session_id": session, "request_id": request_id, "answer": answer_to(message)}

    def _polled(self, request_id: str) -> tuple[int, Any]:
        session, message = self.requests.get(request_id, ("", ""))
        outcome = self.outcomes.get(message)
        if not session or outcome == LOST:
            return 404, {"error": "request not found"}
        reply = {"session_id": session, "request_id": request_id}
        if outcome == FAILED:
            return 200, {**reply, "status": "failed", "error": "no model"}
        if outcome == HELD:
            return 200, {**reply, "status": "processing"}
        return 200, {**reply, "status": "completed", "answer": answer_to(message)}

    def _close(self, session: str) -> tuple[int, Any]:
        status = self.on_close(session)
        if status < 300:
            with self._lock:
                self.closed.add(session)
            return status, {"status": "ok"}
        return status, {"error": "internal"}

    def __exit__(self, *details: object) -> None:
        self.is_over.set()
        super().__exit__(*details)


def answer_to(message: str) -> str:
    """Return the answer to a message."""
    return f"About {message}"
