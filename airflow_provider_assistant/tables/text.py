"""Open files of text: compression, encoding, and the length of their rows."""

from __future__ import annotations

import io
from contextlib import ExitStack
from typing import Any, BinaryIO, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.storage.opening import StoragePath

# Characters of the longest row: a file without line breaks would be read into memory as a whole.
ROW_LIMIT = 16 << 20

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_WORKBOOK = "is an Excel workbook: pass source=lambda: pandas.read_excel({!r}, dtype=str, keep_default_na=False)"
# What other formats begin with.
_SIGNATURES = {
    b"\x1f\x8b": "is compressed with gzip, but its name does not end in .gz",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd, but its name does not end in .zst",
    b"PK\x03\x04": _WORKBOOK,
    b"\xd0\xcf\x11\xe0": _WORKBOOK,
    b"PAR1": "is a Parquet file, but its name does not end in .parquet",
}


def open_text(stack: ExitStack, file: BinaryIO, path: StoragePath, encoding: str) -> TextIO:
    """
    Return the text of a file that may be compressed, after its byte order mark.

    Bytes that cannot be decoded become surrogates; line breaks stay as they are.

    :param stack: Closes what is opened.
    :param path: Its suffix says how the file is compressed.
    :param encoding: Used if the file has no byte order mark. Empty for UTF-8.
    :raises ValueError: The file is in another format.
    """
    buffered = stack.enter_context(io.BufferedReader(_uncompressed(file, path), 1 << 18))
    start = buffered.peek(4)[:4]
    for signature, problem in _SIGNATURES.items():
        if start.startswith(signature):
            raise ValueError(f"it {problem.format(str(path))}")
    mark, marked_encoding = strict_json.encoding_of(start)
    # peek() has not consumed the mark.
    buffered.read(len(mark))
    found = marked_encoding if mark else encoding or "utf-8"
    text_file = io.TextIOWrapper(buffered, found, errors="surrogateescape", newline="")
    return stack.enter_context(text_file)


def _uncompressed(file: BinaryIO, path: StoragePath) -> Any:
    codec = COMPRESSIONS.get(path.suffix.lower())
    # A file of no bytes is not a broken archive: it is empty.
    is_compressed = codec and file.read(1)
    file.seek(0)
    if not is_compressed:
        return file
    import pyarrow as pa

    # Unlike other readers, it raises an error if the file is cut off.
    return pa.CompressedInputStream(file, codec)


def too_long(line: int) -> ValueError:
    """Return the error of a row that is too long, and begins on this line."""
    return ValueError(
        f"line {line}: a row has more than {ROW_LIMIT:,} characters. A quote may be opened and not "
        "closed, or a line break be missing"
    )
