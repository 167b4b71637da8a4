"""The part of the hook that reads the limits and the statistics, and any other route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.hooks.base import AssistantBaseHook


class AssistantReadHook(AssistantBaseHook):
    """Read the limits of a tenant, the statistics of a site, or another route; ``raw`` of a reply is its JSON."""

    def get_limits(self, *, tenant_id: str | None = None) -> ApiReply:
        """
        Read the tenant's limits (``GET …/tenants/{tenant_id}/limits``).

        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.send(endpoints.get_limits(self.resolve_tenant_id(tenant_id)))

    def get_statistics(self, *, site_id: str | None = None) -> ApiReply:
        """
        Read the site's statistics (``GET …/statistics``).

        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.send(endpoints.get_statistics(self.resolve_site_id(site_id)))

    def read(self, what: str, params: Mapping[str, str] | None = None) -> ApiReply:
        """
        Read the limits, the statistics or a path.

        :param what: ``limits``, ``statistics``, or a path as :meth:`call` takes it.
        :param params: Query parameters, not encoded. Default: None, no query.
        :raises AssistantInputError: It is neither of the names and no path below the base URL; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        if what == "limits":
            call = endpoints.get_limits(self.resolve_tenant_id())
        elif what == "statistics":
            call = endpoints.get_statistics(self.resolve_site_id())
        else:
            return self.call("GET", endpoints.with_query(what, params))
        return self.send(replace(call, path=endpoints.with_query(call.path, params)))

    def call(self, method: str, path: str, json: Mapping[str, Any] | None = None) -> ApiReply:
        """
        Send a request to a route that no other method covers.

        A path may have the e-mail address of a user in it, which no log and no error shows.

        :param path: Path below the base URL, already percent-encoded, such as ``/m2m/tenants/acme-inc/usage``.
        :param json: JSON object to send as the body. Default: None, no body.
        :raises AssistantInputError: ``path`` is a full URL or leaves the base URL; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.send(endpoints.other(method, path, json))
