"""Read JSON files: one object per line, or one array of objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.tables.batches import Columns, Part
from airflow_provider_assistant.tables.text import ROW_LIMIT, TextRow, batches_of_text, open_text, too_long

# Characters of the longest array.
ARRAY_LIMIT = 100 << 20
# The end mark of old files, and white space.
_BLANKS = " \t\r\n\x1a"


def read_json(
    stack: ExitStack, file: BinaryIO, path: StoragePath, encoding: str, columns: Columns
) -> Iterator[Part]:
    """
    Yield the columns of a JSON file.

    :param stack: Closes what is opened.
    :param encoding: See :func:`open_text`.
    :raises ValueError: The file cannot be read.
    """
    text_file = open_text(stack, file, path, encoding)
    # Blank lines, and then the beginning of an array or of a row.
    start = ""
    while not start.strip() and (piece := text_file.readline(1 << 16)):
        start += piece
    is_array = start.lstrip().startswith("[")
    rows = _rows_of_array(start, text_file) if is_array else _rows_of_lines(start, text_file)
    yield from batches_of_text(rows, path, text_file.encoding, columns)


def _rows_of_lines(start: str, text_file: TextIO) -> Iterator[TextRow]:
    first_line = start.lstrip("\r\n")
    number = start.count("\n")
    if not start.endswith("\n"):
        first_line += text_file.readline(ROW_LIMIT)
        number += 1
    for line in itertools.chain([first_line], iter(lambda: text_file.readline(ROW_LIMIT + 1), "")):
        if len(line) > ROW_LIMIT:
            raise too_long(number)
        if line.strip("\r\n"):
            yield _parsed(line), number, len(line)
        number += 1


def _parsed(line: str) -> dict[str, object] | str:
    """Return the row of a line, or why it cannot be read."""
    try:
        # A text that cannot be decoded is a bad cell: the row keeps its key.
        row = strict_json.loads_row(line if line.strip(_BLANKS) else "{}")
    except (strict_json.LimitError, strict_json.RepeatedNameError) as error:
        return f"is JSON {error}"
    except ValueError as error:
        return f"is not JSON: {error}"
    return row if isinstance(row, dict) else "must be a JSON object"


def _rows_of_array(start: str, text_file: TextIO) -> Iterator[TextRow]:
    """
    Yield the objects of an array, which is read as a whole.

    :raises ValueError: It is too large, or something is not JSON.
    """
    text = start + text_file.read(ARRAY_LIMIT)
    if len(text) > ARRAY_LIMIT:
        raise ValueError(f"its array has more than {ARRAY_LIMIT >> 20} MB: write one object per line (.jsonl)")
    line = 1
    counted = 0
    try:
        for position, row in strict_json.items(text.rstrip(_BLANKS)):
            line += text.count("\n", counted, position)
            if not isinstance(row, dict):
                raise ValueError("an item must be an object")  # noqa: TRY004, TRY301
            yield row, line, position - counted
            counted = position
    except ValueError as error:
        raise ValueError(f"line {line}, or a later one, is not an array of JSON objects: {error}") from error
