"""The body of a file upload: ``multipart/form-data`` as in RFC 7578, the same bytes for every HTTP library."""

from __future__ import annotations

import io
import secrets
from typing import Any, BinaryIO

# What browsers escape in a file name. All other characters are sent as they are, in UTF-8.
ESCAPED = str.maketrans({"\r": "%0D", "\n": "%0A", '"': "%22"})


class UploadBody(io.RawIOBase):
    """
    A form with one file, read in pieces while it is sent; closing it leaves the file open.

    :param content: The file, at its beginning.
    :param filename: Name that the service sees.
    :param content_type: MIME type of the file.
    """

    def __init__(self, content: BinaryIO, filename: str, content_type: str) -> None:
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename.translate(ESCAPED)}"'
            f"\r\nContent-Type: {content_type}\r\n\r\n"
        )
        before, after = head.encode(), f"\r\n--{boundary}--\r\n".encode()
        size = _size(content)
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        """Headers of the request, with the length where it is known."""
        if size is not None:
            self.headers["Content-Length"] = str(len(before) + size + len(after))
        self._parts = [io.BytesIO(before), content, io.BytesIO(after)]

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes, and return their number; 0 at the end."""
        view = memoryview(buffer).cast("B")
        while self._parts:
            if piece := self._parts[0].read(len(view)):
                view[: len(piece)] = piece
                return len(piece)
            self._parts.pop(0)
        return 0


def _size(content: BinaryIO) -> int | None:
    """Return the size of a file in bytes; None for a stream."""
    if not content.seekable():
        return None
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    return size
