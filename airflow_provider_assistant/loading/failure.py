"""What a failed load says first: three short lines, because Airflow shows an exception as one long line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import AssistantError

log = logging.getLogger(__name__)


def log_failure(error: AssistantError, counts: Mapping[str, Any], *, load: str, findings: str | None) -> None:
    """
    Log what happened, what is safe, and what to do.

    :param error: Why the load failed.
    :param counts: Its :class:`~airflow_provider_assistant.loading.report.Counts`; empty if it did not begin.
    :param load: The load: its source, its site and its connection.
    :param findings: Path of the list of rows that a person should look at, if there is one.
    """
    happened, _, advice = str(error).partition(". ")
    is_final = isinstance(error, AirflowFailException)
    retried = " Airflow does not retry this task: clear it afterwards." if is_final else ""
    listed = f" Findings: {findings}" if findings else ""
    log.error("What happened: %s: %s.", load, happened.rstrip("."))
    log.error("What is safe: %s", _safe(counts))
    log.error("What to do: %s%s%s", advice or "Run the task again.", retried, listed)


def _safe(counts: Mapping[str, Any]) -> str:
    if not counts.get("requests"):
        return "nothing was sent."
    left = counts["failed"] + counts["ambiguous"]
    return (
        f"{counts['created']} of {counts['rows']} rows were created by this try and {counts['unchanged']} before; they "
        f"are recorded and not sent again. {left} are left ({counts['ambiguous']} of them may exist), "
        f"{counts['rejected']} are rejected."
    )
