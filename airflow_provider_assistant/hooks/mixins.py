"""What operators and sensors share. They are siblings in Airflow and in this package, so it is here, below both."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, LedgerLocation, location_of

# Setting of a task, for messages.
TASK = "the task's ledger_conn_id"


def ledger_location(hook: AssistantHook, conn_id: str | None, origin: str = TASK) -> LedgerLocation:
    """
    Return the location of the ledger: the parameter, else that of a connection, else of Airflow's configuration.

    :param hook: Hook of the assistant connection.
    :param conn_id: SQL connection that has priority, or None.
    :param origin: Name of the setting that ``conn_id`` comes from, for messages.
    :return: The location.
    :raises AssistantInputError: The assistant connection is incomplete or has an invalid field.
    """
    extra = hook.settings.ledger_conn_id
    return location_of((conn_id, origin), (extra, f"the extra of connection {hook.assistant_conn_id!r}"))


class AssistantTaskMixin:
    """Mixin of every task: its color in the UI, and one XCom per key of the dict that it returns."""

    ui_color = "#e4e9fb"

    def __init__(self, **kwargs: Any) -> None:
        # Makes task.output["request_id"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        super().__init__(**kwargs)


class AssistantServiceMixin(AssistantTaskMixin):
    """Mixin of the tasks that call the service."""

    assistant_conn_id: str
    tenant_id: str | None = None
    site_id: str | None = None

    @cached_property
    def hook(self) -> AssistantHook:
        """Hook of the task's connection, tenant and site."""
        return AssistantHook(self.assistant_conn_id, tenant_id=self.tenant_id, site_id=self.site_id)


class AssistantLedgerMixin(AssistantServiceMixin):
    """Mixin of the tasks that use the ledger."""

    ledger: bool = True
    ledger_conn_id: str | None = None

    @property
    def ledger_location(self) -> LedgerLocation:
        """Location of the ledger: that of the task, else of its connection, else of Airflow's configuration."""
        return ledger_location(self.hook, self.ledger_conn_id)

    def open_ledger(self, *, required: bool = True) -> AbstractContextManager[Ledger | None]:
        """
        Open the ledger for a ``with`` block, unless the task's ``ledger`` is False.

        :param required: Whether to raise if the ledger cannot be opened. If False, a warning is logged and the block
            gets None. Default: True.
        :return: Context manager that yields the ledger or None.
        :raises AssistantLedgerError: The ledger is required and cannot be opened.
        """
        return Ledger.open_optional(self.ledger, self.ledger_location if self.ledger else None, required=required)
