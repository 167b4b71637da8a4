"""The prepared replies with the longest names, keys in Arabic, and more entries than the server counts."""

from __future__ import annotations

import itertools
from typing import Any

from pydantic import BaseModel

from tests.integration.ui import data

SITE = "support-centre-for-the-customers-of-all-brands-in-germany-austria-switzerland-01"
SOURCE = "kb_of_all_departments.load_the_frequently_asked_questions_of_the_portal" * 2
ARABIC = "كم من الوقت يستغرق استرداد المبلغ؟ / رقم 4711"
KEY = "sku=" + "4711-" * 399
ERROR = f"POST /m2m/sites/{SITE}/documents/qa: 502 Bad Gateway. " + "The upstream server closed the connection. " * 30
KEYS = itertools.cycle([KEY, ARABIC, f"{ARABIC} " * 40, "sku=1"])
# What stands in fields with these names.
LONG = {"source": SOURCE, "error": ERROR, "reason": ERROR, "dag_id": SOURCE, "task_id": SOURCE, "group": ARABIC}
NUMBERS = {"total": 10_000, "count": 1_000_000, "row": 10_000_000, "is_capped": True, "unresolved": 10_000}


def replies(*, may_settle: bool) -> dict[str, Any]:
    """
    Return the replies.

    :param may_settle: Whether the user may settle the entries.
    """
    found: dict[str, Any] = data.filled()
    for path, reply in found.items():
        if isinstance(reply, BaseModel):
            found[path] = _long(reply.model_dump(mode="json"), "", may_settle)
    return found


def _long(value: Any, name: str, may_settle: bool) -> Any:
    """Return the value of a field with longer texts and larger numbers."""
    if name == "may_settle":
        return may_settle
    if name == "document_ids":
        return [f"doc-{number}" for number in range(60)] + ["d" * 200]
    if isinstance(value, dict):
        return {key: _long(one, key, may_settle) for key, one in value.items()}
    if isinstance(value, list):
        return [_long(one, name, may_settle) for one in (value[:5] if name == "rows" else value)]
    if name in NUMBERS and value:
        return NUMBERS[name]
    if not isinstance(value, str):
        return value
    if name == "site_id":
        return SITE if value == data.SITE else ARABIC
    if name in {"label", "key"}:
        return next(KEYS)
    # Names of metrics, scorers and questions stay different from each other.
    if name in {"name", "names", "metrics", "worse", "newly_failing", "output_path"}:
        return f"{value}_{SITE}"
    return LONG.get(name, value)
