"""Whom the clients trust, the client's own certificate, and what an error of the connection says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import threading
from functools import partial

import httpx
import pytest

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.httpx_transport import HttpxTransport
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.tls import CA_VARIABLES
from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantInputError
from airflow_provider_assistant.knowledge.website.fetcher import Fetcher
from tests.hostile import CALLS
from tests.proxies import NAME, RecordingProxy, certificate, server_context
from tests.wire import refusing_port

KEY = "canary-key-0123456789"
# The names that OpenSSL gives to the certificates of these tests in a folder.
HASHED = "e34c8c4a.0"
NO_SUCH_PORT = "https://127.0.0.1:9/api/v1"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (*CA_VARIABLES, "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """Return the certificate that the service trusts, and another one."""
    return [certificate(tmp_path_factory.mktemp("client")) for _ in range(2)]


@contextlib.contextmanager
def server(talk):
    """Accept connections, and handle each with a function in a thread; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection):
        with contextlib.suppress(OSError), connection:
            talk(connection)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def answers(context, requests):
    """Answer each request with a document, after a TLS handshake, and record it."""

    def talk(connection):
        with context.wrap_socket(connection, server_side=True) as tls:
            received = b""
            while not received.endswith((b"}", b"--\r\n")) and not received.startswith(b"GET"):
                piece = tls.recv(65536)
                if not piece:
                    return
                received += piece
            requests.append(received)
            body = b'{"document_id": "d1"}'
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            with contextlib.suppress(OSError):
                tls.unwrap()

    return talk


def exchange(settings, calls=("qa",)):
    transport = HttpxTransport(settings)
    with contextlib.closing(transport):
        return [transport.exchange(CALLS[name]) for name in calls]


def aexchange(settings, calls=("qa",)):
    async def run():
        transport = AiohttpTransport(settings)
        try:
            return [await transport.exchange(CALLS[name]) for name in calls]
        finally:
            await transport.close()

    return asyncio.run(run())


WAYS = (exchange, aexchange)


def fetch(url):
    host = url.partition("//")[2].partition("/")[0]
    with Fetcher([host], requests_per_second=1000, timeout=60, private_networks=True, sleep=lambda _: None) as fetcher:
        return fetcher.fetch(httpx.URL(url), 10_000)


def test_all_clients_trust_the_certificates_of_each_variable(pair, tmp_path, monkeypatch):
    other = certificate(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(pair[0], folder / HASHED)
    members = {variable: str(pair[0]) for variable in CA_VARIABLES if variable != "SSL_CERT_DIR"}
    members["SSL_CERT_DIR"] = os.pathsep.join([str(folder), str(folder)])
    requests = []
    with server(answers(server_context(pair), requests)) as port:
        url = f"https://127.0.0.1:{port}/api/v1"
        for number, (variable, path) in enumerate(members.items()):
            with monkeypatch.context() as environment:
                environment.setenv(variable, path)
                # Others do not hide it. OpenSSL looks into no folder if a file has the same subject.
                if variable != "SSL_CERT_DIR":
                    for further in list(members)[:number]:
                        environment.setenv(further, str(other[0]))
                for way in WAYS:
                    assert isinstance(way(ClientSettings(url, KEY))[0], Response), variable
                assert fetch(f"{url}/page").content == b'{"document_id": "d1"}'
                sent = len(requests)
                # ca_bundle overrides the environment, verify=False everything.
                for way in WAYS:
                    assert not way(ClientSettings(url, KEY, verify=str(other[0])))[0].sent
                    assert isinstance(way(ClientSettings(url, KEY, verify=False))[0], Response)
                assert len(requests) == sent + 2
        for way in WAYS:
            assert isinstance(way(ClientSettings(url, KEY, verify=str(folder)))[0], Response)
        with pytest.raises(AssistantConnectionError) as refused:
            fetch(f"{url}/page")
        assert "SSL_CERT_FILE" in refused.value.todo


def unusable_files(folder, pair):
    """Return files without a certificate, and what an error says of them."""
    der = ssl.PEM_cert_to_DER_cert(pair[0].read_text())
    contents = {
        "empty": (b"", "empty"),
        "blank": (b" \n", "empty"),
        "der": (der, "binary format"),
        "text": (b"-----BEGIN PKCS7-----\nMII=\n-----END PKCS7-----\n", "no certificate in PEM"),
        "key": (pair[1].read_bytes(), "no certificate in PEM"),
        "damaged": (pair[0].read_bytes().replace(b"M", b"%", 1), "cannot be read as certificates"),
        "latin1": ("Übersicht".encode("latin-1"), "no certificate in PEM"),
    }
    for name, (content, said) in contents.items():
        path = folder / name
        path.write_bytes(content)
        yield str(path), said
    yield str(folder / "missing"), "No such file"
    yield f"{folder}\0", "cannot be read"
    yield str(pair[0] / "below-a-file"), "Not a directory"
    (folder / "folder").mkdir()
    yield str(folder / "folder"), "openssl rehash"


def test_certificates_that_cannot_be_used_are_refused_by_name_before_anything_is_sent(pair, tmp_path, monkeypatch):
    for path, said in unusable_files(tmp_path, pair):
        for setting in ("ca_bundle", *CA_VARIABLES):
            if setting != "ca_bundle" and "\0" in path:
                continue
            with monkeypatch.context() as environment:
                verify = True
                if setting == "ca_bundle":
                    verify = path
                else:
                    environment.setenv(setting, path)
                settings = ClientSettings(NO_SUCH_PORT, KEY, verify=verify)
                tries = [partial(way, settings) for way in WAYS]
                if setting != "ca_bundle":
                    tries.append(partial(fetch, "https://127.0.0.1:9/page"))
                for attempt in tries:
                    with pytest.raises(AssistantInputError, match=setting) as refused:
                        attempt()
                    text = f"{refused.value} {refused.value.todo}"
                    assert said in text, (setting, path)
                    assert repr(path) in text
                    assert (refused.value.field == "ca_bundle") == (setting == "ca_bundle")
                # Nobody needs them then.
                assert isinstance(exchange(ClientSettings(NO_SUCH_PORT, KEY, verify=False))[0], TransportFailure)


def test_a_client_certificate_that_cannot_be_used_is_refused_by_its_field(pair, clients, tmp_path):
    from cryptography.hazmat.primitives import serialization

    own, other = clients
    key = serialization.load_pem_private_key(own[1].read_bytes(), None)
    for name, form in (
        ("pkcs8", serialization.PrivateFormat.PKCS8),
        ("old", serialization.PrivateFormat.TraditionalOpenSSL),
    ):
        hidden = serialization.BestAvailableEncryption(b"canary-password")
        (tmp_path / name).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, hidden))
    both = tmp_path / "both.pem"
    both.write_bytes(own[1].read_bytes() + own[0].read_bytes())
    bad = tmp_path / "bad"
    bad.mkdir()
    certificate_path, key_path = map(str, own)
    members = [
        (None, key_path, "client_cert", "no client_cert"),
        (certificate_path, None, "client_cert", "no private key in PEM"),
        (certificate_path, str(other[1]), "client_key", "does not belong"),
        (certificate_path, certificate_path, "client_key", "no private key in PEM"),
        (certificate_path, str(tmp_path / "missing"), "client_key", "No such file"),
        (certificate_path, str(tmp_path / "pkcs8"), "client_key", "encrypted with a password"),
        (certificate_path, str(tmp_path / "old"), "client_key", "encrypted with a password"),
        (certificate_path, str(tmp_path), "client_key", "Is a directory"),
        (str(both), str(other[1]), "client_key", "does not belong"),
        (key_path, key_path, "client_cert", "no certificate in PEM"),
    ]
    members += [
        (path, key_path, "client_cert", said.replace("openssl rehash", "Is a directory"))
        for path, said in unusable_files(bad, own)
        if "as certificates" not in said
    ]
    for client_cert, client_key, field, said in members:
        for way in WAYS:
            # Also if it would not be used: the task believes that it shows its certificate.
            for url in (NO_SUCH_PORT, NO_SUCH_PORT.replace("https", "http")):
                settings = ClientSettings(url, KEY, verify=str(pair[0]), client_cert=client_cert, client_key=client_key)
                with pytest.raises(AssistantInputError, match=said) as refused:
                    way(settings)
                assert refused.value.field == field
                assert field in str(refused.value)
                assert "canary-password" not in str(refused.value)


def renewing(path, content):
    """Yield three calls; after the first, the file has another certificate."""
    yield "qa"
    path.write_bytes(content)
    yield from ("qa", "qa")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_service_that_requires_a_client_certificate(version, pair, clients, tmp_path, monkeypatch):
    context = server_context(pair)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(clients[0][0])
    context.minimum_version = context.maximum_version = version
    requests = []
    both, renewed = tmp_path / "both.pem", tmp_path / "renewed.pem"
    both.write_bytes(clients[0][1].read_bytes() + clients[0][0].read_bytes())
    with server(answers(context, requests)) as port, RecordingProxy("", f"127.0.0.1:{port}") as proxy:
        for url in (f"https://127.0.0.1:{port}/api/v1", f"https://{NAME}/api/v1"):
            if NAME in url:
                monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.host}")
            settings = {"verify": str(pair[0])}
            own = {**settings, "client_cert": str(clients[0][0]), "client_key": str(clients[0][1])}
            for way in WAYS:
                for changes in (own, {**settings, "client_cert": str(both)}):
                    outcome = way(ClientSettings(url, KEY, **changes))[0]
                    assert isinstance(outcome, Response), outcome
                sent = len(requests)
                other = dict(zip(("client_cert", "client_key"), map(str, clients[1]), strict=True))
                for changes in ({}, other):
                    for call in ("qa", "upload", "limits"):
                        (failure,) = way(ClientSettings(url, KEY, **settings, **changes), [call])
                        if failure.sent:
                            # The reset of the connection has removed the alert.
                            assert version == ssl.TLSVersion.TLSv1_3
                            assert changes or "client_cert" in failure.todo
                            continue
                        # The service refused the handshake, so it has not read what was written after it.
                        assert (failure.kind, failure.sent) == ("connection", False), failure
                        error = errors.from_failure(CALLS[call], failure)
                        assert "client_cert" in error.todo
                        assert "client certificate" in str(error)
                        assert not changes or "client_cert '" in error.todo
                assert len(requests) == sent
                # A certificate that is renewed on the disk is used without another client.
                renewed.write_bytes(clients[1][1].read_bytes() + clients[1][0].read_bytes())
                calls = renewing(renewed, both.read_bytes())
                outcomes = way(ClientSettings(url, KEY, **settings, client_cert=str(renewed)), calls)
                assert [type(outcome) for outcome in outcomes] == [TransportFailure] * 2 + [Response]
        assert len(proxy.heads) > 8


def says(*pieces, reads=True):
    def talk(connection):
        if reads:
            connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)

    return talk


@pytest.mark.promise("replies and errors", "An error of the connection says its cause and which setting to change.")
def test_an_error_of_the_connection_says_its_cause_and_what_to_set(pair, tmp_path, monkeypatch):
    for name in ("expired", "other"):
        (tmp_path / name).mkdir()
    expired, other = certificate(tmp_path / "expired", days=-1), certificate(tmp_path / "other")
    tls_1_2 = server_context(pair)
    tls_1_2.maximum_version = ssl.TLSVersion.TLSv1_2
    tls_1_2.set_ciphers("ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0")
    alert = b"\x15\x03\x01\x00\x02\x02\x28"
    page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    https, http = "https://127.0.0.1:{}/api/v1", "http://127.0.0.1:{}/api/v1"
    wrong_name = https.replace("127.0.0.1", "localhost")
    own, trusts_other = str(pair[0]), str(other[0])
    # What the server does; base URL; trusted certificates; what the message says; what to do.
    members = [
        (answers(server_context(pair), []), https, trusts_other, "self-signed", f"ca_bundle '{trusts_other}'"),
        (answers(server_context(pair), []), https, True, "self-signed", "the Python package certifi"),
        (answers(server_context(pair), []), wrong_name, own, "mismatch", "it is not localhost"),
        (answers(server_context(expired), []), https, str(expired[0]), "expired", "renew the certificate"),
        (answers(tls_1_2, []), https, own, "refused the TLS handshake", "client_cert"),
        (says(page), https, own, "did not answer with TLS", "the port for https"),
        (says(b"SSH-2.0-OpenSSH_9.7\r\n", reads=False), https, own, "did not answer with TLS", "the port for https"),
        (says(), https, own, "", "Check the base URL"),
    ]
    for talk, url, verify, said, todo in members:
        with server(talk) as port:
            for way in WAYS:
                (failure,) = way(ClientSettings(url.format(port), KEY, verify=verify))
                check(failure, said, todo)
    with server(says(alert)) as port:
        (failure,) = aexchange(ClientSettings(http.format(port), KEY))
        check(failure, "expects TLS", "https://")
        (failure,) = exchange(ClientSettings(http.format(port), KEY))
        # h11 does not say with which bytes the reply begins, so that it may be another failure.
        assert failure.sent
        assert "https://" in failure.todo
    with server(says()) as port:
        assert [way(ClientSettings(http.format(port), KEY))[0].sent for way in WAYS] == [True, True]
    with refusing_port() as port:
        unreachable = [
            (https.format(port), "Connection refused", "with its port"),
            ("https://assistant.invalid/api/v1", "the host name assistant.invalid", "Check the"),
            ("https://255.255.255.255/api/v1", "no route to 255.255.255.255:443", "network of this machine"),
        ]
        for url, said, todo in unreachable:
            for way in WAYS:
                (failure,) = way(ClientSettings(url, KEY))
                check(failure, said, todo)
                assert "base URL" in failure.todo
                with monkeypatch.context() as environment:
                    environment.setenv("ALL_PROXY", url.removeprefix("https://").removesuffix("/api/v1"))
                    (failure,) = way(ClientSettings("https://assistant.example/api/v1", KEY))
                    check(failure, said.replace(":443", ":80"), "ALL_PROXY")


def check(failure, said, todo):
    assert isinstance(failure, TransportFailure), failure
    assert (failure.kind, failure.sent) == ("connection", False), failure
    error = errors.from_failure(CALLS["qa"], failure)
    assert said in str(error)
    assert todo in error.todo
    assert KEY not in str(error)
