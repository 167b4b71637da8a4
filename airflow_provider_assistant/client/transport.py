"""
The interface between a client and an HTTP library, and what both libraries send and read.

:mod:`.httpx_transport` and :mod:`.aiohttp_transport` implement the interface. Tests implement it without a network, and
set it with :func:`.set_client_defaults`. The client redacts the API key from the outcomes of any transport.
"""

from __future__ import annotations

import io
import secrets
import ssl
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO, Protocol

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.call import Call, Response, Upload
from airflow_provider_assistant.client.network import Proxy, proxy_for, tls_context_of
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError

# Common servers close an idle connection after five seconds. A request that is written while the server closes the
# connection is ambiguous, so the client closes idle connections earlier.
KEEPALIVE_SECONDS = 3.0
# The standard library decompresses it within a limit of memory. Servers mean one of two formats by ``deflate``.
ENCODING = "gzip"
GZIP = 31
COMMON_HEADERS = {
    "User-Agent": f"airflow-provider-assistant/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": ENCODING,
    # A cache in between would answer each poll with the first status.
    "Cache-Control": "no-cache",
}
# Characters that browsers escape in a file name. All others are sent unchanged, in UTF-8.
ESCAPED = str.maketrans({"\r": "%0D", "\n": "%0A", '"': "%22"})
PIECE_BYTES = 65_536


class Transport(Protocol):
    """Send calls one at a time per thread, from any number of threads. Subclasses inherit :meth:`close`."""

    def exchange(self, call: Call[Any]) -> Response | AssistantError:
        """
        Send a call once, and return the response with any status, or the error that says why there is none.

        :raises AssistantInputError: The file of an upload or a certificate cannot be read; nothing was sent.
        """
        ...

    def close(self) -> None:
        """Close the open connections. A later :meth:`exchange` opens new ones."""


class AsyncTransport(Protocol):
    """Send calls concurrently in one event loop. Subclasses inherit the other methods."""

    async def exchange(self, call: Call[Any]) -> Response | AssistantError:
        """Send a call once, as :meth:`Transport.exchange` does."""
        ...

    def prepare(self) -> None:
        """Do the work that would block the event loop in the first :meth:`exchange`; may be called in a thread."""

    async def close(self) -> None:
        """Close the open connections. A later :meth:`exchange` opens new ones."""


class HttpLibrary:
    """What the transports of both HTTP libraries need: settings, proxy and certificates."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    @cached_property
    def _proxy(self) -> Proxy | None:
        return proxy_for(self._settings.base_url)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context_of(self._settings, self._proxy)


class UploadForm:
    """The ``multipart/form-data`` body with one file (RFC 7578), in pieces; a seekable file is sent from its start."""

    def __init__(self, file: BinaryIO, upload: Upload) -> None:
        boundary = secrets.token_hex(16)
        filename = upload.filename.translate(ESCAPED)
        self._before = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
            f"Content-Type: {upload.content_type}\r\n\r\n"
        ).encode()
        self._file = file
        self._after = f"\r\n--{boundary}--\r\n".encode()
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        """Headers of the request: ``Content-Type``, and ``Content-Length`` if the file is seekable."""
        if file.seekable():
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            self.headers["Content-Length"] = str(len(self._before) + size + len(self._after))

    def __iter__(self) -> Iterator[bytes]:
        yield self._before
        while piece := self._file.read(PIECE_BYTES):
            yield piece
        yield self._after


class BoundedBody:
    """
    Collect the body of a response and decompress it, with a limited size in memory.

    :param limit: Maximum number of bytes after decompression.
    :param encoding: The response's ``Content-Encoding``.
    :ivar defect: Why the body cannot be used, as the predicate of a sentence; None if it can.
    """

    def __init__(self, limit: int, encoding: str = "") -> None:
        self.defect: str | None = None
        self._limit = limit
        self._encoding = encoding.strip().lower()
        is_compressed = self._encoding in {"gzip", "x-gzip"}
        self._decompressor = zlib.decompressobj(GZIP) if is_compressed else None
        self._body = bytearray()
        self._is_empty = True

    def feed(self, piece: bytes) -> bool:
        """
        Add the next piece of the body.

        :return: Whether to read on: the body has no defect, and nothing follows the end of its compressed data.
        """
        self._is_empty = self._is_empty and not piece
        # One byte more than the limit distinguishes a body that is too large from one that just fits.
        room = self._limit - len(self._body) + 1
        try:
            if self._decompressor:
                piece = self._decompressor.decompress(piece, room)
            elif piece and self._encoding not in {"", "identity"}:
                self.defect = "has an encoding that was not requested"
        except zlib.error:
            piece = b""
            self.defect = f"cannot be decompressed ({self._encoding})"
        self._body += piece[:room]
        if len(self._body) > self._limit:
            del self._body[self._limit :]
            self.defect = f"is larger than a reply may be ({self._limit} bytes)"
        has_more_data = self._decompressor is not None and bool(self._decompressor.unused_data)
        return self.defect is None and not has_more_data

    def response(self, status: int, headers: Mapping[str, str]) -> Response:
        """Return the response after the last piece of its body."""
        body = self.end()
        return Response(status, {name.lower(): value for name, value in headers.items()}, body, defect=self.defect)

    def end(self) -> bytes:
        """Return the decompressed body after its last piece; only its beginning if there is a :attr:`defect`."""
        is_cut = self._decompressor is not None and not self._decompressor.eof and not self._is_empty
        if is_cut and not self.defect:
            self.defect = f"ends in the middle of its compressed data ({self._encoding})"
        return bytes(self._body)
