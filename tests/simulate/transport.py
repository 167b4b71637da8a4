"""The client's transport of a night: what it sends goes to the double of the service, or is lost, as the night says."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote

from airflow_provider_assistant.api.call import Call, Response
from airflow_provider_assistant.client.transport import AsyncTransport, UploadForm
from airflow_provider_assistant.exceptions import AssistantTimeoutError
from airflow_provider_assistant.sandbox.messages import Reply, Request
from airflow_provider_assistant.sandbox.store import Chat, Document
from tests.simulate.replies import BLOCKED_WORD, SECRET, UNUSABLE, Answer, Gateway, Outcome, lost

if TYPE_CHECKING:
    from tests.simulate.world import World

CREATES = {"documents.upload", "documents.text", "documents.qa"}
CHATS = {"chat", "chat.async"}


@dataclass
class Sent:
    """
    A request that the client has sent, and its outcome.

    :param item: what it is about: a title, a file name, a message, or the id of a request, session or site.
    :param process: number of the process that has sent it.
    :param is_received: whether the service has carried it out.
    :param status: status of the response; 0 without one.
    :param is_read: whether the client has waited for the outcome.
    :param replied: the question whose answer the response has, or None.
    """

    call: Call[Any]
    item: str
    process: int
    at: float
    until: float = 0.0
    outcome: Outcome | None = None
    is_received: bool = False
    status: int = 0
    is_read: bool = False
    replied: str | None = None

    @property
    def answered(self) -> str | None:
        """Return the question whose answer reached the client, or None."""
        return self.replied if self.is_read else None

    @property
    def endpoint(self) -> str:
        """Return the name of the route."""
        return self.call.endpoint

    @property
    def is_late(self) -> bool:
        """Return whether the client has stopped waiting for the response."""
        return isinstance(self.outcome, AssistantTimeoutError)

    @property
    def is_doubtful(self) -> bool:
        """Return whether the client cannot know if the service has carried it out."""
        if isinstance(self.outcome, Response):
            is_odd = self.outcome.status >= 500 or self.outcome.status in {200, 302}
            return is_odd and not self.is_acknowledged
        return bool(self.outcome and self.outcome.maybe_done)

    @property
    def is_page(self) -> bool:
        """Return whether the response is a web page, and so not one of the service."""
        return isinstance(self.outcome, Response) and self.outcome.body[:1] == b"<"

    @property
    def is_acknowledged(self) -> bool:
        """Return whether the client has got a success of the service."""
        return isinstance(self.outcome, Response) and self.outcome.is_success and self.outcome.body[:1] == b"{"


class SimulatedTransport(AsyncTransport):
    """Carry requests to the double in memory, on the clock of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.journal: list[Sent] = []
        self.in_flight = 0
        self.forgotten: set[str] = set()
        # Words of the service for status words of the documentation.
        self.words: dict[str, str] = {}
        # What the service has got after it may have closed the session.
        self.sent_to_closed: list[Sent] = []
        self._closing: set[str] = set()
        self._real_ids: dict[str, str] = {}
        self._passed: list[float] = []

    async def exchange(self, call: Call[Any]) -> Outcome:
        """Send a request, and wait on the clock of the running loop."""
        seconds, outcome = self.receive(call)
        self.in_flight += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.in_flight -= 1
        return outcome()

    def receive(self, call: Call[Any]) -> tuple[float, Callable[[], Outcome]]:
        """Return the seconds until the outcome of a request, and a function that returns the outcome."""
        world = self.world
        world.check_alive()
        content = self._content(call) if call.upload else b""
        number = world.count_request()
        sent = Sent(call, item_of(call), world.process, world.elapsed)
        self.journal.append(sent)
        world.interrupt(number, is_before=True)
        answer = world.attempt.answer(number)
        if answer.forgets:
            self.forgotten |= {one.id for one in world.service.store.all(Chat)}
        seconds, sent.outcome = self._outcome(sent, answer, number, content)
        sent.until = sent.at + seconds
        if isinstance(sent.outcome, Response):
            sent.status = sent.outcome.status
        world.interrupt(number, is_before=False)

        def outcome() -> Outcome:
            world.check_alive()
            assert sent.outcome is not None
            sent.is_read = True
            return sent.outcome

        return seconds, outcome

    def _content(self, call: Call[Any]) -> bytes | None:
        """Return the content of an upload; None if it changes on the way, so that the connection breaks."""
        assert call.upload
        with call.upload.open() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            content = file.read(size // 2)
            self.world.on_half_upload()
            while piece := file.read(size):
                content += piece
        return content if len(content) == size else None

    def _outcome(self, sent: Sent, answer: Answer, number: int, content: bytes | None) -> tuple[float, Outcome]:
        attempt, timeout = self.world.attempt, self.world.timeout
        outage, since = attempt.outage, sent.at - self.world.began
        if outage and outage.start <= since < outage.end:
            return outage.outcome(timeout)
        if attempt.gateway and self._is_stopped(attempt.gateway, sent, number, content):
            return 0.01, attempt.gateway.page.response
        seconds, outcome = self._passed_on(sent, answer, content)
        if outage and since < outage.start < since + seconds:
            # The service has the request, and its reply is lost or late.
            sent.replied = None
            if outage.kind not in {"silent", "no route"}:
                return outage.start - since, lost("connection", "Connection reset by peer")
            if outage.end - since >= timeout:
                return timeout, lost("timeout", f"no complete answer within {timeout:g} s")
            return outage.end - since, outcome
        return seconds, outcome

    def _is_stopped(self, gateway: Gateway, sent: Sent, number: int, content: bytes | None) -> bool:
        if gateway.scope == "word":
            text = (content or b"").decode(errors="replace") + str(dict(sent.call.json or {}))
            return BLOCKED_WORD in text
        if gateway.scope == "all":
            return number >= gateway.first
        if len([time for time in self._passed if time > sent.at - 1.0]) >= gateway.per_second:
            return True
        self._passed.append(sent.at)
        return False

    def _passed_on(self, sent: Sent, answer: Answer, content: bytes | None) -> tuple[float, Outcome]:
        """Let the service carry out a request, unless the answer says otherwise."""
        timeout = self.world.timeout
        seconds = min(answer.latency, timeout)
        if content is None:
            return seconds, lost("connection", "broken off in the middle of the file")
        reply = None
        if answer.is_carried_out or (sent.call.method == "GET" and not answer.refuses):
            reply = self._carried_out(sent, content)
        if reply is not None and (reply.is_cut or reply.status == 0):
            return seconds, lost("connection", "broken off in the middle of the response")
        if answer.refuses:
            return seconds, replace(lost("connection", "refused"), maybe_done=False)
        if answer.status == 0:
            return seconds, lost("connection", "broken off")
        if answer.latency >= timeout:
            return seconds, lost("timeout", f"no answer within {timeout:g} s")
        return seconds, self._response(sent, answer, reply)

    def _carried_out(self, sent: Sent, content: bytes) -> Reply:
        call, service = sent.call, self.world.service
        if call.endpoint in CHATS and self._session_of(call) in self._closing:
            self.sent_to_closed.append(sent)
        path, _, query = call.path.partition("?")
        *start, last = path.split("/")
        real = self._real_ids.get(unquote(last), unquote(last))
        if real in self.forgotten:
            return Reply(404, b'{"error": "request not found"}')
        headers = {"x-api-key": SECRET, "content-type": "application/json"}
        body = b""
        if call.upload:
            form = UploadForm(io.BytesIO(content), call.upload)
            body = b"".join(form)
            headers["content-type"] = form.headers["Content-Type"]
        elif call.json is not None:
            body = json.dumps(self._with_real_ids(dict(call.json))).encode()
        path = "/".join([*start, quote(real, safe="")])
        request = Request(call.method, path, dict(parse_qsl(query, keep_blank_values=True)), headers, body)
        # The double adds no delay: the script of the night has all delays.
        try:
            service.exchange(request, _no_time).send(None)
        except StopIteration as end:
            # A rule of the double breaks the connection.
            reply: Reply = end.value or Reply(0)
        entry = service.journal.entries()[-1]
        stores = entry.fault is None or entry.fault.startswith("store-then") or entry.fault in {"empty", "truncate"}
        sent.is_received = stores and (200 <= reply.status < 300 or entry.fault is not None)
        if call.endpoint == "session.close":
            self._closing.add(self._session_of(call))
        return reply

    @staticmethod
    def _session_of(call: Call[Any]) -> str:
        return str((call.json or {}).get("session_id"))

    def _with_real_ids(self, body: dict[str, Any]) -> dict[str, Any]:
        for name in ("request_id", "document_ids"):
            value = body.get(name)
            if isinstance(value, str):
                body[name] = self._real_ids.get(value, value)
            elif isinstance(value, list):
                body[name] = [self._real_ids.get(one, one) for one in value]
        return body

    def _response(self, sent: Sent, answer: Answer, reply: Reply | None) -> Response:
        status = answer.status or 200
        found = json.loads(reply.body) if reply and reply.body[:1] == b"{" else None
        if reply and (answer.status is None or (answer.is_success and reply.status >= 400)):
            status = reply.status
        headers = {"x-request-id": f"x-{SECRET}", "content-type": "application/json"}
        if answer.retry_after is not None:
            headers["retry-after"] = answer.retry_after
        if answer.is_success and reply and (status >= 300 or found is None) and answer.body == "good":
            # The service itself refuses the request, or a rule of the double replies.
            return Response(status, {**headers, **{k.lower(): v for k, v in reply.headers.items()}}, reply.body)
        if isinstance(found, dict):
            self._note_answer(sent, answer, found)
            found = self._with_odd_id(sent.call, found, answer)
            if found.get("status") in self.words:
                found["status"] = self.words[found["status"]]
        return Response(status, headers, answer.body_of(found, status))

    def _note_answer(self, sent: Sent, answer: Answer, found: dict[str, Any]) -> None:
        if answer.is_success and answer.body == "good" and found.get("answer") is not None:
            chat = self.world.service.store.find(Chat, self.world.site_id, found["request_id"])
            sent.replied = chat.message if chat else None

    def _with_odd_id(self, call: Call[Any], found: dict[str, Any], answer: Answer) -> dict[str, Any]:
        name = "request_id" if call.endpoint in CHATS else "id" if call.endpoint in CREATES else ""
        if answer.identifier is None or name not in found:
            return found
        alias: str | int = answer.identifier
        if isinstance(alias, int):
            alias = alias * 1000 + len(self._real_ids)
        elif alias not in UNUSABLE:
            alias = f"{alias}{len(self._real_ids)}"
        self._real_ids[str(alias)] = found[name]
        return {**found, name: alias}

    def real_id(self, identifier: str) -> str:
        """Return the id at the service of an id that the client was given."""
        return self._real_ids.get(identifier, identifier)


class BlockingTransport:
    """The transport of calls that do not run in an event loop: it waits on the clock of the world."""

    def __init__(self, transport: SimulatedTransport) -> None:
        self._transport = transport

    def exchange(self, call: Call[Any]) -> Outcome:
        """Send a request, and wait for its outcome."""
        seconds, outcome = self._transport.receive(call)
        self._transport.world.sleep(seconds)
        return outcome()

    def close(self) -> None:
        """Do nothing, because no connection is open."""


async def _no_time(_: float) -> None:
    pass


def item_of(call: Call[Any]) -> str:
    """Return what a request is about."""
    sent = call.json or {}
    if call.upload:
        return call.upload.filename
    parts = [unquote(part) for part in call.path.partition("?")[0].split("/")]
    match call.endpoint:
        case "chat" | "chat.async":
            return str(sent["message"])
        case "chat.request":
            return parts[-1]
        case "chat.feedback":
            return str(sent["request_id"])
        case "session.close":
            return str(sent["session_id"])
        case "documents.qa" | "documents.text":
            return str(sent["title"])
    return parts[3] if len(parts) > 3 else call.path


def title_of(document: Document) -> str:
    """Return what a night calls a document: its title, or of a file the first word of its content and its size."""
    if document.kind != "file":
        return document.title
    return f"{document.content.partition(' ')[0]} ({document.bytes} bytes)"
