"""Read the Airflow connection of an Iceberg catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.hooks.connection import extra_of

# Properties whose values are secrets, such as s3.secret-access-key or header.Authorization.
_SECRET = re.compile(r"secret|token|password|credential|authorization|account-key", re.IGNORECASE)
_PASSWORD_IN_URI = re.compile(r"://[^/@]*?:([^@]+)@")


def iceberg_properties(conn_id: str | None, properties: Mapping[str, str] | None = None) -> dict[str, Any]:
    """
    Return the properties of an Iceberg catalog, and have Airflow mask the secrets among them in logs.

    A connection has the fields of the type ``iceberg`` of apache-airflow-providers-apache-iceberg, which need not
    be installed: the host is the URI of the catalog, login and password are client id and secret, and the extra has
    further properties. Without ``type`` in the extra, it is a REST catalog.

    :param conn_id: Airflow connection, or None.
    :param properties: Properties that override those of the connection.
    :raises AssistantInputError: The extra is not a JSON object, or only one of client id and secret is set.
    """
    found = _of_connection(conn_id) if conn_id is not None else {}
    found.update(properties or {})
    for secret in _secrets_of(found):
        mask_secret(secret)
    return found


def _of_connection(conn_id: str) -> dict[str, Any]:
    connection: Connection = BaseHook.get_connection(conn_id)
    found: dict[str, Any] = {"type": "rest"}
    for name, value in extra_of(connection).items():
        # pyiceberg expects texts, such as "true" or "8".
        found[name] = str(value).lower() if isinstance(value, bool | int | float) else value
    if connection.host:
        found["uri"] = connection.host.rstrip("/")
    if found["type"] != "rest" or not (connection.login or connection.password):
        return found
    if not (connection.login and connection.password):
        raise AssistantInputError(
            f"connection {conn_id!r} has only one of client id (login) and client secret (password)",
            safe=NOTHING_CHANGED,
            field="password",
        )
    found["credential"] = f"{connection.login}:{connection.password}"
    return found


def _secrets_of(properties: Mapping[str, Any]) -> Iterator[str]:
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _secrets_of(value)
        elif _SECRET.search(name):
            yield str(value)
        elif password := _PASSWORD_IN_URI.search(str(value)):
            yield password[1]
