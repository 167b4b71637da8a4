"""Read an Airflow connection of type ``assistant`` into settings."""

from __future__ import annotations

import difflib
import json
import logging
import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from airflow.providers.common.compat.sdk import Connection
from pydantic import ValidationError

from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.api.status import StatusMapping
from airflow_provider_assistant.client.redaction import SURELY_SECRET, is_recognisable
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.extra import ConnectionExtra
from airflow_provider_assistant.ledger.scopes import service_of

log = logging.getLogger(__name__)

API_ROOT = "/api/v1"
LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Settings that were read from one connection.

    :param service: Name of the service, which tells services apart in the ledger and in the datasets.
    :param documents: Routes that list, change and delete documents. None if the connection does not switch them on.
    """

    client: ClientSettings
    service: str
    tenant_id: str | None = None
    site_id: str | None = None
    documents: DocumentRoutes | None = None

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return the settings of a connection from the form, a URI, JSON or a secrets backend; or an input error."""
        name = f"connection {connection.conn_id!r}"
        api_key, url = api_key_of(connection), base_url(connection)
        given = extra_of(connection)
        _warn_of_unknown(name, given)
        try:
            extra = ConnectionExtra.model_validate(given)
            documents = _routes(extra.manage_documents)
        except ValidationError as invalid:
            raise _invalid(name, invalid) from None
        if not extra.verify:
            log.warning(
                "%s has verify=false: anyone between this machine and the service can read the API key and forge "
                "answers. To accept a private certificate, set ca_bundle instead.",
                name,
            )
        client = ClientSettings(
            base_url=url,
            api_key=api_key,
            timeout=extra.timeout,
            chat_timeout=extra.chat_timeout,
            retry=RetryPolicy(attempts=extra.retries + 1),
            max_concurrency=extra.max_concurrency,
            verify=(extra.ca_bundle or True) if extra.verify else False,
            client_cert=extra.client_cert,
            client_key=extra.client_key,
            words=StatusMapping().extended(complete=extra.complete_words, failed=extra.failed_words),
        )
        service = extra.service_name or service_of(url)
        return cls(client, service, extra.tenant_id, extra.site_id, documents)


def extra_of(connection: Connection) -> dict[str, Any]:
    """Return the decoded extra of a connection; for invalid JSON, Airflow's ``extra_dejson`` is an empty object."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise AssistantInputError(f"connection {connection.conn_id!r}: the extra must be a JSON object", field="extra")
    return extra


def _warn_of_unknown(name: str, extra: dict[str, Any]) -> None:
    known = list(ConnectionExtra.model_fields)
    for field in extra:
        if field in known:
            continue
        # Old forms of Airflow wrote extra__assistant__site_id.
        plain = field.lower().replace("-", "_").rpartition("__")[2]
        similar = difflib.get_close_matches(plain, known, n=1)
        advice = f"Did you mean {similar[0]}?" if similar else f"The known fields are {', '.join(known)}."
        log.warning("%s: the field %r in the extra has no effect. %s", name, field, advice)


def _routes(value: Any) -> DocumentRoutes | None:
    """Return the routes of documents: the usual ones for ``true``, none for ``false``, or those in a JSON object."""
    if isinstance(value, str):
        try:
            value = json.loads(value.lower() if value.lower() in {"true", "false"} else value)
        except ValueError:
            # Pydantic says that it must be an object.
            return DocumentRoutes.model_validate(value)
    if value is True:
        value = {}
    return None if value in (None, False) else DocumentRoutes.model_validate(value)


def _invalid(name: str, invalid: ValidationError) -> AssistantInputError:
    """Return the error about invalid fields. It does not repeat values: one may be a secret in the wrong field."""
    errors = invalid.errors()
    above = ["manage_documents"] if invalid.title == "DocumentRoutes" else []
    paths = [[*above, *(part for part in error["loc"] if isinstance(part, str))] for error in errors]
    reasons = [error["msg"].removeprefix("Value error, ") for error in errors]
    problems = [f"{'.'.join(path)}: {reason}" for path, reason in zip(paths, reasons, strict=True)]
    return AssistantInputError(f"{name}: invalid extra: {'; '.join(problems)}", field=paths[0][0])


def api_key_of(connection: Connection) -> str:
    """Return the API key of a connection; an error if there is none that an HTTP header can carry."""
    name = f"connection {connection.conn_id!r}"
    api_key = (connection.password or "").strip()
    if not api_key:
        raise AssistantInputError(f"{name} has no API key", todo="Put it into the password field.", field="password")
    if not api_key.isascii() or not api_key.isprintable():
        raise AssistantInputError(
            f"{name}: the API key has characters that an HTTP header cannot carry",
            todo="Use printable ASCII only.",
            field="password",
        )
    if not is_recognisable(api_key):
        log.warning(
            "%s: the API key looks like an ordinary word or number. It is not redacted from the service's replies, "
            "because that would remove the word from them as well. Outside of development, use a key of at least %d "
            "characters.",
            name,
            SURELY_SECRET,
        )
    return api_key


def base_url(connection: Connection) -> str:
    """
    Return the versioned base URL of a connection, ending in ``/api/v1`` or another version, without a slash.

    The host field may hold a full URL or only a host name, with or without the API root. Airflow's URI form puts the
    path after the host into ``schema``; ``schema`` may also hold the protocol. The default protocol is https.
    """
    name = f"connection {connection.conn_id!r}"
    # Airflow percent-encodes parts of a connection's URI; a host name never contains '%'.
    host = unquote((connection.host or "").strip())
    if set(host) & set("@?#"):
        # Keep the host out of the message: a user may have put the API key there.
        raise AssistantInputError(
            f"{name}: the base URL must not have a user, a query or a fragment",
            todo="Put the API key into the password field.",
            field="host",
        )
    protocol, path = "https", unquote(connection.schema or "").strip().strip("/")
    if path.lower() in {"http", "https"}:
        protocol, path = path, ""
    if "://" not in host:
        # Airflow's URI form removes the brackets of an IPv6 address.
        is_ipv6 = host.count(":") > 1 and not host.startswith("[")
        host = f"{protocol}://[{host}]" if is_ipv6 else f"{protocol}://{host}"
    try:
        parts = urlsplit(host)
        # Airflow's connection form sends an empty port as 0.
        port = parts.port or connection.port or None
        # No request can be sent to a name with an empty or a long part.
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise AssistantInputError(f"{name}: the base URL {host!r} has an invalid port or host", field="host") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AssistantInputError(
            f"{name}: the host must be the service's base URL, such as https://assistant.example.com; "
            f"got {connection.host!r}",
            field="host",
        )
    netloc = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is not None:
        netloc = f"{netloc}:{port}"
    if parts.scheme == "http" and not LOOPBACK.fullmatch(parts.hostname):
        log.warning("%s uses http: the API key travels unencrypted to %s", name, netloc)
    root = "".join(f"/{quote(part)}" for part in (parts.path.strip("/"), path) if part)
    more = re.search(r"/api/v\d+(/.+)", root)
    if more:
        raise AssistantInputError(
            f"{name}: the base URL must end before {more[1]!r}, which belongs to single routes", field="host"
        )
    if not re.search(r"/api/v\d+$", root):
        root += API_ROOT
    return f"{parts.scheme}://{netloc}{root}"
