"""Read the certificates of TLS, in one way for all clients: whom to trust, and the client's own."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import httpx

from airflow_provider_assistant.client.proxies import Proxy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError

# Variables that name trusted certificates. All of them count: the image may set one, and the company another.
CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CERTIFICATE, PRIVATE_KEY = b"CERTIFICATE-----", b"PRIVATE KEY-----"
# The names that OpenSSL looks for in a folder.
_HASHED_NAME = re.compile(r"[0-9a-f]{8}\.\d+")


@dataclass(frozen=True, slots=True)
class CaSource:
    """
    Where trusted certificates come from.

    :param setting: Field of the connection or name of the variable.
    :param path: A file, a folder, or several folders.
    """

    setting: str
    path: str

    def __str__(self) -> str:
        return f"{self.setting} {self.path!r}"


def ca_sources(ca_bundle: str | None) -> list[CaSource]:
    """
    Return where trusted certificates come from; empty for those of the Python package certifi.

    :param ca_bundle: Path of the connection, which overrides the environment.
    """
    if ca_bundle:
        return [CaSource("ca_bundle", ca_bundle)]
    paths = {variable: os.environ.get(variable, "").strip() for variable in CA_VARIABLES}
    return [CaSource(variable, path) for variable, path in paths.items() if path]


def tls_context(verify: bool | str = True) -> ssl.SSLContext:
    """
    Read the trusted certificates.

    :param verify: Whether to verify certificates, or the path of those to verify them with. Default: True.
    :return: The context of TLS connections.
    :raises AssistantInputError: A file or a folder with certificates cannot be used.
    """
    if verify is False:
        return httpx.create_ssl_context(verify=False, trust_env=False)
    sources = ca_sources(verify if isinstance(verify, str) else None)
    if not sources:
        return httpx.create_ssl_context(trust_env=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # A certificate that is listed need not be that of a root. Python 3.13 does this by default.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for source in sources:
        paths = [source.path]
        if source.setting == "SSL_CERT_DIR":
            paths = source.path.split(os.pathsep)
        for path in paths:
            _trust(context, CaSource(source.setting, path))
    return context


def client_tls_context(settings: ClientSettings, proxy: Proxy | None) -> ssl.SSLContext:
    """
    Read the certificates of a client: those to trust, and its own.

    :param settings: Settings of the client.
    :param proxy: The proxy, if there is one.
    :return: The context of TLS connections; without trusted certificates if the client does not use TLS.
    :raises AssistantInputError: A file or a folder with certificates cannot be used.
    """
    is_encrypted = settings.base_url.startswith("https:") or (proxy and proxy.url.startswith("https:"))
    # Reading the trusted certificates takes as long as 100 requests.
    context = tls_context(settings.verify) if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_client_certificate(context, settings)
    return context


def load_client_certificate(context: ssl.SSLContext, settings: ClientSettings) -> None:
    """
    Read the client certificate, if there is one. New connections use it, also if the context had another one.

    :param context: The context.
    :param settings: Settings of the client.
    :raises AssistantInputError: The certificate or its key cannot be used.
    """
    certificate, key = settings.client_cert, settings.client_key
    if not certificate:
        if key:
            raise AssistantInputError(
                "the Airflow connection has client_key, but no client_cert",
                todo="Set client_cert to the path of the certificate that belongs to the key.",
                field="client_cert",
            )
        return
    _read(CaSource("client_cert", certificate), CERTIFICATE)
    key_source = CaSource("client_key", key) if key else CaSource("client_cert", certificate)
    _read(key_source, PRIVATE_KEY)
    is_encrypted = False

    def password() -> str:
        # Without this function, OpenSSL would wait for a password from the terminal.
        nonlocal is_encrypted
        is_encrypted = True
        return ""

    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        if is_encrypted:
            _refuse(
                key_source,
                "has a key that is encrypted with a password",
                "Store the key without a password, in a file that only Airflow can read: "
                "openssl pkey -in KEY -out NEW_KEY.",
            )
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            _refuse(
                key_source,
                f"has a key that does not belong to the certificate in client_cert {certificate!r}",
                "Give the key with which the certificate was requested. The first certificate of the file "
                "must be the client's own.",
            )
        _refuse(key_source, f"cannot be used as a client certificate: {_reason(error)}")


def renew_client_certificate(context: ssl.SSLContext, settings: ClientSettings) -> None:
    """
    Read the client certificate again after a failure: it is often valid for a few hours only, and its file is renewed.

    :param context: The context, which keeps its certificate if the file cannot be used.
    :param settings: Settings of the client.
    """
    with contextlib.suppress(AssistantInputError):
        load_client_certificate(context, settings)


def _trust(context: ssl.SSLContext, source: CaSource) -> None:
    """Add the certificates of a file or a folder."""
    if _is_folder(source.path):
        try:
            names = [file.name for file in Path(source.path).iterdir()]
            context.load_verify_locations(capath=source.path)
        except OSError as error:
            _refuse(source, f"cannot be read: {_reason(error)}")
        is_usable = any(map(_HASHED_NAME.fullmatch, names)) or context.get_ca_certs()
        if not is_usable:
            _refuse(
                source,
                "is a folder without certificates that OpenSSL finds there",
                "Give a file in PEM format instead, or run: openssl rehash FOLDER.",
            )
        return
    _read(source, CERTIFICATE)
    try:
        context.load_verify_locations(cafile=source.path)
    except OSError as error:
        _refuse(source, f"cannot be read as certificates: {_reason(error)}")


def _is_folder(path: str) -> bool:
    # A path with NUL is a ValueError.
    with contextlib.suppress(ValueError):
        return Path(path).is_dir()
    return False


def _read(source: CaSource, marker: bytes) -> None:
    """Check that a file can be read and has a PEM block."""
    try:
        content = Path(source.path).read_bytes()
    except (OSError, ValueError) as error:
        _refuse(source, f"cannot be read: {_reason(error)}")
    if marker in content:
        return
    if not content.strip():
        _refuse(source, "is an empty file")
    if content.startswith(b"\x30"):
        # The tag of a sequence, with which DER begins.
        _refuse(
            source,
            "is in a binary format (DER or PKCS #12), not in PEM format",
            "Convert it: openssl x509 -inform der -in FILE -out FILE.pem, or openssl pkcs12 -in FILE -out FILE.pem "
            "-nodes.",
        )
    what = "certificate" if marker == CERTIFICATE else "private key"
    _refuse(source, f"has no {what} in PEM format")


def _reason(error: Exception) -> str:
    """Return what went wrong, without the path."""
    if isinstance(error, OSError):
        return getattr(error, "reason", None) or error.strerror or str(error)
    return str(error)


def _refuse(source: CaSource, problem: str, todo: str | None = None) -> NoReturn:
    is_field = not source.setting.isupper()
    where = " of the Airflow connection" if is_field else " of the environment"
    raise AssistantInputError(
        f"{source}{where} {problem}",
        todo=todo
        or "Give the path of a file in PEM format that exists on this machine and that Airflow may read. "
        "Workers and the triggerer need the file.",
        field=source.setting if is_field else None,
    ) from None
