"""Read files of text: compression, encoding, and rows with the lines that they begin on."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, TextIO, TypeAlias

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.tables.batches import BATCH, Batch, Columns, Note, Part, columns_of_rows

# Characters of the longest row: a file without line breaks would be read into memory as a whole.
ROW_LIMIT = 16 << 20
# Characters after which a batch of rows is full.
BATCH_CHARACTERS = 4 << 20

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

# A row or the reason why it cannot be read, the number of its line, and its characters; or a note.
TextRow: TypeAlias = "tuple[Mapping[str, Any] | str, int, int] | Note"


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


def batches_of_text(
    rows: Iterator[TextRow], path: StoragePath, encoding: str, columns: Columns
) -> Iterator[Part]:
    """
    Yield the columns of the rows of a file, without blank rows; then the notes, summed up.

    :raises ValueError: None of the first rows can be read.
    :raises AssistantInputError: The file has rows, and none has a required column.
    """
    notes: dict[str, Note] = {}
    present: dict[str, None] = {}
    is_empty = True
    while block := list(_next_block(rows, path, notes)):
        is_empty = False
        lines = [line for _row, line, _size in block]
        problems = {position: row for position, (row, *_) in enumerate(block) if isinstance(row, str)}
        if len(problems) == len(block) and not present:
            raise ValueError(f"line {lines[0]} {problems[0]}")
        values = [{} if isinstance(row, str) else row for row, *_ in block]
        present |= dict.fromkeys(itertools.chain.from_iterable(values))
        read = columns_of_rows(values, columns)
        yield Batch(read, problems=problems, encoding=encoding, file=str(path), lines=lines)
    if present:
        # Checked at the end: the first rows of JSON may lack a field that later ones have.
        columns.check(present, repr(str(path)))
    elif is_empty and not notes:
        yield Note("file", "is empty", str(path), expected=False)
    yield from notes.values()


def _next_block(
    rows: Iterable[TextRow], path: StoragePath, notes: dict[str, Note]
) -> Iterator[tuple[Mapping[str, Any] | str, int, int]]:
    """Yield the next 1,000 rows, fewer if they are long, and add up the notes in between."""
    block_size = count = 0
    for item in rows:
        note = item if isinstance(item, Note) else None
        if not isinstance(item, Note):
            row, line, size = item
            if isinstance(row, str) or any(map(_says_something, row.values())):
                yield row, line, size
                count += 1
                block_size += size
            else:
                note = Note("row", "is blank", f"line {line}", expected=True)
        if note:
            first = notes.setdefault(note.reason, Note(note.unit, note.reason, f"{path}, {note.name}", note.expected, 0))
            notes[note.reason] = Note(first.unit, first.reason, first.name, first.expected, first.count + 1)
        if count == BATCH or block_size > BATCH_CHARACTERS:
            return


def _says_something(value: Any) -> bool:
    """Return whether a value is more than blanks and the marks of old files."""
    if isinstance(value, str):
        return bool(value.strip().strip(" \t\x1a\ufeff"))
    return value is not None
