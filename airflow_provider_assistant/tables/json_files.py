"""Read JSON files: one object per line, or one array of objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.tables.batches import Columns, Part, Row, batches_of_rows
from airflow_provider_assistant.tables.text import ROW_LIMIT, open_text, too_long

# Characters of the longest array.
ARRAY_LIMIT = 100 << 20
# The end mark of old files, and white space.
_BLANKS = " \t\r\n\x1a"


def read_json(stack: ExitStack, file: BinaryIO, path: StoragePath, encoding: str, columns: Columns) -> Iterator[Part]:
    """
    Yield the columns of a JSON file.

    :param stack: Closes what is opened.
    :param encoding: See :func:`open_text`.
    :raises ValueError: The file cannot be read.
    """
    text_file = open_text(stack, file, path, encoding)
    left_out = SourceAccount()
    present: dict[str, None] = {}
    # Blank lines, and then the beginning of an array or of a row.
    start = ""
    while not start.strip() and (piece := text_file.readline(1 << 16)):
        start += piece
    is_array = start.lstrip().startswith("[")

    def rows() -> Iterator[Row]:
        is_empty = not is_array
        for row in _rows_of_array(start, text_file) if is_array else _rows_of_lines(start, text_file):
            is_empty = False
            present.update(dict.fromkeys(row.values))
            if row.problem or any(map(_says_something, row.values.values())):
                yield row
            else:
                left_out.leave_out("row", "is blank", f"{path}, line {row.line}", is_expected=True)
        if is_empty:
            left_out.leave_out("file", "is empty", str(path), is_expected=False)

    for batch in batches_of_rows(rows(), columns, str(path), text_file.encoding):
        if not present:
            raise ValueError(f"line {batch.lines[0]} {batch.problems[0]}")
        yield batch
    if present:
        # Checked at the end: the first rows may lack a field that later ones have.
        columns.check(present, repr(str(path)))
    yield from left_out.notes()


def _says_something(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _rows_of_lines(start: str, text_file: TextIO) -> Iterator[Row]:
    number = start.count("\n")
    first_line = start.lstrip("\r\n")
    if not start.endswith("\n"):
        first_line += text_file.readline(ROW_LIMIT)
        number += 1
    for line in itertools.chain([first_line], iter(lambda: text_file.readline(ROW_LIMIT + 1), "")):
        if len(line) > ROW_LIMIT:
            raise too_long(number)
        if line.strip("\r\n"):
            yield _parsed(number, line)
        number += 1


def _parsed(number: int, line: str) -> Row:
    try:
        # A text that cannot be decoded is a bad cell: the row keeps its key.
        row = strict_json.loads_row(line if line.strip(_BLANKS) else "{}")
        if isinstance(row, dict):
            return Row(row, number, len(line))
        problem = "must be a JSON object"
    except (strict_json.LimitError, strict_json.RepeatedNameError) as error:
        problem = f"is JSON {error}"
    except ValueError as error:
        problem = f"is not JSON: {error}"
    return Row({}, number, len(line), problem)


def _rows_of_array(start: str, text_file: TextIO) -> Iterator[Row]:
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
            yield Row(row, line, position - counted)
            counted = position
    except ValueError as error:
        raise ValueError(f"line {line}, or a later one, is not an array of JSON objects: {error}") from error
