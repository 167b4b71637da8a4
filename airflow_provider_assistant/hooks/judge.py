"""Read the Airflow connection of a model's host: any service with OpenAI's ``POST …/chat/completions``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from airflow.providers.common.compat.sdk import BaseHook, Connection

from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.connection import api_key_of, extra_of, warn_of_http

# Models take longer than the assistant's other requests.
TIMEOUT = 120.0
# Base URL by provider of the model, for connections without a host.
BASE_URLS = {"openai": "https://api.openai.com/v1"}
# With protocol and host; without a user, a query or a fragment.
_BASE_URL = re.compile(r"(https?)://([^/@?#\s\[\]]+|\[[\da-f:.]+\](?::\d+)?)(?:/[^@?#]*)?", re.IGNORECASE)


class JudgeConnection(NamedTuple):
    """
    The settings of a model's host.

    :param model: Name of the model, without its provider.
    """

    client: ClientSettings
    model: str


def judge_connection(conn_id: str, model: str | None, max_concurrency: int) -> JudgeConnection:
    """
    Read the connection of a model's host.

    It has the fields of the type ``pydanticai`` of apache-airflow-providers-common-ai: the password is the API key, the
    host is the base URL, and the extra ``model`` is ``provider:name``. That provider need not be installed.

    :param model: Model that overrides the connection's, ``provider:name`` or only the name; or None.
    :raises AssistantInputError: No model is given, the connection has no host and the provider is not ``openai``, or
        it has no API key for ``openai``.
    """
    connection: Connection = BaseHook.get_connection(conn_id)
    provider, name = _model(conn_id, model or extra_of(connection).get("model"))
    api_key = api_key_of(connection)
    base_url = _base_url(connection, provider)
    if not api_key and base_url in BASE_URLS.values():
        raise AssistantInputError(
            f"connection {conn_id!r} has no API key, which {base_url} needs",
            todo="Put it into the password field.",
            field="password",
        )
    settings = ClientSettings(
        base_url=base_url,
        api_key=api_key,
        timeout=TIMEOUT,
        max_concurrency=max_concurrency,
        bearer=True,
        read_again=lambda: judge_connection(conn_id, model, max_concurrency).client,
    )
    return JudgeConnection(settings, name)


def _model(conn_id: str, model: Any) -> tuple[str, str]:
    """Return provider and name of a model; the provider is ``openai`` if only the name is given."""
    text = model.strip() if isinstance(model, str) else ""
    provider, colon, name = text.partition(":")
    if not colon:
        provider, name = "openai", text
    if not name:
        raise AssistantInputError(
            "judge: no model is given",
            todo=f"Set 'model' in the extra of connection {conn_id!r}, such as "
            '{"model": "openai:gpt-5.6"}, or in the operator\'s judge.',
            field="judge",
        )
    return provider, name


def _base_url(connection: Connection, provider: str) -> str:
    name = f"connection {connection.conn_id!r}"
    host = (connection.host or "").strip().rstrip("/")
    if not host:
        if provider not in BASE_URLS:
            raise AssistantInputError(
                f"{name} has no host, and {provider!r} has no known base URL",
                todo=f"Set the host to the OpenAI-compatible base URL of {provider!r}, such as "
                "http://localhost:11434/v1.",
                field="host",
            )
        return BASE_URLS[provider]
    url = _BASE_URL.fullmatch(host)
    if url is None:
        # Keep the host out of the message: a user may have put the API key there.
        raise AssistantInputError(
            f"{name}: the host must be a base URL with its protocol, such as https://models.example.com/v1, without a "
            "user, a query or a fragment",
            field="host",
        )
    if connection.password:
        warn_of_http(name, *url.groups())
    # The scheme in lower case: the client compares it.
    return host.replace(url[1], url[1].lower(), 1)
