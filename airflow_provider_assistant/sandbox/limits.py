"""Rate limits of the keys and quotas of the plans. Times are in seconds since the epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.timestamps import iso, month, next_month

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox.chats import Chats
    from airflow_provider_assistant.sandbox.documents import Documents
    from airflow_provider_assistant.sandbox.faults import Faults
    from airflow_provider_assistant.sandbox.settings import Settings
    from airflow_provider_assistant.sandbox.tenants import Key

# Waiting does not free a document quota; the header only slows clients down.
_DOCUMENTS_RETRY_AFTER = 3600


@dataclass(slots=True)
class _Bucket:
    tokens: float
    updated_at: float


class RateLimiter:
    """A token bucket for each key."""

    def __init__(self) -> None:
        self._bucket_by_key: dict[str, _Bucket] = {}

    def wait(self, name: str, settings: Settings, now: float) -> float:
        """Take a token and return 0, or return the seconds until the next token."""
        rate = settings.rate_limit
        if rate is None:
            return 0.0
        capacity = float(settings.rate_burst or max(1, math.ceil(rate)))
        bucket = self._bucket_by_key.setdefault(name, _Bucket(capacity, now))
        added = max(0.0, now - bucket.updated_at) * rate
        bucket.tokens = min(capacity, bucket.tokens + added)
        bucket.updated_at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / rate
        bucket.tokens -= 1
        return 0.0

    def clear(self) -> None:
        """Fill all buckets."""
        self._bucket_by_key.clear()


class Quotas:
    """Check the usage of the tenants against the quotas of their plans, or of the settings."""

    def __init__(self, documents: Documents, chats: Chats, faults: Faults) -> None:
        self._documents = documents
        self._chats = chats
        self._faults = faults

    def report(self, key: Key, now: float) -> schemas.LimitsReply:
        """Return the limits of a tenant, and how much of them is used."""
        documents: dict[str, Any] = {
            "limit": self._documents_quota(key),
            "used": self._documents.held[key.tenant.tenant_id],
            "resets_at": None,
        }
        messages: dict[str, Any] = {
            "limit": self._messages_quota(key),
            "used": self._chats.sent[key.tenant.tenant_id, month(now)],
            "resets_at": iso(next_month(now)),
        }
        rate_limit = self._faults.settings.rate_limit
        rate: dict[str, Any] = {"limit": rate_limit, "used": None, "resets_at": None}
        values_by_limit = {
            "documents": documents,
            "messages": messages,
            "requests_per_second": rate,
        }
        limits = {}
        for name, values in values_by_limit.items():
            if not self._faults.settings.usage_in_limits:
                del values["used"]
            limits[name] = schemas.Limit.model_validate(values)
        return schemas.LimitsReply(
            tenant_id=key.tenant.tenant_id,
            plan=key.plan.name,
            sites=list(key.tenant.sites),
            capabilities=schemas.Capabilities(
                write=not key.read_only,
                async_chat=key.plan.async_chat,
            ),
            limits=limits,
        )

    def check_documents(self, key: Key) -> None:
        """Refuse the request if the tenant's document quota is used up."""
        limit = self._documents_quota(key)
        if self._documents.held[key.tenant.tenant_id] >= limit:
            raise ApiError(
                429,
                f"The plan's {limit} documents are used up.",
                code="documents_quota_exceeded",
                retry_after=_DOCUMENTS_RETRY_AFTER,
            )

    def check_messages(self, key: Key, now: float) -> None:
        """Refuse the request if the tenant's message quota of this month is used up."""
        limit = self._messages_quota(key)
        if self._chats.sent[key.tenant.tenant_id, month(now)] >= limit:
            raise ApiError(
                429,
                f"The plan's {limit} messages of this month are used up.",
                code="messages_quota_exceeded",
                retry_after=math.ceil(next_month(now) - now),
            )

    def _documents_quota(self, key: Key) -> int:
        quota = self._faults.settings.documents_quota
        if quota is None:
            return key.plan.documents
        return quota

    def _messages_quota(self, key: Key) -> int:
        quota = self._faults.settings.messages_quota
        if quota is None:
            return key.plan.messages
        return quota
