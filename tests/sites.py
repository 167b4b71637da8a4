"""Sites of the ledger for tests."""

from __future__ import annotations

from airflow_provider_assistant.ledger import Site, service_of


def site_at(url: str, site_id: str = "docs", tenant_id: str | None = None, service: str | None = None) -> Site:
    """Return the site at a URL; its service has the name of the address unless one is given."""
    return Site(service or service_of(url), site_id, tenant_id, url)
