"""
The limits of the tenant, read once before the first request of a load.

The specification shows neither the fields nor the values of the limits. A load therefore logs what they say, and stops
or leaves rows out only on request.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from airflow_provider_assistant.api.endpoints import get_limits
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantInputError
from airflow_provider_assistant.lake import Metric, flatten
from airflow_provider_assistant.loading.options import LoadOptions, OnLimit
from airflow_provider_assistant.texts import escaped, shortened

# Fields next to each other: the limit, how much of it is used, and how much is left.
LIMIT_FIELDS: Final = ("limit", "max", "maximum", "quota", "allowed")
USED_FIELDS: Final = ("used", "usage", "current", "count")
LEFT_FIELDS: Final = ("remaining", "left", "available")
# Fields of a limit that comes back with time: a load that reaches it waits.
RESET_FIELDS: Final = ("resets_at", "reset_at", "period")
# Where a reply has the limit of documents, unless the user names the field.
DOCUMENTS: Final = ("limits.documents", "documents")
# Characters of the limits in the log.
LOGGED = 1000
NO_ROOM = "the tenant's limit leaves no room for it; the next run sends it if there is room"

log = logging.getLogger(__name__)

ReadLimits: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """
    Hold what a tenant's limits say about documents.

    :param left: Number of documents that the tenant may still create. None if not known or not limited.
    :param limit: Number of documents that it may have. None if not known or not limited.
    :param used: Number of documents that it has. None if not known.
    """

    left: int | None = None
    limit: int | None = None
    used: int | None = None

    def __str__(self) -> str:
        if self.left is None:
            return "The limits do not say how many documents may still be created; limits_field names the field."
        usage = ""
        if self.limit is not None and self.used is not None:
            usage = f" ({self.used} of {self.limit} are used)"
        return f"The tenant may create {self.left} more documents{usage}."


def document_limits(raw: Any, field: str | None = None) -> DocumentLimits:
    """
    Return what the limits of a tenant say about documents.

    A limit that is null, 0, negative or text means "no limit".

    :param raw: The reply of ``GET …/tenants/{tenant_id}/limits``, of any shape.
    :param field: Path of the limit of documents, such as ``limits.documents``. It has fields such as ``limit`` and
        ``used``, or ``remaining``, or is itself the number that is left. ``documents`` also finds ``documents_limit``.
        Default: None, ``limits.documents`` or else ``documents``, unless these have a time at which they reset.
    :return: The limits; None where the reply says nothing that is understood.
    :raises AssistantInputError: The reply does not have the given field.
    """
    value_by_path = {value.metric: value for value in flatten(raw)}
    if field is None:
        return _default_limits(value_by_path)
    limits: DocumentLimits | None
    if field in value_by_path:
        # The field is itself the number of documents that are left.
        limits = DocumentLimits(left=_count(value_by_path[field]))
    else:
        limits = _limits_below(value_by_path, field)
    if limits is None:
        present_fields = shortened(", ".join(value_by_path), LOGGED)
        raise AssistantInputError(
            f"limits_field: the tenant's limits have no {field!r} with a limit and a used amount. "
            f"They have {present_fields}",
            field="limits_field",
        )
    return limits


def _default_limits(value_by_path: Mapping[str, Metric]) -> DocumentLimits:
    for path in DOCUMENTS:
        if not _is_reset_regularly(value_by_path, path):
            limits = _limits_below(value_by_path, path)
            if limits is not None:
                return limits
    return DocumentLimits()


def _limits_below(value_by_path: Mapping[str, Metric], path: str) -> DocumentLimits | None:
    """Return the limits below a path of the reply; None if it has none."""
    limit_value = _first_value(value_by_path, path, LIMIT_FIELDS)
    used_value = _first_value(value_by_path, path, USED_FIELDS)
    left_value = _first_value(value_by_path, path, LEFT_FIELDS)
    if left_value is None and (limit_value is None or used_value is None):
        return None
    limit = _count(limit_value)
    used = _count(used_value)
    left = _count(left_value)
    if limit_value is not None and not limit:
        # A limit that is null, 0, negative or text means "no limit".
        return DocumentLimits(used=used)
    if left is None and limit is not None and used is not None:
        left = max(0, limit - used)
    return DocumentLimits(left=left, limit=limit, used=used)


def _is_reset_regularly(value_by_path: Mapping[str, Metric], path: str) -> bool:
    reset_value = _first_value(value_by_path, path, RESET_FIELDS)
    return reset_value is not None and reset_value.type != "null"


def _first_value(value_by_path: Mapping[str, Metric], path: str, names: tuple[str, ...]) -> Metric | None:
    """Return the first of these fields below a path, such as ``documents.limit`` or ``documents_limit``."""
    for name in names:
        for separator in (".", "_"):
            value = value_by_path.get(f"{path}{separator}{name}")
            if value is not None:
                return value
    return None


def _count(value: Metric | None) -> int | None:
    """Return a whole number of documents; None if a field has none."""
    if value is None or value.type not in {"number", "string"}:
        return None
    text = value.text.strip().removesuffix(".0")
    # A number of 19 or more digits may not fit into 64 bits.
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return None


def limits_reader(settings: ClientSettings, tenant_id: str | None, on_limit: OnLimit) -> ReadLimits | None:
    """
    Return the function that reads the tenant's limits for a load, or None if the load is not to read them.

    :param tenant_id: None if it is not known.
    """
    if on_limit == "ignore" or not tenant_id:
        return None
    return partial(read_limits, settings, tenant_id)


async def read_limits(settings: ClientSettings, tenant_id: str) -> Any:
    """
    Read the tenant's limits with one request, and log them.

    The request is not retried and has its own client: if it fails, or the service asks it to back off, the load goes on
    as if there were no limits.

    :return: The reply as received; None if the limits cannot be read.
    """
    without_retries = replace(settings.retry, attempts=1)
    try:
        async with AssistantClient(replace(settings, retry=without_retries)) as client:
            reply = await client.asend(get_limits(tenant_id))
    except AssistantError as error:
        log.warning("The load goes on without the limits of tenant %r, which cannot be read: %s", tenant_id, error)
        return None
    listed = ", ".join(f"{value.metric} {value.text}" for value in flatten(reply.raw))
    log.info("The limits of tenant %r: %s.", tenant_id, shortened(escaped(listed), LOGGED))
    return reply.raw


def known_limits(raw: Any, options: LoadOptions) -> DocumentLimits:
    """
    Return what the limits of a tenant say about documents, for a load.

    :raises AssistantInputError: The reply does not have the named field, and the load is to respect the limits.
    """
    try:
        limits = document_limits(raw, options.limits_field)
    except AssistantInputError as error:
        if options.on_limit != "show":
            raise
        log.warning("The load goes on without the tenant's limits. %s", error)
        return DocumentLimits()
    if limits.left is None and options.on_limit != "show":
        # The user asked for a limit, and it has no effect.
        log.warning("%s", limits)
    else:
        log.info("%s", limits)
    return limits


def check_limits(limits: DocumentLimits, documents: int, on_limit: OnLimit) -> int | None:
    """
    Compare the documents that a load creates with the tenant's limits.

    :param documents: Number of documents that the load would create.
    :return: Number of documents to create; None for all.
    :raises AssistantInputError: They do not fit, and ``on_limit`` is ``fail``.
    """
    if limits.left is None or documents <= limits.left:
        return None
    problem = f"{documents} documents would be created. {limits}"
    if on_limit == "fail":
        raise AssistantInputError(
            problem.removesuffix("."),
            safe=NOTHING_SENT,
            todo="To make room, delete superseded and stale documents at the service, or ask for a higher limit. With "
            "on_limit='fit', the documents that fit are created, and later runs create the others.",
            field="on_limit",
        )
    if on_limit == "fit":
        log.warning("%s The first %d are created; the others are skipped.", problem, limits.left)
        return limits.left
    log.warning("%s The load goes on. on_limit='fail' or 'fit' sends no more than fits.", problem)
    return None
