"""The site that a request selects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from airflow_provider_assistant.ledger import Site
from airflow_provider_assistant.ledger.selection import Selection

NameQuery = Annotated[str | None, Query(max_length=500)]
SourceQuery = NameQuery


@dataclass(frozen=True, slots=True)
class SelectedSite:
    """
    The site that a request selects, or all sites.

    :param site_id: None for all sites.
    :param service: None for the sites of this id at every service and of every tenant.
    :param tenant_id: Tenant of the site at the service; None for the site without one.
    """

    site_id: str | None = None
    service: str | None = None
    tenant_id: str | None = None

    def selection(
        self, dag_ids: frozenset[str] | None, *, source: str | None = None, label_part: str | None = None
    ) -> Selection:
        """
        Return the rows of the ledger that belong to the site.

        :param dag_ids: DAGs whose rows the user sees; None for all.
        """
        if self.site_id is None or self.service is None:
            return Selection(self.site_id, dag_ids, source=source, label_part=label_part)
        site = Site(self.service, self.tenant_id, self.site_id)
        return Selection(dag_ids=dag_ids, site=site, source=source, label_part=label_part)

    def has(self, row: Mapping[str, Any]) -> bool:
        """
        Return whether a row of a dataset belongs to the site.

        :param row: With the columns ``service``, ``tenant_id`` and ``site_id``.
        """
        if self.site_id is None:
            return True
        return bool(row["site_id"] == self.site_id) and self.has_tenant(row)

    def has_tenant(self, row: Mapping[str, Any]) -> bool:
        """
        Return whether a row of a dataset belongs to the tenant of the site.

        :param row: With the columns ``service`` and ``tenant_id``.
        """
        if self.site_id is None or self.service is None:
            return True
        return (row["service"], row["tenant_id"]) == (self.service, self.tenant_id)


def selected_site(site: NameQuery = None, service: NameQuery = None, tenant: NameQuery = None) -> SelectedSite:
    """Return the site that a request selects."""
    return SelectedSite(site, service, tenant)


SiteDep = Annotated[SelectedSite, Depends(selected_site)]
