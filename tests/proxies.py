"""A proxy that records what it gets, a front with TLS for a service without, and their certificate."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.servers import LocalServer, body_of, send

# A name that only the proxy resolves: a request that bypasses the proxy fails.
NAME = "assistant.test"
# The same for the embedded service, which answers to local names only.
LOCAL_NAME = "assistant.localhost"
PROXY_HEADERS = {"proxy-authorization", "proxy-connection"}


def certificate(folder: Path, days: int = 1) -> tuple[Path, Path]:
    """
    Create a certificate of 127.0.0.1 and both names that only its own bundle verifies; return bundle and key.

    :param days: Days that it is still valid; it was issued ten days ago.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "assistant tests")])
    today = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, (NAME, LOCAL_NAME))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=10))
        .not_valid_after(today + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    bundle, private = folder / "bundle.pem", folder / "key.pem"
    bundle.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return bundle, private


def server_context(pair: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context


def relay(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until either side ends."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(end, socket.SHUT_RDWR)

    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join()


@contextlib.contextmanager
def tls_front(service: str, context: ssl.SSLContext) -> Iterator[str]:
    """
    Pass what arrives over TLS on to a service without TLS.

    :param service: ``host:port`` of the service.
    :return: ``host:port`` of the front.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        host, _, port = service.partition(":")
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(connection, server_side=True) as front,
            socket.create_connection((host, int(port))) as back,
        ):
            relay(front, back)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


Behaviour = Callable[[BaseHTTPRequestHandler], None]


class RecordingProxy(LocalServer):
    """
    Forward requests and tunnels to one service, whatever their host is, and record the heads.

    :param service: ``host:port`` of the service for plain requests.
    :param tls_service: ``host:port`` of the service for tunnels.
    :param context: TLS context of an ``https://`` proxy.
    """

    def __init__(self, service: str = "", tls_service: str = "", context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.service = service
        self.tls_service = tls_service
        self.others: dict[str, tuple[str, str]] = {}
        """Services by the name of their host: ``host:port`` for plain requests and for tunnels."""
        self.heads: list[str] = []
        self.behaviour: Behaviour | None = None
        """What to do instead of forwarding; None to forward."""
        self.refuse: Callable[[], Behaviour | None] = lambda: None
        """Returns the behaviour for the next request for a tunnel."""
        # 32 connections at once.
        self._server.socket.listen(128)
        if context:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.heads.append(f"{request.requestline}\n{request.headers}")
        behaviour = self.behaviour
        if request.command == "CONNECT":
            behaviour = behaviour or self.refuse()
        if behaviour:
            request.close_connection = True
            behaviour(request)
        elif request.command == "CONNECT":
            self._tunnel(request)
        else:
            self._forward(request)

    def _service(self, request: BaseHTTPRequestHandler) -> tuple[str, str]:
        name = request.path.partition("://")[2] or request.path
        return self.others.get(re.split("[:/]", name)[0], (self.service, self.tls_service))

    def _tunnel(self, request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        host, _, port = self._service(request)[1].partition(":")
        with socket.create_connection((host, int(port))) as service:
            request.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(request.connection, service)

    def _forward(self, request: BaseHTTPRequestHandler) -> None:
        content = body_of(request)
        skipped = PROXY_HEADERS | {"transfer-encoding", "content-length", "connection"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in skipped}
        path = request.path.partition("://")[2]
        connection = http.client.HTTPConnection(self._service(request)[0])
        with contextlib.closing(connection):
            connection.request(request.command, path[path.index("/") :], content, headers)
            reply = connection.getresponse()
            kept = {
                name: value
                for name, value in reply.getheaders()
                if name.lower() not in {"content-length", "transfer-encoding", "connection", "date", "server"}
            }
            send(request, reply.status, reply.read(), kept)


def says(*pieces: bytes) -> Behaviour:
    """Answer with these bytes; then the connection ends."""

    def speak(request: BaseHTTPRequestHandler) -> None:
        for piece in pieces:
            request.wfile.write(piece)
        with contextlib.suppress(OSError):
            socket.socket.shutdown(request.connection, socket.SHUT_RDWR)

    return speak


def echoes(status: str) -> Behaviour:
    """Answer with a status, and repeat everything that the proxy got: in reason, headers and body."""

    def speak(request: BaseHTTPRequestHandler) -> None:
        got = " ".join(f"{name}: {value}" for name, value in request.headers.items())
        content = f"<title>{got}</title>".encode()
        head = f"HTTP/1.1 {status} {got}\r\nX-Got: {got}\r\nContent-Length: {len(content)}\r\n\r\n"
        says(head.encode(), content)(request)

    return speak


def hangs(*pieces: bytes) -> Behaviour:
    """Answer with these bytes, then wait until the client ends the connection."""

    def speak(request: BaseHTTPRequestHandler) -> None:
        for piece in pieces:
            request.wfile.write(piece)
        with contextlib.suppress(OSError):
            while request.connection.recv(65536):
                pass

    return speak
