"""Read an Airflow connection of type ``assistant`` into settings."""

from __future__ import annotations

import json
import logging
import math
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, NoReturn, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from airflow.providers.common.compat.sdk import Connection
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.api.status import word, words_of
from airflow_provider_assistant.client.network import usable_proxy
from airflow_provider_assistant.client.redaction import SURELY_SECRET, is_recognisable
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.foreign_fields import what_to_use
from airflow_provider_assistant.ledger.scopes import service_of
from airflow_provider_assistant.parameters import MOST_IN_FLIGHT

log = logging.getLogger(__name__)

API_ROOT = "/api/v1"
VERSIONED_ROOT = re.compile(r"/api/v\d+$")
LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?", re.IGNORECASE)


# A day, in seconds. asyncio and sockets fail far beyond it.
LONGEST_TIMEOUT = 86_400.0


def _stripped(value: Any) -> Any:
    # The connection form sends an empty string for an empty field; pasted text may end in a line break.
    if not isinstance(value, str):
        return value
    return value.strip() or None


def _text(value: Any) -> Any:
    """Return the text of a whole number, such as that of a site."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _stripped(value)


def _number(value: Any) -> Any:
    # Pydantic takes true for 1.
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 (pydantic expects it)
    return _stripped(value)


def _verify(value: Any) -> Any:
    value = _stripped(value)
    is_flag = value is None or isinstance(value, bool) or str(value).lower() in {"true", "false", "0", "1", "yes", "no"}
    if not is_flag:
        raise ValueError("must be true or false; the path of CA certificates belongs into ca_bundle")
    return value


def _routes(value: Any) -> Any:
    """Return the routes of documents: the usual ones for ``true``, none for ``false``, or those in a JSON object."""
    if isinstance(value, str):
        text = value.strip()
        # The form has a text field for the three of them.
        value = strict_json.loads(text.casefold() if text.casefold() in {"true", "false"} else text or "null")
    if value is True:
        return {}
    return value or None


def _statuses(value: Any) -> Any:
    """Return the statuses of a JSON list, of a text with commas, or of a single number."""
    if isinstance(value, str):
        value = strict_json.loads(value) if value.strip().startswith("[") else value.replace(",", " ").split()
    if value is not None and not isinstance(value, list):
        value = [value]
    return [_number(status) for status in value or ()]


_Text: TypeAlias = Annotated[str | None, BeforeValidator(_text)]
_Seconds: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT, allow_inf_nan=False)] | None, BeforeValidator(_number)
]
_Statuses: TypeAlias = Annotated[frozenset[Annotated[int, Field(ge=500, le=599)]], BeforeValidator(_statuses)]
_Words: TypeAlias = Annotated[list[Annotated[str, AfterValidator(word)]] | None, BeforeValidator(words_of)]


class ConnectionExtra(BaseModel):
    """
    Validate the extra of an ``assistant`` connection; an unknown field is an error.

    The fields are those of the connection form; :mod:`airflow_provider_assistant.provider_info` describes them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant_id: _Text = None
    site_id: _Text = None
    service_name: Annotated[
        Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")] | None, BeforeValidator(_text)
    ] = None
    timeout: _Seconds = None
    chat_timeout: _Seconds = None
    retries: Annotated[Annotated[int, Field(ge=0, le=100)] | None, BeforeValidator(_number)] = None
    max_concurrency: Annotated[Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] | None, BeforeValidator(_number)] = None
    verify: Annotated[bool | None, BeforeValidator(_verify)] = None
    ca_bundle: Annotated[str | None, BeforeValidator(_stripped)] = None
    client_cert: Annotated[str | None, BeforeValidator(_stripped)] = None
    client_key: Annotated[str | None, BeforeValidator(_stripped)] = None
    max_response_bytes: Annotated[Annotated[int, Field(ge=1024, le=1024**3)] | None, BeforeValidator(_number)] = None
    complete_words: _Words = None
    failed_words: _Words = None
    rating_words: _Words = None
    ledger_conn_id: Annotated[str | None, BeforeValidator(_stripped)] = None
    manage_documents: Annotated[DocumentRoutes | None, BeforeValidator(_routes)] = None
    gateway_refusals: _Statuses = frozenset()


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Settings that were read from one connection.

    :param client: Base URL, API key, timeout, retries and the others.
    :param service_name: Name of the service. None for that of the base URL.
    :param ledger_conn_id: SQL connection of the ledger. None for that of Airflow's configuration.
    :param documents: Routes that list, change and delete documents. None if the connection does not switch them on.
    """

    client: ClientSettings
    service_name: str | None = None
    tenant_id: str | None = None
    site_id: str | None = None
    ledger_conn_id: str | None = None
    documents: DocumentRoutes | None = None

    @property
    def service(self) -> str:
        """Name of the service, which tells services apart in the ledger and in the datasets."""
        return self.service_name or service_of(self.client.base_url)


def extra_of(connection: Connection) -> dict[str, Any]:
    """
    Return the decoded extra of a connection.

    Airflow's ``extra_dejson`` returns an empty object for invalid JSON; this function raises an error instead.

    :raises AssistantInputError: The extra is not a JSON object.
    """
    try:
        extra = strict_json.loads(connection.extra or "{}")
        # A number that strict_json reads as null would count as not set.
        json.loads(connection.extra or "{}", parse_constant=_refuse_number, parse_float=_finite)
    except _NumberError as error:
        raise AssistantInputError(f"connection {connection.conn_id!r}: the extra has {error}", field="extra") from None
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise AssistantInputError(f"connection {connection.conn_id!r}: the extra must be a JSON object", field="extra")
    return extra


class _NumberError(ValueError):
    """Raised for NaN, infinities, and numbers that a float cannot hold."""


def _refuse_number(text: str) -> NoReturn:
    raise _NumberError(f"{text[:30]}, which is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def settings_of(connection: Connection, extra: dict[str, Any]) -> Settings:
    """
    Return the settings of an Airflow connection.

    :param connection: The connection, from the form, a URI, JSON or a secrets backend.
    :param extra: Its extra, as :func:`extra_of` returns it.
    :return: The settings, with defaults for what the connection leaves empty.
    :raises AssistantInputError: The base URL or the API key is missing or malformed, or the extra has an unknown or
        invalid field.
    """
    name = f"connection {connection.conn_id!r}"
    api_key = api_key_of(connection)
    if not api_key:
        raise AssistantInputError(f"{name} has no API key", todo="Put it into the password field.", field="password")
    if not is_recognisable(api_key):
        log.warning(
            "%s: the API key looks like an ordinary word or number. It is not redacted from the service's replies, "
            "because that would remove the word from them as well. Outside of development, use a key of at least %d "
            "characters.",
            name, SURELY_SECRET,
        )  # fmt: skip
    options = _extra(name, extra)
    defaults = ClientSettings("", "")
    if options.verify is False:
        log.warning(
            "%s has verify=false: anyone between this machine and the service can read the API key and forge answers. "
            "To accept a private certificate, set ca_bundle instead.",
            name,
        )
    retry = defaults.retry
    if options.retries is not None:
        retry = RetryPolicy(attempts=options.retries + 1)
    # httpx takes the path of a bundle, or whether to verify at all.
    verify: bool | str = options.ca_bundle or True
    if options.verify is False:
        verify = False
    return Settings(
        client=ClientSettings(
            base_url=base_url(connection),
            api_key=api_key,
            timeout=options.timeout or defaults.timeout,
            chat_timeout=options.chat_timeout or defaults.chat_timeout,
            retry=retry,
            max_concurrency=options.max_concurrency or defaults.max_concurrency,
            verify=verify,
            client_cert=options.client_cert,
            client_key=options.client_key,
            max_response_bytes=options.max_response_bytes or defaults.max_response_bytes,
            words=defaults.words.extended(complete=options.complete_words or (), failed=options.failed_words or ()),
            rating_words=tuple(options.rating_words or defaults.rating_words),
        ),
        service_name=options.service_name,
        tenant_id=options.tenant_id,
        site_id=options.site_id,
        ledger_conn_id=options.ledger_conn_id,
        documents=options.manage_documents,
    )


def api_key_of(connection: Connection) -> str:
    """
    Return the API key of a connection; empty if it has none.

    :raises AssistantInputError: The key has characters that an HTTP header cannot carry.
    """
    api_key = (connection.password or "").strip()
    if not api_key.isascii() or not api_key.isprintable():
        raise AssistantInputError(
            f"connection {connection.conn_id!r}: the API key has characters that an HTTP header cannot carry",
            todo="Use printable ASCII only.",
            field="password",
        )
    return api_key


def warn_of_http(name: str, scheme: str, netloc: str) -> None:
    """Log a warning if an API key travels unencrypted to another machine, or to a proxy."""
    if scheme.lower() != "http":
        return
    proxy = usable_proxy(f"http://{netloc}")
    if proxy:
        log.warning(
            "%s uses http: the API key travels unencrypted to %s, and the proxy %s can read it",
            name,
            netloc,
            proxy.address,
        )
    elif not LOOPBACK.fullmatch(netloc):
        log.warning("%s uses http: the API key travels unencrypted to %s", name, netloc)


def base_url(connection: Connection) -> str:
    """
    Return the versioned base URL of a connection, ending in ``/api/v1``.

    The host field may hold a full URL or only a host name, with or without the API root. Airflow's URI form puts the
    path after the host into ``schema``; ``schema`` may also hold the protocol, ``http`` or ``https``. The default
    protocol is https.

    :return: The base URL, without a trailing slash; a path that already ends in ``/api/v<number>`` is kept.
    :raises AssistantInputError: The host is missing or malformed, or the URL has a user, a query or a fragment.
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
    schema = unquote((connection.schema or "").strip()).strip("/")
    if schema.lower() in {"http", "https"}:
        protocol, path_below = schema, ""
    else:
        protocol, path_below = "https", schema
    url = _with_protocol(host, protocol)
    try:
        parts = urlsplit(url)
        # Airflow's connection form sends an empty port as 0.
        port = parts.port or connection.port or None
    except ValueError:
        raise AssistantInputError(f"{name}: the base URL {host!r} has an invalid port or host", field="host") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AssistantInputError(
            f"{name}: the host must be the service's base URL, such as https://assistant.example.com; got {host!r}",
            field="host",
        )
    netloc = parts.hostname
    if ":" in netloc:
        # urlsplit removes the brackets of an IPv6 address.
        netloc = f"[{netloc}]"
    if port is not None:
        netloc = f"{netloc}:{port}"
    warn_of_http(name, parts.scheme, netloc)
    return f"{parts.scheme}://{netloc}{_api_root(parts.path.strip('/'), path_below)}"


def _api_root(*paths: str) -> str:
    """Return the path of the base URL, which ends in the API root; an empty path is left out."""
    root = "".join(f"/{quote(path)}" for path in paths if path)
    if VERSIONED_ROOT.search(root):
        return root
    return root + API_ROOT


def _with_protocol(host: str, protocol: str) -> str:
    """Return the URL of the host field, which may already be a full URL."""
    if "://" in host:
        return host
    if _is_ipv6(host):
        # Airflow's URI form removes the brackets of an IPv6 address.
        host = f"[{host}]"
    return f"{protocol}://{host}"


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
            advice = [what_to_use(field, ConnectionExtra.model_fields) for field in unknown]
            raise AssistantInputError(
                f"{name}: unknown extra {', '.join(unknown)}",
                todo=" ".join([*filter(None, dict.fromkeys(advice)), f"The known fields are {known}."]),
                field=unknown[0],
            ) from None
        # Keep the value out of the message: a user may have typed a secret into the wrong field.
        problems = "; ".join(map(_problem, errors))
        first_field = str(errors[0]["loc"][0])
        raise AssistantInputError(f"{name}: invalid extra: {problems}", field=first_field) from None


def _problem(error: Any) -> str:
    """Return the field and the message of an error of pydantic."""
    field = ".".join(part for part in error["loc"] if isinstance(part, str))
    return f"{field}: {error['msg'].removeprefix('Value error, ')}"
