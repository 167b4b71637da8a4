"""What operators and sensors share. They are siblings in Airflow and in this package, so it is here, below both."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow_provider_assistant.hooks.assistant import AssistantHook


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
