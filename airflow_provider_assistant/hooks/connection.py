"""From an Airflow connection of type ``assistant`` to settings."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from airflow.providers.common.compat.sdk import Connection
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from airflow_provider_assistant.api.flow import RetryRule
from airflow_provider_assistant.client import SURELY_SECRET, ClientSettings, is_recognisable
from airflow_provider_assistant.exceptions import AssistantInputError

log = logging.getLogger(__name__)

API_ROOT = "/api/v1"
VERSIONED_ROOT = re.compile(r"/api/v\d+$")
LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?", re.IGNORECASE)


def _stripped(value: Any) -> Any:
    # The connection form sends an empty string for a field that was left empty; pasted text may end in a line break.
    return value.strip() or None if isinstance(value, str) else value


def _words(value: Any) -> Any:
    return [word for word in re.split(r"[\s,]+", value) if word] if isinstance(value, str) else value


class ConnectionExtra(BaseModel):
    """
    The extra of an ``assistant`` connection; anything else in it is an error.

    The fields are those of the connection form, see :mod:`airflow_provider_assistant.provider_info`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant_id: Annotated[str | None, BeforeValidator(_stripped)] = None
    site_id: Annotated[str | None, BeforeValidator(_stripped)] = None
    timeout: Annotated[Annotated[float, Field(gt=0)] | None, BeforeValidator(_stripped)] = None
    retries: Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_stripped)] = None
    max_concurrency: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_stripped)] = None
    verify: Annotated[bool | None, BeforeValidator(_stripped)] = None
    ca_bundle: Annotated[str | None, BeforeValidator(_stripped)] = None
    max_response_bytes: Annotated[Annotated[int, Field(ge=1024)] | None, BeforeValidator(_stripped)] = None
    complete_words: Annotated[list[str] | None, BeforeValidator(_words)] = None
    failed_words: Annotated[list[str] | None, BeforeValidator(_words)] = None


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What a connection says.

    :param client: Where to send, and how.
    :param tenant_id: The tenant to use where none is given.
    :param site_id: The site to use where none is given.
    """

    client: ClientSettings
    tenant_id: str | None = None
    site_id: str | None = None


def extra_of(connection: Connection) -> dict[str, Any]:
    """
    Return the extra of a connection, decoded.

    Unlike ``extra_dejson``, it does not take an extra that is not JSON for an empty one.

    :raises AssistantInputError: The extra is not a JSON object.
    """
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise AssistantInputError(f"connection {connection.conn_id!r}: the extra must be a JSON object", field="extra")
    return extra


def settings_of(connection: Connection, extra: dict[str, Any]) -> Settings:
    """
    Read an Airflow connection.

    :param connection: The connection, whatever form it was stored in.
    :param extra: Its extra, as :func:`extra_of` returns it.
    :raises AssistantInputError: Base URL or key are missing, or the extra has a field that is unknown or bad.
    """
    name = f"connection {connection.conn_id!r}"
    api_key = (connection.password or "").strip()
    if not api_key:
        raise AssistantInputError(f"{name} has no API key: put it into the password field", field="password")
    if not api_key.isascii() or not api_key.isprintable():
        raise AssistantInputError(
            f"{name}: the API key has characters that cannot stand in an HTTP header",
            field="password",
        )
    if not is_recognisable(api_key):
        log.warning(
            "%s: the API key looks like an ordinary word or number. It is not taken out of what the service says, "
            "because replies would lose that word as well. Use a key of at least %d characters outside of development.",
            name, SURELY_SECRET,
        )  # fmt: skip
    options = _extra(name, extra)
    defaults = ClientSettings("", "")
    if options.verify is False:
        log.warning(
            "%s has verify=false: anyone between this machine and the service can read the API key and forge answers. "
            "For a certificate of your own, give its ca_bundle instead.",
            name,
        )
    retry = defaults.retry if options.retries is None else RetryRule(attempts=options.retries + 1)
    return Settings(
        client=ClientSettings(
            base_url=base_url(connection),
            api_key=api_key,
            timeout=options.timeout or defaults.timeout,
            retry=retry,
            max_concurrency=options.max_concurrency or defaults.max_concurrency,
            verify=options.verify is not False and (options.ca_bundle or True),
            max_response_bytes=options.max_response_bytes or defaults.max_response_bytes,
            words=defaults.words.extended(options.complete_words or (), options.failed_words or ()),
        ),
        tenant_id=options.tenant_id,
        site_id=options.site_id,
    )


def base_url(connection: Connection) -> str:
    """
    Return the versioned API root of a connection, ending in ``/api/v1``.

    The host may be a whole URL or only a host name, with or without the API root; Airflow's URI form puts
    what follows the host into ``schema``, where a protocol (``http``, ``https``) is understood as well.
    Without a protocol it is https.

    :raises AssistantInputError: There is no host, or the URL has parts that a base URL cannot have.
    """
    name = f"connection {connection.conn_id!r}"
    # Airflow quotes parts of a connection's URI; a host name has no use for '%'.
    host = unquote((connection.host or "").strip())
    if set(host) & set("@?#"):
        # The host stays out of the message: somebody may have put the key there.
        raise AssistantInputError(
            f"{name}: the base URL must have neither user, query nor fragment; the API key belongs into the "
            "password field",
            field="host",
        )
    schema = unquote((connection.schema or "").strip()).strip("/")
    protocol, path_below = (schema, "") if schema.lower() in {"http", "https"} else ("https", schema)
    try:
        # Airflow's URI form takes the brackets off an IPv6 address.
        parts = urlsplit(host if "://" in host else f"{protocol}://{f'[{host}]' if _is_ipv6(host) else host}")
        # Airflow's connection form sends an empty port as 0.
        port = parts.port or connection.port or None
    except ValueError:
        raise AssistantInputError(
            f"{name}: the base URL {host!r} has a port that is no number, or a host that is no address", field="host"
        ) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AssistantInputError(
            f"{name}: the host must be the service's base URL, such as https://assistant.example.com; got {host!r}",
            field="host",
        )
    hostname = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = hostname if port is None else f"{hostname}:{port}"
    path = quote("/".join(filter(None, (parts.path.strip("/"), path_below))))
    root = f"/{path}" if path else ""
    if not VERSIONED_ROOT.search(root):
        root += API_ROOT
    if parts.scheme == "http" and not LOOPBACK.fullmatch(netloc):
        log.warning("%s uses http: the API key travels unencrypted to %s", name, netloc)
    return f"{parts.scheme}://{netloc}{root}"


def _is_ipv6(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False


def _extra(name: str, extra: dict[str, Any]) -> ConnectionExtra:
    try:
        return ConnectionExtra.model_validate(extra)
    except ValidationError as invalid:
        errors = invalid.errors()
        unknown = sorted(str(error["loc"][0]) for error in errors if error["type"] == "extra_forbidden")
        known = ", ".join(sorted(ConnectionExtra.model_fields))
        if unknown:
            raise AssistantInputError(
                f"{name}: unknown extra {', '.join(unknown)}; known are {known}", field=unknown[0]
            ) from None
        # The value stays out of the message: somebody may have typed a secret into the wrong field.
        bad = "; ".join(f"{error['loc'][0]}: {error['msg']}" for error in errors)
        raise AssistantInputError(f"{name}: bad extra: {bad}", field=str(errors[0]["loc"][0])) from None
