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
        known = "" if self.limit is None or self.used is None else f" ({self.used} of {self.limit} are used)"
        return f"The tenant may create {self.left} more documents{known}."


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
    leaves = {leaf.metric: leaf for leaf in flatten(raw)}
    if field is None:
        places = [place for place in DOCUMENTS if not _resets(leaves, place)]
        known = [found for place in places if (found := _limits_at(leaves, place))]
        return known[0] if known else DocumentLimits()
    named = DocumentLimits(_count(leaves[field])) if field in leaves else _limits_at(leaves, field)
    if named is None:
        listed = shortened(", ".join(leaves), LOGGED)
        raise AssistantInputError(
            f"limits_field: the tenant's limits have no {field!r} with a limit and a used amount. They have {listed}",
            field="limits_field",
        )
    return named


def _limits_at(leaves: Mapping[str, Metric], place: str) -> DocumentLimits | None:
    """Return the limits at a place of the reply; None if it has none."""
    limit = _first(leaves, place, LIMIT_FIELDS)
    used = _first(leaves, place, USED_FIELDS)
    left = _first(leaves, place, LEFT_FIELDS)
    if left is None and (limit is None or used is None):
        return None
    most, taken, remaining = _count(limit), _count(used), _count(left)
    if limit is not None and not most:
        return DocumentLimits(used=taken)
    if remaining is None and most is not None and taken is not None:
        remaining = max(0, most - taken)
    return DocumentLimits(remaining, most, taken)


def _resets(leaves: Mapping[str, Metric], place: str) -> bool:
    reset = _first(leaves, place, RESET_FIELDS)
    return reset is not None and reset.type != "null"


def _first(leaves: Mapping[str, Metric], place: str, names: tuple[str, ...]) -> Metric | None:
    """Return the first of these fields that a place has."""
    for name in names:
        for separator in (".", "_"):
            leaf = leaves.get(f"{place}{separator}{name}")
            if leaf is not None:
                return leaf
    return None


def _count(leaf: Metric | None) -> int | None:
    """Return a whole number of documents; None if a field has none."""
    text = "" if leaf is None or leaf.type not in {"number", "string"} else leaf.text.strip().removesuffix(".0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


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
    once = replace(settings, retry=replace(settings.retry, attempts=1))
    try:
        async with AssistantClient(once) as client:
            reply = await client.asend(get_limits(tenant_id))
    except AssistantError as error:
        log.warning("The load goes on without the limits of tenant %r, which cannot be read: %s", tenant_id, error)
        return None
    listed = ", ".join(f"{leaf.metric} {leaf.text}" for leaf in flatten(reply.raw))
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
    is_without_effect = limits.left is None and options.on_limit != "show"
    log.log(logging.WARNING if is_without_effect else logging.INFO, "%s", limits)
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
