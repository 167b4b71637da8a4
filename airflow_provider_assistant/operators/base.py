"""Base classes of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_assistant.assets import AssetKind, site_uri
from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.observability.lineage import LineageDataset, operator_lineage
from airflow_provider_assistant.operators.outlets import asset_uri_of, single_outlets, tell_outlets
from airflow_provider_assistant.retry_policy import AssistantRetryPolicy

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_assistant.ledger import Site, Try


class AssistantBaseOperator(BaseOperator):
    """Base of all operators. ``execute`` returns a dict, which goes to XCom and to the events of outlet assets."""

    ui_color = "#e4e9fb"

    # The data that this run wrote, for lineage and links.
    lineage_outputs: tuple[LineageDataset, ...] = ()
    # The try that runs, for the ledger.
    this_try: Try | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Makes task.output["request_id"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        super().__init__(**kwargs)
        self.outlets = list(single_outlets(self.outlets))
        # Airflow before 3.3 has no retry policies. A mapped task gets None if none was given.
        if getattr(self, "retry_policy", ...) is None:
            self.retry_policy = AssistantRetryPolicy()

    def emit_asset_events(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """
        Set the result as the extra of the event of every outlet, and return it.

        An outlet is an asset, a reference to one, or an alias, which gets an event for each of :meth:`written_assets`.
        """
        tell_outlets(context, self.outlets, result, self.written_assets())
        return result

    def written_assets(self) -> Sequence[str]:
        """Return the URIs of the assets that the task wrote. Called after it has written them."""
        return [asset_uri_of(output.uri) for output in self.lineage_outputs]

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the data that the task read, for lineage. Called after the task has ended."""
        return ()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:  # noqa: ARG002
        """
        Return the inputs and outputs of the run. OpenLineage's provider calls this if it is installed.

        If nothing was written, both are empty, and OpenLineage uses the task's inlets and outlets.
        """
        return operator_lineage(self.lineage_inputs() if self.lineage_outputs else (), self.lineage_outputs)

    def site_of_try(self) -> Site | None:
        """Return the site for the record of this try; None if it has none."""
        return None

    def source_of_try(self, context: Context) -> str | None:  # noqa: ARG002
        """Return the source for the record of this try. Default: None, the task."""
        return None

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return what the task was doing, for the error with which it fails."""
        return FailureContext(f"task {self.task_id!r}")


class AssistantOperator(AssistantBaseOperator):
    """
    Base of the operators that call the service.

    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "tenant_id", "site_id")

    def __init__(
        self,
        *,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        tenant_id: str | None = None,
        site_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.assistant_conn_id = assistant_conn_id
        self.tenant_id = tenant_id
        self.site_id = site_id
        check_given(self)

    @cached_property
    def hook(self) -> AssistantHook:
        """Hook of the task's connection, tenant and site."""
        return AssistantHook(self.assistant_conn_id, tenant_id=self.tenant_id, site_id=self.site_id)

    def site_of_try(self) -> Site | None:
        """Return the site of the task."""
        return self.hook.site()

    def asset_uri(self, kind: AssetKind, site_id: str | None = None) -> str:
        """Return the URI of a part of the site, see :func:`airflow_provider_assistant.assets.assistant_asset`."""
        return site_uri(urlsplit(self.hook.settings.client.base_url).netloc, self.hook.resolve_site_id(site_id), kind)
