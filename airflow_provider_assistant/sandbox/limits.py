"""Rate limits of the keys and quotas of the plans."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.chats import Chats, month
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.timestamps import iso, next_month

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox.documents import Documents
    from airflow_provider_assistant.sandbox.settings import Settings
    from airflow_provider_assistant.sandbox.tenants import Key

# Waiting does not free a document quota; the header only slows clients down.
_DOCUMENTS_RETRY_AFTER = 3600


class RateLimiter:
    """A token bucket for each key."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, name: str, settings: Settings, now: float) -> float:
        """Take a token and return 0, or return the seconds until the next token.

        :param name: name of the key.
        :param settings: current settings with rate and burst.
        :param now: current time, in seconds since the epoch.
        """
        rate = settings.rate_limit
        if rate is None:
            return 0.0
        capacity = float(settings.rate_burst or max(1, math.ceil(rate)))
        tokens, at = self._buckets.get(name, (capacity, now))
        tokens = min(capacity, tokens + max(0.0, now - at) * rate)
        taken = tokens >= 1
        self._buckets[name] = (tokens - taken, now)
        return 0.0 if taken else (1 - tokens) / rate

    def clear(self) -> None:
        """Fill all buckets."""
        self._buckets.clear()


class Quotas:
    """Check the usage of the tenants against the quotas of their plans.

    :param documents: the documents.
    :param chats: the chat requests.
    """

    def __init__(self, documents: Documents, chats: Chats) -> None:
        self._documents = documents
        self._chats = chats

    def report(self, key: Key, settings: Settings, now: float) -> dict[str, Any]:
        """Return the limits reply of a tenant.

        :param key: API key of the caller.
        :param settings: current settings.
        :param now: current time, in seconds since the epoch.
        """
        tenant = key.tenant.tenant_id
        rate = settings.rate_limit
        return {
            "tenant_id": tenant,
            "plan": key.plan.name,
            "sites": list(key.tenant.sites),
            "capabilities": {"write": not key.read_only, "async_chat": key.plan.async_chat},
            "limits": {
                "documents": {
                    "limit": _either(settings.documents_quota, key.plan.documents),
                    "used": self._documents.held[tenant],
                    "resets_at": None,
                },
                "messages": {
                    "limit": _either(settings.messages_quota, key.plan.messages),
                    "used": self._chats.sent[tenant, month(now)],
                    "resets_at": iso(next_month(now)),
                },
                "requests_per_second": {"limit": rate, "used": None, "resets_at": None},
            },
        }

    def check_documents(self, key: Key, settings: Settings) -> None:
        """Refuse the request if the tenant's document quota is used up.

        :param key: API key of the caller.
        :param settings: current settings.
        """
        limit = _either(settings.documents_quota, key.plan.documents)
        if self._documents.held[key.tenant.tenant_id] >= limit:
            raise ApiError(
                429,
                f"The plan's {limit} documents are used up.",
                code="documents_quota_exceeded",
                retry_after=_DOCUMENTS_RETRY_AFTER,
            )

    def check_messages(self, key: Key, settings: Settings, now: float) -> None:
        """Refuse the request if the tenant's message quota of this month is used up.

        :param key: API key of the caller.
        :param settings: current settings.
        :param now: current time, in seconds since the epoch.
        """
        limit = _either(settings.messages_quota, key.plan.messages)
        if self._chats.sent[key.tenant.tenant_id, month(now)] >= limit:
            raise ApiError(
                429,
                f"The plan's {limit} messages of this month are used up.",
                code="messages_quota_exceeded",
                retry_after=math.ceil(next_month(now) - now),
            )


def _either(override: int | None, plan: int) -> int:
    return plan if override is None else override
