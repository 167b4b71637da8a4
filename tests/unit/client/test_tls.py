"""Whom the clients trust, the client's own certificate, and what an error of the connection says."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading

import httpx
import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantInputError
from airflow_provider_assistant.knowledge.fetch import Fetcher
from tests.hostile import CALLS, KEY
from tests.proxies import certificate, server_context
from tests.unit.client.ways import EXCHANGES, settings_of
from tests.wire import error_of, refusing_port

# The name that OpenSSL gives to the certificates of these tests in a folder.
HASHED = "e34c8c4a.0"
NO_SUCH_PORT = "https://127.0.0.1:9/api/v1"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("other"))


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

    return talk


def says(*pieces, reads=True):
    def talk(connection):
        if reads:
            connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)

    return talk


def fetch(url):
    host = url.partition("//")[2].partition("/")[0]
    fetcher = Fetcher([host], requests_per_second=1000, timeout=60, private_networks=True, sleep=lambda _: None)
    return fetcher.fetch(httpx.URL(url), 10_000)


@EXCHANGES
def test_all_clients_trust_the_same_certificates(exchange, pair, other, tmp_path, monkeypatch):
    shutil.copy(pair[0], tmp_path / HASHED)
    requests = []
    with server(answers(server_context(pair), requests)) as port:
        url = f"https://127.0.0.1:{port}/api/v1"
        assert not exchange(settings_of(url)).maybe_done
        with pytest.raises(AssistantConnectionError) as refused:
            fetch(f"{url}/page")
        assert "SSL_CERT_FILE" in refused.value.todo
        for variable, path in (("SSL_CERT_FILE", pair[0]), ("SSL_CERT_DIR", tmp_path)):
            monkeypatch.setenv(variable, str(path))
            assert isinstance(exchange(settings_of(url)), Response)
            assert fetch(f"{url}/page").content == b'{"document_id": "d1"}'
            # ca_bundle overrides the environment.
            assert not exchange(settings_of(url, verify=str(other[0]))).maybe_done
            monkeypatch.delenv(variable)
        assert isinstance(exchange(settings_of(url, verify=str(pair[0]))), Response)
        assert isinstance(exchange(settings_of(url, verify=False)), Response)
    assert [request[:4] for request in requests].count(b"POST") == 4


@EXCHANGES
def test_certificates_that_cannot_be_used_are_refused_before_anything_is_sent(exchange, pair, tmp_path, monkeypatch):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "der").write_bytes(ssl.PEM_cert_to_DER_cert(pair[0].read_text()))
    (tmp_path / "damaged").write_bytes(pair[0].read_bytes().replace(b"M", b"%", 1))
    for path in (*tmp_path.iterdir(), tmp_path / "missing", tmp_path):
        with pytest.raises(AssistantInputError, match=f"ca_bundle '{path}'") as refused:
            exchange(settings_of(NO_SUCH_PORT, verify=str(path)))
        assert refused.value.field == "ca_bundle"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "empty"))
    for attempt in (lambda: exchange(settings_of(NO_SUCH_PORT)), lambda: fetch(NO_SUCH_PORT)):
        with pytest.raises(AssistantInputError, match=r"SSL_CERT_FILE .* cannot be used: .*NO_CERTIFICATE"):
            attempt()
    # They are not needed then.
    assert isinstance(exchange(settings_of(NO_SUCH_PORT, verify=False)), AssistantConnectionError)


@EXCHANGES
def test_a_client_certificate_that_cannot_be_used_is_refused_by_its_field(exchange, pair, other, tmp_path):
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pair[1].read_bytes(), None)
    hidden = serialization.BestAvailableEncryption(b"canary-password")
    encrypted = tmp_path / "encrypted"
    encrypted.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    for client_cert, client_key, said in (
        (None, pair[1], "No such file"),
        (pair[0], None, "PEM lib"),
        (pair[0], other[1], "KEY_VALUES_MISMATCH"),
        (pair[0], tmp_path / "missing", "No such file"),
        # OpenSSL does not ask for its password at the terminal.
        (pair[0], encrypted, "client_cert"),
    ):
        paths = {"client_cert": client_cert and str(client_cert), "client_key": client_key and str(client_key)}
        with pytest.raises(AssistantInputError, match=said) as refused:
            exchange(settings_of(NO_SUCH_PORT, verify=str(pair[0]), **paths))
        assert refused.value.field == "client_cert"
        assert "client_key" in str(refused.value)
        assert "canary-password" not in str(refused.value)


@EXCHANGES
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_service_that_requires_a_client_certificate(exchange, version, pair, other, tmp_path):
    context = server_context(pair)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(other[0])
    context.minimum_version = context.maximum_version = version
    both = tmp_path / "both.pem"
    both.write_bytes(other[1].read_bytes() + other[0].read_bytes())
    requests = []
    with server(answers(context, requests)) as port:
        url, verify = f"https://127.0.0.1:{port}/api/v1", str(pair[0])
        for own in ({"client_cert": str(other[0]), "client_key": str(other[1])}, {"client_cert": str(both)}):
            assert isinstance(exchange(settings_of(url, verify=verify, **own)), Response)
        for foreign in ({}, {"client_cert": str(pair[0]), "client_key": str(pair[1])}):
            failure = exchange(settings_of(url, verify=verify, **foreign))
            # With TLS 1.3, the reset of the connection may have removed the alert.
            assert not failure.maybe_done or version == ssl.TLSVersion.TLSv1_3
            assert "client_cert" in failure.todo
    assert len(requests) == 2


HTTPS, PLAIN = "https://127.0.0.1:{}/api/v1", "http://127.0.0.1:{}/api/v1"


@pytest.mark.promise("replies and errors", "An error of the connection says its cause and which setting to change.")
@EXCHANGES
def test_an_error_of_the_connection_says_its_cause_and_what_to_set(exchange, pair, other, tmp_path, monkeypatch):
    expired = certificate(tmp_path, days=-1)
    page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    wrong_name = HTTPS.replace("127.0.0.1", "localhost")
    # What the server does; base URL; trusted certificates; what the message says; what to do.
    members = [
        (answers(server_context(pair), []), HTTPS, str(other[0]), "self-signed", "set ca_bundle"),
        (answers(server_context(pair), []), wrong_name, str(pair[0]), "mismatch", "set ca_bundle"),
        (answers(server_context(expired), []), HTTPS, str(expired[0]), "expired", "set ca_bundle"),
        (says(page), HTTPS, True, "WRONG_VERSION_NUMBER", "without TLS, begin the base URL with http://"),
        (says(b"SSH-2.0-OpenSSH\r\n", reads=False), HTTPS, True, "SSL: ", "without TLS"),
        (says(), HTTPS, True, "", "base URL"),
    ]
    for talk, url, verify, said, todo in members:
        with server(talk) as port:
            check(exchange(settings_of(url.format(port), verify=verify)), said, todo)
    for reply in ((), (b"\x15\x03\x01\x00\x02\x02\x28",)):
        with server(says(*reply)) as port:
            failure = exchange(settings_of(PLAIN.format(port)))
            assert failure.maybe_done
            assert "https:// needs a port with TLS" in failure.todo
    with refusing_port() as port:
        for url, said in (
            (HTTPS.format(port), "Connection refused"),
            ("https://assistant.invalid/api/v1", "the host name assistant.invalid is not known"),
            ("https://255.255.255.255/api/v1", "no connection to 255.255.255.255:443: Network is unreachable"),
        ):
            check(exchange(settings_of(url)), said, "the base URL in the Airflow connection")
            proxy = url.removeprefix("https://").removesuffix("/api/v1")
            monkeypatch.setenv("ALL_PROXY", f"corp:canary-password@{proxy}")
            failure = exchange(settings_of("https://assistant.example/api/v1"))
            check(failure, said.replace(":443", ":80"), "the proxy in ALL_PROXY")
            assert "canary" not in repr(failure)
            monkeypatch.delenv("ALL_PROXY")


def check(failure, said, todo):
    assert isinstance(failure, AssistantConnectionError), failure
    assert not failure.maybe_done
    error = error_of(CALLS["qa"], failure)
    assert said in str(error)
    assert todo in error.todo
    assert KEY not in str(error)
