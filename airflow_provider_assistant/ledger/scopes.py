"""
Scopes of the ledger: what a key is unique within.

The fields of a scope are columns of its entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

# Ports that a URL need not name.
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_API_ROOT = re.compile(r"/api/v\d+(/m2m/sites/[^/]*)?$")


def service_of(url: str) -> str:
    """
    Return the name of a service that has none in its connection: its host, port and path, without the API root.

    :param url: URL of the service or of one of its sites.
    :return: For example ``assistant.example.com`` or ``gateway.example.com:8443/assistant``.
    """
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    return f"{host.rstrip('.')}{_API_ROOT.sub('', parts.path)}".rstrip("/") or url


@dataclass(frozen=True, slots=True)
class SiteScope:
    """
    Identify one site.

    The service and the tenant are recorded with the entries and are not part of their identity: the URL is.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    :param service: Name of the service. Default: None, that of the URL, see :func:`service_of`.
    :param tenant_id: Tenant of the site. Default: None, not known.
    """

    site_url: str
    service: str | None = field(default=None, kw_only=True)
    tenant_id: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.service is None:
            object.__setattr__(self, "service", service_of(self.site_url))


@dataclass(frozen=True, slots=True)
class DocumentScope(SiteScope):
    """
    Identify the documents of one site and endpoint.

    :param endpoint: ``documents/qa``, ``documents/text`` or ``documents``, which is the kind of document.
    :param namespace: Separates loads whose keys overlap.
    """

    endpoint: str
    namespace: str | None = None

    def __str__(self) -> str:
        if self.namespace is None:
            return f"{self.site_url}/{self.endpoint}"
        return f"{self.site_url}/{self.endpoint}#{self.namespace}"


@dataclass(frozen=True, slots=True)
class ChatScope(SiteScope):
    """
    Identify the chat requests of one chat batch, or all single chat requests of a site.

    :param mode: ``async`` or ``sync``.
    :param batch: Name that identifies the chat batch; None for single requests.
    """

    mode: str = "async"
    batch: str | None = None

    def __str__(self) -> str:
        if self.batch is None:
            return f"{self.site_url}/chat?{self.mode}"
        return f"{self.site_url}/chat?{self.mode}={self.batch}"


@dataclass(frozen=True, slots=True)
class RatingScope(SiteScope):
    """Identify the ratings of one site."""

    def __str__(self) -> str:
        return f"{self.site_url}/chat/feedback"


Scope: TypeAlias = DocumentScope | ChatScope | RatingScope
