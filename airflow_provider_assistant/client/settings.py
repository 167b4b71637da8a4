"""The settings of a client."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.status import StatusMapping
from airflow_provider_assistant.client.retry import RetryPolicy

CONNECT_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """
    Settings of a client; most are fields of a connection, see :class:`.hooks.extra.ConnectionExtra`.

    :param base_url: Versioned base URL, ending in ``/api/v1``.
    :param verify: Whether to verify TLS certificates, or the path of a CA bundle to verify them with.
    :param max_response_bytes: Maximum size of a response body in bytes, after decompression; reading stops there.
    :param words: Status words that end polling.
    :param longest_connect: Upper limit for opening a connection, in seconds; ``timeout`` may be less.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 30.0
    chat_timeout: float = 90.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_concurrency: int = 32
    verify: bool | str = True
    max_response_bytes: int = 16 * 1024 * 1024
    client_cert: str | None = None
    client_key: str | None = None
    words: StatusMapping = StatusMapping()
    longest_connect: float = CONNECT_TIMEOUT_SECONDS

    @property
    def connect_timeout(self) -> float:
        """Timeout for opening a connection, in seconds."""
        return min(self.timeout, self.longest_connect)

    def timeout_of(self, call: Call[Any]) -> float:
        """Return the response timeout of a call in seconds."""
        return self.chat_timeout if call.timeout_field == "chat_timeout" else self.timeout

    def retrying(self, **changes: Any) -> ClientSettings:
        """Return these settings with other limits for retries, see :class:`.RetryPolicy`."""
        return replace(self, retry=replace(self.retry, **changes))
