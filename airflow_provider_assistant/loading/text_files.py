"""Open files of text: compression and encoding."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.storage.paths import StoragePath

# Characters of the longest row of a file: a quote that is never closed, or a file without line breaks, would otherwise
# read the whole file into memory.
ROW_LIMIT = 16 << 20
# Characters after which a batch of rows is full.
BATCH_CHARACTERS = 4 << 20

# What other formats begin with.
_SIGNATURES = {
    b"\x1f\x8b": "is compressed with gzip, but its name does not end in .gz",
    b"\xfd7zX": "is compressed with xz, but its name does not end in .xz",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd, but its name does not end in .zst",
    b"PK\x03\x04": "is a ZIP archive or an Excel workbook, not text",
}


def open_text(stack: ExitStack, file: BinaryIO, path: StoragePath, encoding: str) -> io.TextIOWrapper:
    """
    Return the text of a file that may be compressed, after its byte order mark.

    Bytes that cannot be decoded become surrogates.

    :param stack: Closes what is opened.
    :param file: The opened file.
    :param path: Its suffix says how it is compressed.
    :param encoding: Used if the file does not begin with a byte order mark or with zero bytes, which only UTF-16 and
        UTF-32 have. Empty for UTF-8.
    :return: The text with its line breaks as they are. Its attribute ``encoding`` says in which encoding it is.
    :raises ValueError: The file is compressed or in another format, or its encoding is not certain.
    """
    buffered = stack.enter_context(io.BufferedReader(_uncompressed(stack, file, path)))
    start = buffered.peek(4)[:4]
    for signature, problem in _SIGNATURES.items():
        if start.startswith(signature):
            raise ValueError(f"it {problem}")
    mark_length, found_encoding = _encoding_of(start, encoding or "utf-8")
    # Skip the mark, which peek() has not consumed.
    buffered.read(mark_length)
    text_file = io.TextIOWrapper(buffered, encoding=found_encoding, errors="surrogateescape", newline="")
    return stack.enter_context(text_file)


def bounded_lines(*parts: TextIO) -> Iterator[str]:
    """
    Yield the lines of a text.

    :param parts: The text; each part but the last one ends at the end of a line.
    :raises ValueError: A line is longer than :data:`ROW_LIMIT`. No more than that is read of it.
    """
    number = 0
    for part in parts:
        while line := part.readline(ROW_LIMIT + 1):
            number += 1
            if len(line) > ROW_LIMIT:
                raise too_long(number)
            yield line


def too_long(line: int) -> ValueError:
    """
    Return the error of a row that is too long.

    :param line: Number of the line that the row begins on.
    """
    return ValueError(
        f"line {line}: a row has more than {ROW_LIMIT:,} characters. A quote may be opened and not closed, or a line "
        "break be missing"
    )


def _uncompressed(stack: ExitStack, file: BinaryIO, path: StoragePath) -> Any:
    opener = COMPRESSED.get(path.suffix.lower())
    # A file of no bytes is not a broken archive: it is empty.
    if opener is None or not file.read(1):
        file.seek(0)
        return file
    file.seek(0)
    return stack.enter_context(opener(file))


def _zstd(file: Any) -> Any:
    import pyarrow as pa

    # Unlike other readers, it raises an error if the file is cut off.
    return pa.CompressedInputStream(file, "zstd")


COMPRESSED: Mapping[str, Callable[[Any], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


def _encoding_of(start: bytes, given: str) -> tuple[int, str]:
    """Return the length of the byte order mark, and the encoding of a text that begins with these bytes."""
    mark, marked_encoding = strict_json.encoding_of(start)
    if mark:
        return len(mark), marked_encoding
    zeros = [byte == 0 for byte in start]
    if zeros in ([True, True, True, False], [False, True, True, True]):
        return 0, "utf-32-be" if zeros[0] else "utf-32-le"
    # The first character of a text is rarely beyond ASCII, and never NUL.
    if any(zeros[:2]) and not all(zeros[:2]):
        return 0, "utf-16-be" if zeros[0] else "utf-16-le"
    name = codecs.lookup(given).name
    if name in {"utf-16", "utf-32"}:
        raise ValueError(f"it has no byte order mark: set the encoding to {name}-le or {name}-be")
    # Some encodings beside Unicode's own have a byte order mark as well, such as gb18030.
    given_mark = "\ufeff".encode(given, "ignore")
    if given_mark and start.startswith(given_mark):
        return len(given_mark), given
    return 0, given
