"""The part of the hook that reads a tenant, a site or a user, and any other route."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from airflow_provider_assistant.api import endpoints, reads
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.hooks.base import AssistantBaseHook


class AssistantReadHook(AssistantBaseHook):
    """
    Read what the service knows about a tenant, a site or a user.

    The specification shows the routes of the limits and of a site's statistics only. The paths of the others are those
    of an older text of the service's documentation, and their replies are not described: look at ``raw``. A route that
    the service does not have is a 404. Read a route with another path with :meth:`call`.

    :param assistant_conn_id: Id of the Airflow connection. Default: ``assistant_default``.
    :param tenant_id: Tenant that overrides the connection's ``tenant_id``. Default: None, the connection's.
    :param site_id: Site that overrides the connection's ``site_id``. Default: None, the connection's.
    """

    def get_limits(self, *, tenant_id: str | None = None) -> ApiReply:
        """
        Read the tenant's limits (``GET …/tenants/{tenant_id}/limits``).

        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the limits.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("limits", tenant_id=tenant_id)

    def get_tenant(self, *, tenant_id: str | None = None) -> ApiReply:
        """
        Read the record of the tenant (``GET …/tenants/{tenant_id}``).

        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the record.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("tenant", tenant_id=tenant_id)

    def get_usage(self, *, tenant_id: str | None = None) -> ApiReply:
        """
        Read how much the tenant uses now (``GET …/tenants/{tenant_id}/usage``).

        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the usage.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("usage", tenant_id=tenant_id)

    def get_usage_history(
        self,
        start: date | None = None,
        end: date | None = None,
        params: Mapping[str, str] | None = None,
        *,
        tenant_id: str | None = None,
    ) -> ApiReply:
        """
        Read how much the tenant used earlier (``GET …/tenants/{tenant_id}/usage/history``).

        The names of the query parameters are not known. If the service has other names than ``from`` and ``to``, or
        needs other values, give ``params`` instead of ``start`` and ``end``.

        :param start: First UTC day, sent as ``from``. Default: None, not sent.
        :param end: Last UTC day, sent as ``to``. Default: None, not sent.
        :param params: Further query parameters. Default: None.
        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the history.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        query = reads.day_range(start, end)
        query.update(params or {})
        return self.read("usage_history", params=query, tenant_id=tenant_id)

    def get_tenant_statistics(self, *, tenant_id: str | None = None) -> ApiReply:
        """
        Read the statistics of all sites of the tenant (``GET …/tenants/{tenant_id}/statistics``).

        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the statistics.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("tenant_statistics", tenant_id=tenant_id)

    def get_site(self, *, site_id: str | None = None) -> ApiReply:
        """
        Read the record of the site (``GET …/sites/{site_id}``).

        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the record.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("site", site_id=site_id)

    def get_statistics(self, *, site_id: str | None = None) -> ApiReply:
        """
        Read the site's statistics (``GET …/statistics``).

        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the statistics.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("statistics", site_id=site_id)

    def get_sessions(self, params: Mapping[str, str] | None = None, *, site_id: str | None = None) -> ApiReply:
        """
        Read the sessions of the site (``GET …/sites/{site_id}/sessions``), the first page if the list has pages.

        :param params: Query parameters, such as those of another page. Default: None.
        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the sessions.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("sessions", params=params, site_id=site_id)

    def get_user_statistics(self, email: str, *, site_id: str | None = None) -> ApiReply:
        """
        Read the statistics of a user of the site (``GET …/sites/{site_id}/users/{email}/statistics``).

        Logs, errors and spans of the request have a label of the user, never the address. The reply is as received.

        :param email: E-mail address of the user.
        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the statistics.
        :raises AssistantInputError: ``email`` is not an e-mail address; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.read("user_statistics", email=email, site_id=site_id)

    def read(
        self,
        name: str,
        *,
        email: str | None = None,
        params: Mapping[str, str] | None = None,
        tenant_id: str | None = None,
        site_id: str | None = None,
    ) -> ApiReply:
        """
        Read something by its name in :data:`.reads.READS`.

        :param name: The name, such as ``usage``.
        :param email: E-mail address of the user, for ``user_statistics``. Default: None.
        :param params: Query parameters. Default: None.
        :param tenant_id: Tenant to read. Default: None, the hook's or the connection's.
        :param site_id: Site to read. Default: None, the hook's or the connection's.
        :return: The reply; ``raw`` holds the JSON as received.
        :raises AssistantInputError: There is no such name, or an id is missing; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        ids: dict[str, str] = {}
        if reads.needs(name, "tenant_id"):
            ids["tenant_id"] = self.resolve_tenant_id(tenant_id)
        if reads.needs(name, "site_id"):
            ids["site_id"] = self.resolve_site_id(site_id)
        return self.send(reads.read(name, email=email, params=params, **ids))

    def call(self, method: str, path: str, json: Mapping[str, Any] | None = None) -> ApiReply:
        """
        Send a request to a route that no other method covers.

        :param method: HTTP method, in upper or lower case.
        :param path: Path below the base URL, already percent-encoded, such as ``/m2m/tenants/acme-inc/usage``.
        :param json: JSON object to send as the body. Default: None, no body.
        :return: The reply; ``raw`` holds the JSON as received.
        :raises AssistantInputError: ``path`` is a full URL or leaves the base URL; nothing was sent.
        :raises AssistantError: The call failed; see the errors that :class:`.AssistantHook` lists.
        """
        return self.send(endpoints.other(method, path, json))
