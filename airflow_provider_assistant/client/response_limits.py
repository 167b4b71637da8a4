"""Limits of a response that every transport applies while it reads: the size after decompression, and the duration."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import zlib
from collections.abc import Mapping
from typing import Any, Self

from airflow_provider_assistant.api.call import Response

# The encodings that the standard library decompresses incrementally, which allows a limit on the decompressed size.
ENCODINGS = "gzip, deflate"
GZIP_OR_ZLIB = 47
_ENCODING_NAME = re.compile(r"[a-z]{1,10}(?:, ?[a-z]{1,10})?")


class BoundedBody:
    """
    Collect the body of a response and decompress it, with a limited size in memory.

    :param limit: Maximum number of bytes after decompression.
    :param encoding: The response's ``Content-Encoding``. Default: none.
    """

    def __init__(self, limit: int, encoding: str = "") -> None:
        self._limit = limit
        self._encoding = encoding.strip().lower()
        self._body = bytearray()
        is_compressed = self._encoding in {"gzip", "x-gzip", "deflate"}
        self._decompressor = zlib.decompressobj(GZIP_OR_ZLIB) if is_compressed else None
        self._is_empty = True
        self.defect: str | None = None
        """Why the body cannot be used, as the predicate of a sentence; None if it can."""

    def feed(self, piece: bytes) -> bool:
        """
        Add the next piece of the body.

        :param piece: Bytes as received.
        :return: Whether to read on. False if the body cannot be used, see :attr:`defect`, and after the end of the
            compressed data: what follows would be read without a limit, and is never used.
        """
        self._is_empty = self._is_empty and not piece
        if self._decompressor and self._decompressor.eof:
            # The compressed data has ended, so only an empty piece may follow.
            return not piece
        if not self._decompressor and self._encoding not in {"", "identity"}:
            self.defect = f"is encoded as {self._encoding_name()}, which was not requested"
            return False
        # One byte more than the limit distinguishes a body that is too large from one that just fits.
        room = self._limit - len(self._body) + 1
        try:
            if self._decompressor:
                self._body += self._decompressor.decompress(piece, room)
            else:
                self._body += piece[:room]
        except zlib.error:
            self.defect = f"cannot be decompressed ({self._encoding})"
        if len(self._body) > self._limit:
            del self._body[self._limit :]
            self.defect = f"is larger than max_response_bytes of the Airflow connection allows ({self._limit} bytes)"
        has_more_data = self._decompressor is not None and bool(self._decompressor.unused_data)
        return self.defect is None and not has_more_data

    def _encoding_name(self) -> str:
        # Anything but a short name is not shown: the service may have put the API key there.
        is_name = _ENCODING_NAME.fullmatch(self._encoding)
        return repr(self._encoding) if is_name else "something unknown"

    def end(self) -> bytes:
        """
        Return the decompressed body after its last piece.

        :return: The body; only its beginning if :attr:`defect` is set.
        """
        is_truncated = self._decompressor is not None and not self._decompressor.eof
        if is_truncated and not self._is_empty and not self.defect:
            self.defect = f"ends in the middle of its compressed data ({self._encoding})"
        return bytes(self._body)

    def response(self, status: int, headers: Mapping[str, str]) -> Response:
        """
        Return the response after the last piece of its body.

        :param status: HTTP status.
        :param headers: Headers as received.
        :return: The response, with header names in lower case.
        """
        # First, because it may set the defect.
        body = self.end()
        lower_case_headers = {name.lower(): value for name, value in headers.items()}
        return Response(status, lower_case_headers, body, defect=self.defect)


class ResponseDeadlineExceeded(TimeoutError):
    """A response was not complete in time, or no connection stood in time."""


class ResponseDeadline:
    """
    Limit the total duration of an httpx response; httpx itself limits only the pauses between its pieces.

    Send one request at a time inside ``with deadline.within(seconds)``, and pass :meth:`trace` as httpx's ``trace``
    extension. On exit it raises :class:`ResponseDeadlineExceeded` if the time was over.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._connect_seconds = 0.0
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self.is_asking_proxy = False
        """Whether the request for a tunnel was the last that was sent."""
        self.is_sent = False
        """Whether the service may have received the request: its connection stood, and the request was written."""

    def within(self, seconds: float, connect_seconds: float) -> Self:
        """
        Return the context manager of one request.

        :param seconds: Maximum time from the end of the request to the last byte of the response, in seconds.
        :param connect_seconds: Maximum time from opening a connection to the beginning of the request. The system's
            own connect cannot be interrupted, so httpx has to limit it to the same time.
        """
        self._seconds = seconds
        self._connect_seconds = connect_seconds
        return self

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """
        Handle an event of httpx: remember the socket of the connection, and start the timer when the request is sent.

        :param event: Name of the event.
        :param info: Values of the event.
        """
        # Only the events that open a connection return an object with this method.
        get_extra_info = getattr(info.get("return_value"), "get_extra_info", None)
        if get_extra_info:
            self._socket = get_extra_info("socket")
        elif event.endswith("connect_tcp.started"):
            self._socket = None
            self._start_timer(self._connect_seconds)
        elif event.endswith("start_tls.started"):
            self.is_asking_proxy = False
        elif event.endswith("send_request_headers.started"):
            self.is_asking_proxy = info["request"].method == b"CONNECT"
            if not self.is_asking_proxy:
                self._stop_timer()
                # Nothing passes a connection that the timer has just ended.
                self.is_sent = not self._is_over
        elif event.endswith("send_request_body.complete") and self.is_sent:
            self._start_timer(self._seconds)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        # The timer passes itself on, so that _end can ignore the timer of an earlier request.
        timer = threading.Timer(seconds, lambda: self._end(timer))
        timer.daemon = True
        self._timer = timer
        timer.start()

    def _stop_timer(self) -> None:
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None

    def _end(self, timer: threading.Timer) -> None:
        with self._lock:
            if timer is not self._timer or self._socket is None:
                return
            # The socket may already be closed, or belong to a TLS handshake, which httpx limits.
            with contextlib.suppress(OSError):
                # SSLSocket.shutdown would let the reader continue with encrypted bytes.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                self._is_over = True

    def __enter__(self) -> Self:
        self._is_over = False
        self.is_asking_proxy = False
        self.is_sent = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop_timer()
        # An exception such as KeyboardInterrupt is more important than the deadline.
        is_replaceable = kind is None or issubclass(kind, Exception)
        if self._is_over and is_replaceable:
            if not self.is_sent:
                raise ResponseDeadlineExceeded(f"no connection within {self._connect_seconds:g} s")
            raise ResponseDeadlineExceeded(f"no complete answer within {self._seconds:g} s")
