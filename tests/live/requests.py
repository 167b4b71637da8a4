"""The chat requests in the database of the embedded service."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.live.service import AssistantService


def requests_of(service: AssistantService) -> dict[str, dict[str, Any]]:
    """Return all chat requests by id, from a service that is not writing."""
    return {row["id"]: row for row in rows_of(service, "requests")}


def rows_of(service: AssistantService, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table, from a service that is not writing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.sqlite3"
        files = _files(service)
        # The service locks its database, so read a copy, which is consistent only while nothing is written.
        while files != (files := _files(service)):
            pass
        for suffix, content in files.items():
            copy.with_name(copy.name + suffix).write_bytes(content)
        with closing(sqlite3.connect(copy)) as raw:
            raw.row_factory = sqlite3.Row
            return [dict(row) for row in raw.execute(f"SELECT * FROM {table}")]


def _files(service: AssistantService) -> dict[str, bytes]:
    time.sleep(0.01)
    database = service.home / "data" / "assistant.sqlite3"
    paths = {suffix: database.with_name(database.name + suffix) for suffix in ("", "-wal")}
    return {suffix: path.read_bytes() if path.exists() else b"" for suffix, path in paths.items()}
