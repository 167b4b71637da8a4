"""The ``multipart/form-data`` body of a file upload (RFC 7578), with the same bytes for every HTTP library."""

from __future__ import annotations

import io
import secrets
from typing import Any, BinaryIO

# Characters that browsers escape in a file name. All others are sent unchanged, in UTF-8.
ESCAPED = str.maketrans({"\r": "%0D", "\n": "%0A", '"': "%22"})


class UploadBody(io.RawIOBase):
    """
    Stream a form with one file, without reading the file into memory; closing the body does not close the file.

    :param content: Open binary file; a seekable one is sent from its beginning.
    :param filename: File name to send.
    :param content_type: MIME type of the file.
    """

    def __init__(self, content: BinaryIO, filename: str, content_type: str) -> None:
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename.translate(ESCAPED)}"'
            f"\r\nContent-Type: {content_type}\r\n\r\n"
        )
        before = head.encode()
        after = f"\r\n--{boundary}--\r\n".encode()
        size = _rewound_size(content)
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        """Headers of the request: ``Content-Type``, and ``Content-Length`` if the file is seekable."""
        if size is not None:
            self.headers["Content-Length"] = str(len(before) + size + len(after))
        self._parts = [io.BytesIO(before), content, io.BytesIO(after)]

    def readable(self) -> bool:
        """Return True: the body can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """
        Read the next bytes of the body into a buffer.

        :param buffer: Writable buffer.
        :return: Number of bytes read; 0 at the end.
        """
        view = memoryview(buffer).cast("B")
        while self._parts:
            piece = self._parts[0].read(len(view))
            if piece:
                view[: len(piece)] = piece
                return len(piece)
            self._parts.pop(0)
        return 0


def _rewound_size(content: BinaryIO) -> int | None:
    """Rewind a seekable file and return its size in bytes; return None for any other."""
    if not content.seekable():
        return None
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    return size
