"""
The limits of the tenant, read once before the first request of a load.

The specification shows neither the fields nor the values of the limits. A load therefore logs what they say, and stops
or leaves rows out only on request. Limits that lack the used amount need a second request, which reads the usage.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from airflow_provider_assistant.api.errors import short_reason
from airflow_provider_assistant.api.reads import read
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantAPIError,
    AssistantError,
    AssistantInputError,
)
from airflow_provider_assistant.lake import flatten
from airflow_provider_assistant.ledger import ScopeLedger
from airflow_provider_assistant.loading.document_limits import DocumentLimits, document_limits, needs_usage
from airflow_provider_assistant.loading.options import LoadOptions, OnLimit
from airflow_provider_assistant.texts import counted, escaped, shortened

# Statuses of a usage that this service or API key does not offer.
NOT_OFFERED: Final = frozenset({403, 404, 405, 501})
# A load with fewer rows to send, or with a smaller share of what the ledger knows of its source, is usual growth.
LEAST_ROWS, LEAST_SHARE = 20, 0.5
# Characters of the limits in the log.
LOGGED = 1000
NO_ROOM = "the tenant's limit leaves no room for it; the next run sends it if there is room"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LimitReplies:
    """
    Hold what the service says about the documents of a tenant.

    :param limits: The reply of ``GET …/limits``.
    :param usage: The reply of ``GET …/usage``. Default: None, not needed or not available.
    """

    limits: Any
    usage: Any = None


ReadLimits: TypeAlias = Callable[[], Awaitable[LimitReplies | None]]


def limits_reader(
    settings: ClientSettings, tenant_id: str | None, on_limit: OnLimit, limits_field: str | None = None
) -> ReadLimits | None:
    """
    Return the function that reads the tenant's limits for a load, or None if the load is not to read them.

    :param tenant_id: None if it is not known.
    :param limits_field: Path of the limit of documents. Default: None, the usual names.
    """
    if on_limit == "ignore" or not tenant_id:
        return None
    return partial(read_limits, settings, tenant_id, limits_field)


async def read_limits(settings: ClientSettings, tenant_id: str, limits_field: str | None = None) -> LimitReplies | None:
    """
    Read the tenant's limits with one request, or two if they lack the used amount, and log them.

    The requests are not retried and have their own client: if one fails, or the service asks it to back off, the load
    goes on as if there were no limits.

    :param limits_field: Path of the limit of documents. Default: None, the usual names.
    :return: The replies as received; None if the limits cannot be read.
    """
    without_retries = replace(settings.retry, attempts=1)
    async with AssistantClient(replace(settings, retry=without_retries)) as client:
        try:
            limits = await client.asend(read("limits", tenant_id=tenant_id))
        except AssistantError as error:
            log.warning("The load goes on without the limits of tenant %r, which cannot be read: %s", tenant_id, error)
            return None
        log.info("The limits of tenant %r: %s.", tenant_id, _listed(limits.raw))
        if not lacks_usage(limits.raw, limits_field):
            return LimitReplies(limits.raw)
        try:
            usage = await client.asend(read("usage", tenant_id=tenant_id))
        except AssistantError as error:
            level, message = unread_usage(error)
            log.log(level, "%s", message)
            return LimitReplies(limits.raw)
    log.info("The usage of tenant %r: %s.", tenant_id, _listed(usage.raw))
    return LimitReplies(limits.raw, usage.raw)


def lacks_usage(limits: Any, limits_field: str | None) -> bool:
    """
    Return whether the usage is needed to know how many documents may be created.

    :param limits: The reply of ``GET …/limits``.
    :return: False also if the limits do not have the named field, which :func:`.document_limits` reports.
    """
    try:
        return needs_usage(limits, limits_field)
    except AssistantInputError:
        return False


def unread_usage(error: AssistantError) -> tuple[int, str]:
    """
    Return the level and the text of the message about a usage that cannot be read.

    :param error: Error of the request.
    """
    if isinstance(error, AssistantAPIError) and error.status in NOT_OFFERED:
        return logging.INFO, f"The service does not show the usage of the tenant ({short_reason(error)})."
    return logging.WARNING, f"The usage of the tenant cannot be read: {error}"


def _listed(raw: Any) -> str:
    listed = ", ".join(f"{value.metric} {value.text}" for value in flatten(raw))
    return shortened(escaped(listed), LOGGED)


def known_limits(replies: LimitReplies, options: LoadOptions) -> DocumentLimits:
    """
    Return what the limits of a tenant say about documents, for a load.

    :raises AssistantInputError: The reply does not have the named field, and the load is to respect the limits.
    """
    try:
        limits = document_limits(replies.limits, options.limits_field, replies.usage)
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


def warn_of_unknown_documents(limits: DocumentLimits, ledger: ScopeLedger, to_send: int) -> None:
    """
    Warn if what a load is about to create may be on the site already, because the ledger is new or was restored.

    Other programs may create documents of the tenant as well, so a difference alone says nothing. It is reported if it
    is large enough for all rows to send, and these are many compared with what the ledger knows of the source.

    :param to_send: Number of rows to send.
    """
    if limits.used is None or to_send < LEAST_ROWS:
        return
    if to_send < LEAST_SHARE * ledger.size():
        return
    known = ledger.size_of_tenant()
    if limits.used - known < to_send:
        return
    log.warning(
        "The tenant has %s, and the ledger knows %d of them. If the ledger was lost or restored from a backup, this "
        "load may create documents a second time (%s to send): stop the load, and run `airflow assistant ledger "
        "rebuild` or restore a newer ledger first. If other programs created the other documents, nothing needs to be "
        "done.",
        counted(limits.used, "document"),
        known,
        counted(to_send, "row"),
    )


def check_limits(limits: DocumentLimits, documents: int, on_limit: OnLimit) -> int | None:
    """
    Compare the documents that a load creates with the tenant's limits.

    :param documents: Number of documents that the load would create.
    :return: Number of documents to create; None for all.
    :raises AssistantInputError: They do not fit, and ``on_limit`` is ``fail``.
    """
    if limits.left is None or documents <= limits.left:
        return None
    problem = f"{counted(documents, 'document')} would be created. {limits}"
    if on_limit == "fail":
        raise AssistantInputError(
            problem.removesuffix("."),
            safe=NOTHING_SENT,
            todo="To make room, delete superseded and stale documents at the service, or ask for a higher limit. With "
            "on_limit='fit', the documents that fit are created, and later runs create the others.",
            field="on_limit",
        )
    if on_limit == "fit":
        log.warning(
            "%s Of these, %d are sent, in the order of the source; the others are skipped.", problem, limits.left
        )
        return limits.left
    log.warning("%s The load goes on. on_limit='fail' or 'fit' sends no more than fits.", problem)
    return None
