"""The journal: a record of the requests that the sandbox received."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_assistant.sandbox.timestamps import iso

CAPACITY = 20_000


@dataclass(slots=True)
class Entry:
    """Hold the journal entry of a request.

    :param at: time of arrival, in seconds since the epoch.
    :param path: path below the API's root.
    :param key: name of the API key; ``None`` if it was missing or unknown.
    :param bytes: length of the body in bytes.
    :param digest: blake2b-128 of the body, in hexadecimal.
    :param status: HTTP status of the response; ``None`` while in flight, or if the connection was dropped.
    :param fault: action of the fault that was applied, or ``None``.
    """

    at: float
    method: str
    path: str
    key: str | None
    bytes: int
    digest: str
    status: int | None = None
    fault: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON types."""
        return {**asdict(self), "at": iso(self.at)}


class Journal:
    """Hold the last requests, oldest first, without API keys and bodies."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)

    def add(self, at: float, method: str, path: str, key: str | None, body: bytes) -> Entry:
        """Add an entry and return it; the caller sets its status later."""
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        entry = Entry(
            at=at,
            method=method,
            path=path,
            key=key,
            bytes=len(body),
            digest=digest,
        )
        self._entries.append(entry)
        return entry

    def entries(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        key: str | None = None,
    ) -> list[Entry]:
        """Return the entries that match all given conditions.

        :param path: regular expression to search for in the path.
        :param key: the key's name.
        """
        matching = []
        for entry in tuple(self._entries):  # a copy: another thread may add an entry
            if method is not None and entry.method != method.upper():
                continue
            if path is not None and not re.search(path, entry.path):
                continue
            if status is not None and entry.status != status:
                continue
            if key is not None and entry.key != key:
                continue
            matching.append(entry)
        return matching

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
