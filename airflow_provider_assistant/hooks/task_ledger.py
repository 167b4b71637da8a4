"""The ledger of a task: where it is, and how operators open it."""

from __future__ import annotations

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


def ledger_location(hook: AssistantHook, conn_id: str | None, origin: str = TASK) -> LedgerLocation:
    """
    Return the location of the ledger: the parameter, else that of a connection, else of Airflow's configuration.

    :param conn_id: SQL connection that has priority, or None.
    :param origin: Name of the setting that ``conn_id`` comes from, for messages.
    """
    origin_of_extra = f"the extra of connection {hook.assistant_conn_id!r}"
    return location_of((conn_id, origin), (hook.settings.ledger_conn_id, origin_of_extra))
