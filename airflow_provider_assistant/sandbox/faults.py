"""Faults as rules, the journal of requests, and the rate limit."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from airflow_provider_assistant.sandbox.messages import Request
from airflow_provider_assistant.sandbox.settings import Regex

_STORE_FIRST = "store-then-"
_ACTION = r"^(store-then-)?(status:[2-5]\d\d|retry-after:\d+|delay:\d+(\.\d+)?|hold|drop|empty|truncate)$"


class Rule(BaseModel, extra="forbid"):
    """Apply an action to matching requests. Without a condition, all requests match.

    :param action: ``status:N``, ``retry-after:N`` (429), ``drop`` (no response), ``delay:N`` and ``hold`` (carried out
        N seconds later, or when the faults change), ``empty`` and ``truncate`` (carried out, but the reply has no body,
        or half of it). With the prefix ``store-then-``, the request is carried out before it fails.
    :param path: regular expression to search for in the path below the root of the API.
    :param body: regular expression to search for in the body of the request.
    :param key: name of the API key.
    :param times: number of matching requests to apply the action to. ``None`` means all.
    :param skip: number of matching requests to let pass first.
    :param share: share of the matching requests to apply the action to, the same ones in each run.
    :param reply: body of the reply with ``status:N``: a text, or any other JSON value. ``None`` means an error.
    :param hits: number of requests that the action was applied to.
    :raises ValueError: a value is not valid.
    """

    action: str = Field(pattern=_ACTION)
    method: str | None = None
    path: Regex = ""
    body: Regex = ""
    key: str | None = None
    times: int | None = Field(1, ge=1)
    skip: int = Field(0, ge=0)
    share: float = Field(1.0, ge=0, le=1)
    reply: Any = None
    hits: int = 0
    # Not for secrets.
    _random: random.Random = PrivateAttr(default_factory=lambda: random.Random(0))  # noqa: S311

    @property
    def kind(self) -> str:
        """Return the action without its prefix and its number."""
        return self.action.removeprefix(_STORE_FIRST).partition(":")[0]

    @property
    def number(self) -> float:
        """Return the number of the action, or 0."""
        return float(self.action.partition(":")[2] or 0)

    @property
    def stores(self) -> bool:
        """Return whether the request is carried out."""
        return self.action.startswith(_STORE_FIRST) or self.kind in {"delay", "hold", "empty", "truncate"}

    def applies(self, request: Request, key: str) -> bool:
        """Return whether the rule applies to a request, and count the request."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {None, request.method} or self.key not in {None, key}:
            return False
        body = request.body.decode(errors="replace")
        if not re.search(self.path, request.path) or not re.search(self.body, body):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.share < 1 and self._random.random() >= self.share:
            return False
        self.hits += 1
        return True


class Faults:
    """Hold the rules in force. ``version`` increases with each change."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.version = 0

    def add(self, action: str, **rule: Any) -> None:
        """Add a rule, by default for the next request. Its fields are those of :class:`Rule`."""
        self.replace([*self.rules, Rule(action=action, **rule)])

    def replace(self, rules: list[Rule]) -> None:
        """Replace all rules; requests that are held go on."""
        self.rules = rules
        self.version += 1

    def choose(self, request: Request, key: str) -> Rule | None:
        """Return the first rule that applies to a request, or None."""
        return next((rule for rule in self.rules if rule.applies(request, key)), None)


@dataclass(slots=True)
class Entry:
    """The record of one request, with a hash of its body, and the name of its key if that is known."""

    at: float
    method: str
    path: str
    key: str | None
    digest: str
    status: int | None = None  # None while in flight, or if the connection was dropped
    fault: str | None = None  # the action that was applied


class Journal:
    """Hold the last 20,000 requests, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=20_000)
        self.clear = self._entries.clear

    def add(self, at: float, request: Request, key: str | None) -> Entry:
        """Add a request; the caller sets its status later."""
        digest = hashlib.blake2b(request.body, digest_size=16).hexdigest()
        entry = Entry(at, request.method, request.path, key, digest)
        self._entries.append(entry)
        return entry

    def entries(self, method: str | None = None, path: str | None = None) -> list[Entry]:
        """Return the entries of a method, and of the paths in which a regular expression is found."""
        entries = tuple(self._entries)  # a copy: another thread may add an entry
        return [one for one in entries if method in {None, one.method} and re.search(path or "", one.path)]


class RateLimit:
    """A token bucket for each key, which holds the requests of one second."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def admits(self, key: str, rate: float | None, now: float) -> bool:
        """Return whether a key may send a request now, and take its token."""
        if rate is None:
            return True
        capacity = float(math.ceil(rate))
        tokens, updated_at = self._buckets.get(key, (capacity, now))
        tokens = min(capacity, tokens + max(0.0, now - updated_at) * rate)
        self._buckets[key] = (max(0.0, tokens - 1) if tokens >= 1 else tokens, now)
        return tokens >= 1
