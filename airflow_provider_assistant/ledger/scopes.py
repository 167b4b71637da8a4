"""
Sites and scopes of the ledger: what a key is unique within.

A site is identified by the name of its service, its tenant and its id. Its URL is recorded and identifies nothing,
because the address of a service may change.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import sqlalchemy as sa

# Ports that a URL need not name, with either protocol: a service keeps its name when it changes to https.
_DEFAULT_PORTS = {None, 80, 443}
_API_ROOT = re.compile(r"/api/v\d+(/m2m/sites/[^/]*)?$")
# An IPv4 address may have one to four parts, each decimal, octal or hexadecimal.
_IPV4 = re.compile(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+)){0,3}")
# Columns that identify a site, in every table of the ledger and in every dataset.
SITE_COLUMNS = ("service", "tenant_id", "site_id")


def service_of(url: str) -> str:
    """
    Return the name of a service that has none in its connection: its host, port and path, without the API root.

    Different spellings of one address have the same name: upper case, a trailing dot, default ports, the forms of an
    IP address, percent-encoding, and Unicode or Punycode.

    :param url: URL of the service or of one of its sites.
    :return: For example ``assistant.example.com`` or ``gateway.example.com:8443/assistant``.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        return url
    host = _usual_host(unquote(parts.hostname))
    port = "" if parts.port in _DEFAULT_PORTS else f":{parts.port}"
    names = [name for name in unquote(_API_ROOT.sub("", parts.path.rstrip("/"))).split("/") if name]
    path = "".join(f"/{quote(name)}" for name in names)
    return f"{host}{port}{path}"


def _usual_host(host: str) -> str:
    """Return the usual form of a host name or IP address."""
    if ":" in host:
        with contextlib.suppress(ValueError):
            address = IPv6Address(host)
            if address.ipv4_mapped is None:
                return f"[{address.compressed}]"
            host = str(address.ipv4_mapped)
    if not host.isascii():
        import idna

        # A name that is not valid stays as it is: no request reaches it.
        with contextlib.suppress(idna.IDNAError):
            host = idna.encode(host, uts46=True).decode()
    host = host.lower().rstrip(".")
    if _IPV4.fullmatch(host):
        with contextlib.suppress(OSError):
            host = socket.inet_ntoa(socket.inet_aton(host))
    return host


@dataclass(frozen=True, slots=True)
class Site:
    """
    Identify a site.

    :param service: Name of the service.
    :param tenant_id: Tenant of the site; None if it is not known, which is not the same site as with a tenant.
    :param site_id: Id of the site.
    :param url: URL of the site. It is recorded for people and does not identify the site.
    """

    service: str
    tenant_id: str | None
    site_id: str
    url: str = field(default="", compare=False)

    @property
    def address_name(self) -> str:
        """Name that the service has if its connection gives none."""
        return service_of(self.url)

    @property
    def has_own_name(self) -> bool:
        """Whether the connection gives the service another name than its address."""
        return self.service != self.address_name

    def may_be(self, other: Site) -> bool:
        """Return whether another site of the same id may be this one: its tenant is the same, or one is not known."""
        return self.tenant_id == other.tenant_id or None in {self.tenant_id, other.tenant_id}

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns that identify the site, in the ledger and in the datasets."""
        return {"service": self.service, "tenant_id": self.tenant_id, "site_id": self.site_id}

    def recorded(self) -> dict[str, Any]:
        """Return the values of the columns of the site in the ledger, which also has its URL."""
        return {**self.columns(), "site_url": self.url}

    def of(self, table: sa.FromClause) -> sa.ColumnElement[bool]:
        """Return the condition for the rows of a table of the ledger that belong to this site."""
        conditions = [table.c[name].is_not_distinct_from(value) for name, value in self.columns().items()]
        return sa.and_(*conditions)

    def __str__(self) -> str:
        tenant = "" if self.tenant_id is None else f" of tenant {self.tenant_id!r}"
        return f"site {self.site_id!r}{tenant} at service {self.service!r}"


def site_of(row: Any) -> Site:
    """Return the site of a row of the ledger."""
    return Site(row.service, row.tenant_id, row.site_id, row.site_url)


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """
    Identify the documents of one site and endpoint.

    :param endpoint: ``documents/qa``, ``documents/text`` or ``documents``, which is the kind of document.
    :param namespace: Separates loads whose keys overlap.
    """

    site: Site
    endpoint: str
    namespace: str | None = None

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns of the scope."""
        return {"endpoint": self.endpoint, "namespace": self.namespace}

    def __str__(self) -> str:
        return _scope_text(self.site, self.endpoint, self.namespace)


@dataclass(frozen=True, slots=True)
class ChatScope:
    """
    Identify the chat requests of one chat batch, or all single chat requests of a site.

    :param mode: ``async`` or ``sync``.
    :param batch: Name that identifies the chat batch; None for single requests.
    """

    site: Site
    mode: str = "async"
    batch: str | None = None

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns of the scope."""
        return {"mode": self.mode, "batch": self.batch}

    def __str__(self) -> str:
        return _scope_text(self.site, "chat", self.mode, self.batch)


@dataclass(frozen=True, slots=True)
class RatingScope:
    """Identify the ratings of one site."""

    site: Site

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns of the scope."""
        return {}

    def __str__(self) -> str:
        return _scope_text(self.site, "chat/feedback")


Scope: TypeAlias = DocumentScope | ChatScope | RatingScope


def _scope_text(site: Site, *parts: str | None) -> str:
    """Return the text that identifies a scope; :func:`moved_scope` and :func:`document_scope_of` read it."""
    return json.dumps([*site.columns().values(), *parts], ensure_ascii=False)


def site_of_scope(text: str) -> Site:
    """Return the site of the text of a scope in the ledger."""
    service, tenant_id, site_id, *_parts = json.loads(text)
    return Site(service, tenant_id, site_id)


def document_scope_of(text: str) -> DocumentScope:
    """Return the scope of documents of a text in the ledger."""
    service, tenant_id, site_id, endpoint, namespace = json.loads(text)
    return DocumentScope(Site(service, tenant_id, site_id), endpoint, namespace)


def moved_scope(text: str, site: Site) -> str:
    """Return the text of a scope on another site."""
    _service, _tenant_id, _site_id, *parts = json.loads(text)
    return _scope_text(site, *parts)
