"""The settings of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.api.status import StatusMapping


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """
    Settings of a client.

    :param base_url: Versioned base URL, ending in ``/api/v1``.
    :param api_key: Value of the ``X-API-Key`` header.
    :param timeout: Response timeout in seconds, from the end of the request to the last byte of the response.
        Default: 30.
    :param chat_timeout: The same for a ``POST …/chat``, whose response is the answer. Default: 90.
    :param retry: Retry rule of one call. Default: :class:`~airflow_provider_assistant.api.flow.RetryPolicy` with its
        defaults.
    :param max_concurrency: Maximum number of requests in flight, and of open connections. Default: 32.
    :param verify: Whether to verify TLS certificates, or the path of a CA bundle to verify them with. Default: True.
    :param max_response_bytes: Maximum size of a response body in bytes, after decompression; reading stops there.
        Default: 16 MiB.
    :param client_cert: Path of the client certificate in PEM format, for a service that requires one. Default: None.
    :param client_key: Path of its private key. Default: None, the key is in the file of the certificate.
    :param words: Status words that end polling. Default: the built-in ones.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 30.0
    chat_timeout: float = 90.0
    retry: RetryPolicy = RetryPolicy()
    max_concurrency: int = 32
    verify: bool | str = True
    max_response_bytes: int = 16 * 1024 * 1024
    client_cert: str | None = None
    client_key: str | None = None
    words: StatusMapping = StatusMapping()

    def timeout_of(self, call: Call[Any]) -> float:
        """
        Return the response timeout of a call in seconds.

        :param call: The call.
        """
        return self.chat_timeout if call.timeout_field == "chat_timeout" else self.timeout
