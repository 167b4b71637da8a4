"""Base class of the load operators: the options that decide which rows are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.operators.base import (
    AssistantConcurrentOperator,
    AssistantLedgerOperator,
    check_choice,
)

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.limits import ReadLimits
    from airflow_provider_assistant.loading.options import LoadOptions, OnAmbiguous, OnChange, OnLimit

# Seconds. Longest pause that a load waits for on the worker when the service asks it to back off.
MAX_BACKOFF = 300.0


class AssistantLoadOptionsOperator(AssistantLedgerOperator, AssistantConcurrentOperator):
    """
    Base of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`, with the options of the engine.

    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    def __init__(
        self,
        *,
        on_ambiguous: OnAmbiguous = "retry",
        on_change: OnChange = "create",
        adopt: bool = False,
        allow_mass_change: bool = False,
        on_limit: OnLimit = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("on_ambiguous", on_ambiguous, ("retry", "skip", "fail"))
        check_choice("on_change", on_change, ("create", "skip", "fail"))
        check_choice("on_limit", on_limit, ("fail", "fit", "ignore"))
        self.on_ambiguous = on_ambiguous
        self.on_change = on_change
        self.adopt = adopt
        self.allow_mass_change = allow_mass_change
        self.on_limit = on_limit

    @property
    def load_options(self) -> LoadOptions:
        """Options of the engine."""
        from airflow_provider_assistant.loading.options import LoadOptions

        return LoadOptions(
            max_concurrency=self.client_settings.max_concurrency,
            max_backoff=MAX_BACKOFF,
            on_ambiguous=self.on_ambiguous,
            on_change=self.on_change,
            adopt=self.adopt,
            allow_mass_change=self.allow_mass_change,
            on_limit=self.on_limit,
        )

    @property
    def read_limits(self) -> ReadLimits | None:
        """Function that reads the tenant's limits; None if the load is not to read them, or has no tenant."""
        from airflow_provider_assistant.loading.limits import limits_reader

        return limits_reader(self.hook.settings.client, self.hook.known_tenant_id(), self.on_limit)
