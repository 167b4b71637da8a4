"""
Read the head of a response, that is its status line and headers, by one rule with both HTTP libraries.

Gateways with single sign-on and content security policies send heads of tens of kilobytes, and some send Content-Length
twice. httpx reads both. aiohttp does not: a create with such a reply would count as not answered, and be sent again.
"""

from __future__ import annotations

import re

# Maximum size of a head in bytes, which is that of httpx. Each library may read a little more at once.
MAX_HEAD_BYTES = 100 * 1024
# The words in which httpx, and our part of aiohttp, say that a head is larger.
TOO_LARGE = "Receive buffer too long"
END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_START = b"HTTP/"
_INTERIM = re.compile(rb"HTTP/\d\.\d 1\d\d\b")
_LENGTH = re.compile(rb"^content-length[ \t]*:([^\r\n]*)\r?\n", re.IGNORECASE | re.MULTILINE)


class HeadTooLargeError(Exception):
    """The head of a response is larger than MAX_HEAD_BYTES."""


class HeadReader:
    """
    Collect the head of a response, and pass it on in a form that aiohttp reads.

    Begin with :meth:`start` for each response.
    """

    def __init__(self) -> None:
        self._head = b""
        self._is_reading = False

    def start(self) -> None:
        """Expect the head of a response."""
        self._head = b""
        self._is_reading = True

    def feed(self, data: bytes) -> bytes:
        """
        Return the bytes to pass on: none before the head is complete, then all.

        :param data: Bytes as received.
        :raises HeadTooLargeError: The head is not complete, and is larger than MAX_HEAD_BYTES.
        """
        if not self._is_reading:
            return data
        received = self._head + data
        complete = b""
        while self._is_reading:
            end = END_OF_HEAD.search(received)
            is_http = received.startswith(_START) or _START.startswith(received)
            if is_http and end is None:
                break
            # What is not HTTP is an error that the library reports with its first bytes.
            size = end.end() if is_http and end else len(received)
            head, received = received[:size], received[size:]
            # The response follows, such as after 100 Continue.
            self._is_reading = bool(_INTERIM.match(head))
            complete += with_one_length(head)
        self._head = received if self._is_reading else b""
        if len(self._head) > MAX_HEAD_BYTES:
            raise HeadTooLargeError(TOO_LARGE)
        return complete if self._is_reading else complete + received


def with_one_length(head: bytes) -> bytes:
    """Return a head with one Content-Length, if it has equal ones; different ones remain, and are an error."""
    values = _LENGTH.findall(head)
    lengths = {length.strip() for value in values for length in value.split(b",")}
    is_single = len(values) == 1 and b"," not in values[0]
    if is_single or len(lengths) != 1:
        return head
    length: bytes = lengths.pop()
    status_line, separator, fields = _LENGTH.sub(b"", head).partition(b"\n")
    return status_line + separator + b"Content-Length: " + length + b"\r\n" + fields
