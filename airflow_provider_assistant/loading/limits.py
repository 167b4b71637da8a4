"""The limits of the tenant: read once before the rows of a load are sent, and logged. They stop nothing."""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_provider_assistant.api.endpoints import get_limits
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.lake.rows import values_of, with_digits
from airflow_provider_assistant.texts import escaped, shortened

# Characters of the limits in the log.
LOGGED = 1000

log = logging.getLogger(__name__)


async def log_limits(settings: ClientSettings, tenant_id: str) -> None:
    """
    Read the tenant's limits with one request, without retries, and log every value that they have.

    The names of their fields are not specified, so nothing is concluded from them.
    """
    once = replace(settings.retry, attempts=1)
    async with AssistantClient(replace(settings, retry=once)) as client:
        try:
            limits = await client.asend(get_limits(tenant_id))
        except AssistantError as error:
            log.warning("The load goes on without the limits of tenant %r, which cannot be read: %s", tenant_id, error)
            return
    listed = ", ".join(f"{value.metric} {value.text}" for value in values_of(with_digits(limits.raw_json)))
    log.info("The limits of tenant %r: %s.", tenant_id, shortened(escaped(listed), LOGGED))
