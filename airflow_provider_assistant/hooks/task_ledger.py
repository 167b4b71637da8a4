"""The ledger of a task: where it is, and how operators and sensors open it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, LedgerLocation, location_of

# Setting of a task, for messages.
TASK = "the task's ledger_conn_id"


class LedgerTask(Protocol):
    """A task that can use the ledger."""

    ledger: bool
    ledger_conn_id: str | None

    @property
    def hook(self) -> AssistantHook:
        """Hook of the task."""


def open_ledger(task: LedgerTask) -> Ledger:
    """
    Open the ledger of a task: if its parameter ``ledger`` is False, one that is gone when it is closed.

    :raises AssistantLedgerError: The ledger cannot be opened.
    """
    if not task.ledger:
        return Ledger.in_memory()
    return Ledger.open(ledger_location(task.hook, task.ledger_conn_id))


def open_optional_ledger(task: LedgerTask) -> AbstractContextManager[Ledger | None]:
    """Open the ledger of a task for a ``with`` block, or None if ``ledger`` is False or it cannot be opened."""
    if not task.ledger:
        return nullcontext()
    return Ledger.open_optional(ledger_location(task.hook, task.ledger_conn_id))


def ledger_location(hook: AssistantHook, conn_id: str | None, origin: str = TASK) -> LedgerLocation:  # noqa: ARG001
    """
    Return the location of the ledger: the parameter, else that of Airflow's configuration.

    :param conn_id: SQL connection that has priority, or None.
    :param origin: Name of the setting that ``conn_id`` comes from, for messages.
    """
    return location_of((conn_id, origin))
