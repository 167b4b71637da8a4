"""The limits of the tenant, read once before the first request of a load: which of its documents do not fit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from airflow_provider_assistant.api.endpoints import get_limits
from airflow_provider_assistant.api.limits import DocumentLimits, document_limits
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantInputError
from airflow_provider_assistant.loading.decisions import SEND, Decision
from airflow_provider_assistant.loading.options import OnLimit
from airflow_provider_assistant.loading.rows import PreparedRow

log = logging.getLogger(__name__)

ReadLimits: TypeAlias = Callable[[], Awaitable[DocumentLimits]]

NO_ROOM = Decision("skipped", "the tenant's limit leaves no room for it; the next run sends it if there is room")


def limits_reader(settings: ClientSettings, tenant_id: str | None, on_limit: OnLimit) -> ReadLimits | None:
    """
    Return the function that reads the tenant's limits for a load, or None if the load is not to read them.

    :param settings: Settings of the connection.
    :param tenant_id: The tenant. None if it is not known.
    :param on_limit: Option of the load.
    """
    if on_limit == "ignore" or not tenant_id:
        return None
    return partial(read_limits, settings, tenant_id)


async def read_limits(settings: ClientSettings, tenant_id: str) -> DocumentLimits:
    """
    Read the tenant's limits with one request.

    The request is not retried and has its own client: if it fails, or the service asks it to back off, the load goes on
    as if there were no limits.

    :param settings: Settings of the connection.
    :param tenant_id: The tenant.
    :return: The limits; empty if they cannot be read.
    """
    once = replace(settings, retry=replace(settings.retry, attempts=1))
    try:
        async with AssistantClient(once) as client:
            reply = await client.asend(get_limits(tenant_id))
    except AssistantError as error:
        log.warning("The load goes on without the limits of tenant %r, which cannot be read: %s", tenant_id, error)
        return DocumentLimits()
    limits = document_limits(reply.raw)
    if limits.left is None:
        log.info("The limits of tenant %r do not say how many documents it may still create.", tenant_id)
    else:
        log.info("Tenant %r may create %d more documents.", tenant_id, limits.left)
    return limits


class Room:
    """
    Hold what a load may still send within the tenant's limits.

    :param limits: The limits.
    """

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._left = limits.left

    def take(self, row: PreparedRow) -> Decision:
        """
        Take the room of a row that is to be sent, in the order of the source.

        :param row: The row.
        :return: :data:`.decisions.SEND`, or why the row is not sent.
        """
        if self.is_too_large(row):
            largest = self._limits.file_bytes
            return Decision("rejected", f"the file has {row.size} bytes; the tenant's limits allow {largest}")
        if self._left == 0:
            return NO_ROOM
        if self._left is not None:
            self._left -= 1
        return SEND

    def is_too_large(self, row: PreparedRow) -> bool:
        """Return whether a row is a file that is larger than the limits allow."""
        largest = self._limits.file_bytes
        return largest is not None and row.size is not None and row.size > largest


def check_room(limits: DocumentLimits, documents: int, on_limit: OnLimit) -> None:
    """
    Refuse a load that would create more documents than the tenant's limits allow, or log how many do not fit.

    :param limits: The limits; ``left`` is known.
    :param documents: Number of documents that the load would create.
    :param on_limit: Option of the load.
    :raises AssistantInputError: They do not fit, and ``on_limit`` is ``fail``.
    """
    left = limits.left or 0
    if documents <= left:
        return
    known = "" if limits.limit is None or limits.used is None else f" ({limits.used} of {limits.limit} are used)"
    problem = f"{documents} documents would be created, but the tenant's limits allow {left} more{known}"
    if on_limit == "fit":
        log.warning("%s. The first %d are created; the others are skipped.", problem, left)
        return
    raise AssistantInputError(
        problem,
        safe=NOTHING_SENT,
        todo="To make room, delete superseded and stale documents at the service, or ask for "
        "a higher limit. With on_limit='fit', the documents that fit are created, and later runs create the others. If "
        "these limits do not apply to the documents of this site, set on_limit='ignore'.",
        field="on_limit",
    )
