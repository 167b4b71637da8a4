"""The service without a network: it takes a request as a value, and returns the reply as a value."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from airflow_provider_assistant.sandbox import chats, documents, reads, routes
from airflow_provider_assistant.sandbox.faults import Entry, Faults, Journal, RateLimit, Rule
from airflow_provider_assistant.sandbox.messages import KEYS, ApiError, Key, Reply, Request, json_reply
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.store import Chat, Document, Store

ROUTES = (documents, chats, reads)  # their routes are registered when they are imported
Sleep = Callable[[float], Awaitable[Any]]
_HOLD_POLL = 0.01  # seconds between two checks of whether to keep holding a request


class Service:
    """Answer requests to the API from what is stored, and with faults where a rule says so.

    A server puts :meth:`exchange` behind a socket; a test may put it behind a transport of its client instead.

    :param settings: initial settings. Default: asynchronous chat requests complete without delay.
    :param clock: returns the current time in seconds since the epoch. Default: the system clock.
    """

    def __init__(self, settings: Settings | None = None, *, clock: Callable[[], float] | None = None) -> None:
        self._initial = settings or Settings(processing_seconds=0.0)
        self.settings = self._initial
        self.clock = clock or time.time
        self.store = Store(self.settings.data)
        self.keys = {key.value: key for key in KEYS}
        self.faults = Faults()
        self.journal = Journal()
        self.in_flight = 0
        self._rate = RateLimit()
        self._resets = 0

    async def exchange(self, request: Request, sleep: Sleep = asyncio.sleep) -> Reply | None:
        """Answer a request.

        :param sleep: waits for a number of seconds.
        :return: the reply; None if the connection breaks without one.
        """
        key = self.keys.get(request.headers.get("x-api-key", ""))
        entry = self.journal.add(self.clock(), request, key.name if key else None)
        self.in_flight += 1
        try:
            await sleep(self.settings.latency)
            reply = await self._reply(request, key, entry, sleep)
        except ApiError as error:
            reply = error.reply
        finally:
            self.in_flight -= 1
        entry.status = reply.status if reply else None
        return reply

    async def _reply(self, request: Request, key: Key | None, entry: Entry, sleep: Sleep) -> Reply | None:
        if key is None:
            raise ApiError(401, "invalid_api_key")
        if not self._rate.admits(key.name, self.settings.rate_limit, self.clock()):
            raise ApiError(429, "too many requests")
        rule = self.faults.choose(request, key.name)
        if rule is None:
            return self._carried_out(request, key)
        entry.fault = rule.action
        return await self._with_fault(rule, request, key, sleep)

    def _carried_out(self, request: Request, key: Key) -> Reply:
        return routes.answer(routes.Call(self.store, self.settings, self.clock(), key, request))

    async def _with_fault(self, rule: Rule, request: Request, key: Key, sleep: Sleep) -> Reply | None:
        version, resets = self.faults.version, self._resets
        if rule.kind == "delay":
            await sleep(rule.number)
        while rule.kind == "hold" and self.faults.version == version:
            await sleep(_HOLD_POLL)
        if self._resets != resets:
            return None  # otherwise it could create something in the new data
        reply = self._carried_out(request, key) if rule.stores else Reply(200)
        match rule.kind:
            case "drop":
                return None
            case "status":
                return _injected(int(rule.number), rule.reply)
            case "retry-after":
                return json_reply({"error": "too many requests"}, 429, **{"Retry-After": f"{rule.number:.0f}"})
            case "empty":
                return Reply(reply.status)
            case _:
                return Reply(reply.status, reply.body, reply.headers, is_cut=rule.kind == "truncate")

    def update(self, *, rules: list[dict[str, Any]] | None = None, **changes: Any) -> None:
        """Change settings, and replace the rules if they are given. If a value is not valid, change nothing.

        :param rules: fields of the new rules, see :class:`~.faults.Rule`.
        :raises ValueError: a value is not valid.
        """
        settings = self.settings.changed(**changes)
        new_rules = self.faults.rules
        if rules is not None:
            new_rules = [Rule(**rule) for rule in rules]
        self.settings = settings
        self.faults.replace(new_rules)

    def reset(self, *what: str) -> None:
        """Return to the initial state.

        :param what: any of ``data``, ``journal`` and ``faults`` (with the settings). Default: all.
        """
        chosen = what or ("data", "journal", "faults")
        if "data" in chosen:
            self._resets += 1
            self.store.clear()
        if "journal" in chosen:
            self.journal.clear()
        if "faults" in chosen:
            self.settings = self._initial
            self._rate = RateLimit()
            self.faults.replace([])

    def pending(self) -> int:
        """Return the number of chat requests that have not ended."""
        call = routes.Call(self.store, self.settings, self.clock(), KEYS[0], Request("GET", ""))
        return sum(chats.ended_if_due(call, one).ended_at is None for one in self.store.all(Chat))

    def control(self, request: Request) -> Reply:
        """Answer a request to the control plane, which is not a part of the API and needs no key."""
        try:
            content = self._controlled(request)
        except (TypeError, ValueError) as error:
            return json_reply({"error": str(error)}, 400)
        if content is None:
            return json_reply({"error": "unknown control route"}, 404)
        return json_reply(content)

    def _controlled(self, request: Request) -> dict[str, Any] | None:
        query = request.query
        sites = [query["site"]] if "site" in query else []
        content: dict[str, Any] | None = None
        match request.method, request.path:
            case "GET", "/health":
                content = {"status": "ok", "pending": self.pending(), "in_flight": self.in_flight}
            case "GET", "/journal":
                entries = self.journal.entries(query.get("method"), query.get("path"))
                content = {"requests": [asdict(entry) for entry in entries]}
            case "GET", "/documents":
                content = {"documents": [asdict(one) for one in self.store.all(Document, *sites)]}
            case "GET", "/chats":
                content = {"chats": [asdict(one) for one in self.store.all(Chat, *sites)]}
            case "POST", "/reset":
                self.reset(*query.get("only", "data,journal,faults").split(","))
                content = {"status": "ok"}
            case "GET" | "POST", "/faults":
                if request.method == "POST":
                    self.update(**json.loads(request.body))
                content = {**dict(self.settings), "rules": [dict(rule) for rule in self.faults.rules]}
        return content


def _injected(status: int, body: Any) -> Reply:
    """Return the reply of a rule: a text as it is, anything else as JSON."""
    if isinstance(body, str):
        return Reply(status, body.encode(), {"Content-Type": "text/html"})
    return json_reply({"error": "injected fault"} if body is None else body, status)
