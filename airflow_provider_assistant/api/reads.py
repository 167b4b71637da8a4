"""
The routes that only read a tenant, a site or a user, by name.

The specification shows the routes of ``limits`` and ``statistics``. The paths of the others are those of an older text
of the service's documentation, and their replies are not described.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from urllib.parse import urlencode

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.endpoints import segment
from airflow_provider_assistant.api.payloads import EMAIL
from airflow_provider_assistant.api.privacy import private_texts, user_label
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import AssistantInputError

_TENANT: Final = "/m2m/tenants/{tenant_id}"
_SITE: Final = "/m2m/sites/{site_id}"

# Path by name. Each is of a tenant, of a site, or of a user of a site.
READS: Final[Mapping[str, str]] = {
    "limits": f"{_TENANT}/limits",
    "tenant": _TENANT,
    "usage": f"{_TENANT}/usage",
    "usage_history": f"{_TENANT}/usage/history",
    "tenant_statistics": f"{_TENANT}/statistics",
    "site": _SITE,
    "statistics": f"{_SITE}/statistics",
    "sessions": f"{_SITE}/sessions",
    "user_statistics": f"{_SITE}/users/{{email}}/statistics",
}


def needs(name: str, part: str) -> bool:
    """
    Return whether the path of a read needs an id.

    :param name: A name in ``READS``.
    :param part: ``tenant_id``, ``site_id`` or ``email``.
    :raises AssistantInputError: There is no such read.
    """
    if name not in READS:
        raise AssistantInputError(
            f"there is no read {name!r}",
            todo=f"Use {', '.join(READS)}, or the path of another route.",
            field="read",
        )
    return f"{{{part}}}" in READS[name]


def read(
    name: str,
    *,
    tenant_id: str | None = None,
    site_id: str | None = None,
    email: str | None = None,
    params: Mapping[str, str] | None = None,
) -> Call[ApiReply]:
    """
    Return the call that reads something by its name.

    :param name: A name in ``READS``, such as ``usage``.
    :param tenant_id: Id of the tenant, for what is of a tenant. Default: None.
    :param site_id: Id of the site, for what is of a site. Default: None.
    :param email: E-mail address of the user, for ``user_statistics``; messages show a label instead. Default: None.
    :param params: Query parameters. Default: None, no query.
    :raises AssistantInputError: There is no such read, or an id that its path needs is empty or invalid.
    """
    parts: dict[str, Any] = {}
    if needs(name, "tenant_id"):
        parts["tenant_id"] = segment("tenant_id", tenant_id or "")
        subject = f"tenant {tenant_id!r}"
    else:
        parts["site_id"] = segment("site_id", site_id or "")
        subject = f"site {site_id!r}"
    if needs(name, "email"):
        parts["email"] = _email_segment(email)
        subject = f"{user_label(email or '')} of {subject}"
    path = with_query(READS[name].format(**parts), params)
    return Call(
        endpoint=name,
        method="GET",
        path=path,
        subject=subject,
        parse=ApiReply,
        private=private_texts(path),
    )


def with_query(path: str, params: Mapping[str, str] | None) -> str:
    """
    Return a path with query parameters.

    :param params: Value by name, not encoded; None for no parameters.
    """
    if not params:
        return path
    separator = "&" if "?" in path else "?"
    return f"{path}{separator}{urlencode(params)}"


def _email_segment(email: str | None) -> str:
    # The message does not repeat the value: it may be an address with a typing error.
    invalid = AssistantInputError("email must be one e-mail address", field="email")
    if not isinstance(email, str) or len(email) > 254 or not EMAIL.fullmatch(email):
        raise invalid
    try:
        return segment("email", email)
    except AssistantInputError:
        raise invalid from None


def day_range(start: date | None, end: date | None) -> dict[str, str]:
    """
    Return the query parameters of a range of days.

    :param start: First day. None for none.
    :param end: Last day. None for none.
    """
    query = {}
    if start is not None:
        query["from"] = start.isoformat()
    if end is not None:
        query["to"] = end.isoformat()
    return query
