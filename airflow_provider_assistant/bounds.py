"""What bounds an answer, whoever reads it from a socket: its size, also where it is compressed, and its time."""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Mapping
from typing import Any, Self

# What the standard library can undo piece by piece, so that a small body never becomes a large one unseen.
ENCODINGS = "gzip, deflate"
GZIP_OR_ZLIB = 47


class Body:
    """
    The body of an answer while it arrives; never more of it than allowed is in memory.

    :param limit: How many bytes it may have, once decompressed.
    :param encoding: Its ``Content-Encoding``.
    """

    def __init__(self, limit: int, encoding: str = "") -> None:
        self._limit = limit
        self._encoding = encoding.strip().lower()
        self._kept = bytearray()
        self._unzip = zlib.decompressobj(GZIP_OR_ZLIB) if self._encoding in {"gzip", "x-gzip", "deflate"} else None
        self._is_empty = True
        self.flaw: str | None = None
        """Why the body is no use, as the end of a sentence about it; None if it is whole."""

    def take(self, piece: bytes) -> bool:
        """Take the next piece, and return whether the rest is of any use."""
        self._is_empty = self._is_empty and not piece
        if not self._unzip and self._encoding not in {"", "identity"}:
            self.flaw = f"is encoded as {self._encoding[:40]!r}, which nobody asked for"
            return False
        # One byte more than allowed tells a body that is too large from one that just fits.
        room = self._limit - len(self._kept) + 1
        try:
            self._kept += self._unzip.decompress(piece, room) if self._unzip else piece[:room]
        except zlib.error:
            self.flaw = f"cannot be decompressed ({self._encoding})"
        if len(self._kept) > self._limit:
            del self._kept[self._limit :]
            self.flaw = f"is larger than max_response_bytes of the Airflow connection allows ({self._limit} bytes)"
        return self.flaw is None

    def end(self) -> bytes:
        """Return what was received: all of it, or where there is a flaw its beginning."""
        if self._unzip and not self._unzip.eof and not self._is_empty and not self.flaw:
            self.flaw = f"ends in the middle of its compressed data ({self._encoding})"
        return bytes(self._kept)


class TooLate(TimeoutError):
    """An answer was not complete in time."""


class Watch:
    """
    Ends the answers that take too long on a connection of httpx, which itself bounds each pause in an answer only.

    A context for one request at a time, whose :meth:`trace` is httpx's extension of that name; it raises
    :class:`TooLate`.

    :param seconds: How long an answer may take, from the end of its request to its last byte.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn of a socket, which outlives its request, and of the moment at which the request is sent."""
        extra = getattr(info.get("return_value"), "get_extra_info", None)
        if extra:
            self._socket = extra("socket")
        elif event.endswith("send_request_body.complete"):
            timer = threading.Timer(self._seconds, lambda: self._end(timer))
            timer.daemon = True
            self._timer = timer
            timer.start()

    def _end(self, timer: threading.Timer) -> None:
        with self._lock:
            if timer is not self._timer or self._socket is None:
                return
            self._is_over = True
            # It may be closed meanwhile.
            with contextlib.suppress(OSError):
                # Not SSLSocket's own, which would let the reader go on with what is still encrypted.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._is_over = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None
        if self._is_over and (kind is None or issubclass(kind, Exception)):
            raise TooLate(f"no complete answer within {self._seconds:g} s")
