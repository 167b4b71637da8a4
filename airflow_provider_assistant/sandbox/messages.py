"""Requests and replies as plain values, and the keys that may send requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, with its still encoded path below the root of the API, and lower-case names of headers."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. If it is cut, the connection breaks after half of the body."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False


def json_reply(content: Any, status: int = 200, **headers: str) -> Reply:
    """Return a reply with a JSON body."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Reply(status, body, {"Content-Type": "application/json", **headers})


class ApiError(Exception):
    """A refusal. Its text is that of the reply's field ``error``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.reply = json_reply({"error": text}, status)


@dataclass(frozen=True, slots=True)
class Key:
    """An API key. The journal shows its name instead of its value."""

    value: str = field(repr=False)
    name: str
    tenant: str = "acme-inc"
    sites: tuple[str, ...] = ("acme-docs", "acme-shop")
    read_only: bool = False


DEFAULT_KEY = "dev-acme-full"
DEFAULT_SITE = "acme-docs"
_GLOBEX_SITES = ("globex-help", "globex-labs")
# The keys are public constants of a development tool.
KEYS = (
    Key(DEFAULT_KEY, "acme-full"),
    Key("dev-acme-readonly", "acme-readonly", read_only=True),
    Key("dev-globex-full", "globex-full", "globex", _GLOBEX_SITES),
    Key("dev-globex-readonly", "globex-readonly", "globex", _GLOBEX_SITES, read_only=True),
)
