"""Opaque ids of attempts, with which a page names those to settle."""

from __future__ import annotations

import base64
import json
from typing import Any, TypeAlias

from airflow_provider_assistant import strict_json

AttemptId: TypeAlias = tuple[str, str, int]
"""Scope, key and number of an attempt."""


def id_of(row: Any) -> str:
    """Return the id of a row of the ledger's table of attempts."""
    parts_json = json.dumps([row["scope"], row["key"], row["number"]], separators=(",", ":"))
    return base64.urlsafe_b64encode(parts_json.encode()).decode()


def parse_id(text: str) -> AttemptId:
    """
    Return the attempt that an id names.

    :raises ValueError: It is not an id of an attempt.
    """
    try:
        scope, key, number = strict_json.read(base64.urlsafe_b64decode(text.encode())).value
        return str(scope), str(key), int(number)
    except (ValueError, TypeError) as error:
        raise ValueError("not an id of an attempt") from error
