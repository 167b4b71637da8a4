"""
Sites and scopes of the ledger: what a key is unique within.

A site is identified by the name of its service and its id. Its tenant and its URL identify nothing: the path of a site
has no tenant, and the address of a service may change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from airflow_provider_assistant.keys import hash_of
from airflow_provider_assistant.ledger.schema import Kind

# Ports that a URL need not name, with either protocol: a service keeps its name when it changes to https.
_DEFAULT_PORTS = {None, 80, 443}


def service_of(url: str) -> str:
    """
    Return the name of a service that has none in its connection: its host and port, and the path before ``/api/``.

    Examples are ``assistant.example.com`` and ``gateway.example.com:8443/assistant``.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        return url
    port = "" if parts.port in _DEFAULT_PORTS else f":{parts.port}"
    path, _, _ = f"{parts.path}/".partition("/api/")
    return f"{parts.hostname.rstrip('.')}{port}{path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class Site:
    """
    Identify a site.

    :param tenant_id: Tenant of the site, for people and datasets; None if it is not known.
    :param url: URL of the site, for people.
    """

    service: str
    site_id: str
    tenant_id: str | None = field(default=None, compare=False)
    url: str = field(default="", compare=False)

    @property
    def has_own_name(self) -> bool:
        """Whether the connection gives the service another name than its address."""
        return self.service != service_of(self.url)

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns of the site in the datasets."""
        return {"service": self.service, "tenant_id": self.tenant_id, "site_id": self.site_id}

    def of(self, table: sa.FromClause) -> sa.ColumnElement[bool]:
        """Return the condition for the rows of a table of the ledger that belong to this site."""
        return sa.and_(table.c.service == self.service, table.c.site_id == self.site_id)

    def __str__(self) -> str:
        return f"site {self.site_id!r} at service {self.service!r}"


def site_of(row: Any) -> Site:
    """Return the site of a row of the ledger."""
    return Site(row.service, row.site_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """
    Identify what a key is unique within.

    :param namespace: Separates loads whose keys overlap; the name of a chat batch. None for the usual one.
    """

    site: Site
    kind: Kind
    namespace: str | None = None

    @property
    def id(self) -> str:
        """Hash of the scope: the values may be of any length, and the database's index takes short ones only."""
        parts = [self.site.service, self.site.site_id, self.kind, self.namespace]
        return hash_of(json.dumps(parts, ensure_ascii=False))

    def columns(self) -> dict[str, Any]:
        """Return the values of the ledger's columns of the scope."""
        return {
            "scope": self.id,
            "service": self.site.service,
            "site_id": self.site.site_id,
            "kind": self.kind,
            "namespace": self.namespace,
        }


def key_of(*parts: str | None) -> str:
    """Return the key of what these parts identify together."""
    return hash_of(json.dumps(parts))
