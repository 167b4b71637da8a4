"""The record of the requests the service saw."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_assistant.sandbox.moments import iso

CAPACITY = 20_000


@dataclass(slots=True)
class Entry:
    """One request.

    :param at: when it came, in seconds since the epoch.
    :param method: its HTTP method.
    :param path: its path below the API's root.
    :param key: the name of its key; ``None`` when the key was missing or unknown.
    :param bytes: the length of its body.
    :param digest: blake2b-128 of its body, in hexadecimal.
    :param status: the status the client was sent; ``None`` while at work, or when dropped.
    :param fault: the action that made the answer go wrong.
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
        """Return the entry for a reader."""
        return {**asdict(self), "at": iso(self.at)}


class Journal:
    """The last requests, oldest first, without keys and without bodies."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)

    def add(self, at: float, method: str, path: str, key: str | None, body: bytes) -> Entry:
        """Begin an entry and return it; its status follows.

        :param at: the time.
        :param method: the HTTP method.
        :param path: the path below the API's root.
        :param key: the name of the key.
        :param body: the body.
        """
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        entry = Entry(at, method, path, key, len(body), digest)
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
        """Return the entries that fit all that is given.

        :param method: the HTTP method.
        :param path: a regular expression found in the path.
        :param status: the status sent.
        :param key: the key's name.
        """
        return [
            entry
            for entry in tuple(self._entries)
            if (method is None or entry.method == method.upper())
            and (path is None or re.search(path, entry.path))
            and (status is None or entry.status == status)
            and (key is None or entry.key == key)
        ]

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
