"""What a request selects: a site, a source, and what the user may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from airflow_provider_assistant.ledger import Site

NameQuery = Annotated[str | None, Query(max_length=500)]
SourceQuery = NameQuery


@dataclass(frozen=True, slots=True)
class SelectedSite:
    """
    The site that a request selects, or all sites.

    :param site_id: None for all sites.
    :param service: None for the sites of this id at every service.
    """

    site_id: str | None = None
    service: str | None = None

    def selection(self, dag_ids: frozenset[str] | None) -> dict[str, Any]:
        """
        Return the arguments that select the site in a query of the ledger.

        :param dag_ids: DAGs whose rows the user sees; None for all.
        """
        if self.site_id is None or self.service is None:
            return {"site_id": self.site_id, "dag_ids": dag_ids}
        return {"site": Site(self.service, self.site_id), "dag_ids": dag_ids}

    def has(self, row: Mapping[str, Any]) -> bool:
        """
        Return whether a row of a dataset belongs to the site.

        :param row: With the columns ``service`` and ``site_id``.
        """
        is_site = self.site_id is None or bool(row["site_id"] == self.site_id)
        return is_site and (self.service is None or bool(row["service"] == self.service))


def selected_site(site: NameQuery = None, service: NameQuery = None) -> SelectedSite:
    """Return the site that a request selects."""
    return SelectedSite(site, service)


SiteDep = Annotated[SelectedSite, Depends(selected_site)]
