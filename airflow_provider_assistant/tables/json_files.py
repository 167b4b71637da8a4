"""Read JSON files: one object per line, or one array of objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.tables.batches import BATCH, Batch, Columns, Note, Part, columns_of_rows
from airflow_provider_assistant.tables.text import BATCH_CHARACTERS, ROW_LIMIT, open_text, too_long

# Characters of the longest array.
ARRAY_LIMIT = 100 << 20
# The end mark of old files, and white space.
_BLANKS = " \t\r\n\x1a"


class _Row(NamedTuple):
    """
    A row of a file.

    :param values: Empty if the row cannot be read.
    :param size: Its characters.
    :param problem: Why it cannot be read.
    """

    line: int
    size: int
    values: Mapping[str, Any]
    problem: str = ""


def read_json(stack: ExitStack, file: BinaryIO, path: StoragePath, encoding: str, columns: Columns) -> Iterator[Part]:
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
    present: dict[str, None] = {}
    blank = Note("row", "is blank", "", expected=True, count=0)
    is_empty = not is_array
    while block := list(_next_block(rows)):
        is_empty = False
        kept = [row for row in block if row.problem or any(map(_says_something, row.values.values()))]
        if len(kept) < len(block):
            name = blank.name or next(f"{path}, line {row.line}" for row in block if row not in kept)
            blank = replace(blank, name=name, count=blank.count + len(block) - len(kept))
        problems = {position: row.problem for position, row in enumerate(kept) if row.problem}
        if problems and len(problems) == len(kept) and not present:
            raise ValueError(f"line {kept[0].line} {kept[0].problem}")
        values = [row.values for row in kept]
        present |= dict.fromkeys(itertools.chain.from_iterable(values))
        yield Batch(
            columns_of_rows(values, columns),
            problems=problems,
            encoding=text_file.encoding,
            file=str(path),
            lines=[row.line for row in kept],
        )
    if present:
        # Checked at the end: the first rows may lack a field that later ones have.
        columns.check(present, repr(str(path)))
    if is_empty:
        yield Note("file", "is empty", str(path), expected=False)
    if blank.count:
        yield blank


def _next_block(rows: Iterator[_Row]) -> Iterator[_Row]:
    """Yield the next 1,000 rows; fewer if they are long."""
    size = 0
    for row in itertools.islice(rows, BATCH):
        yield row
        size += row.size
        if size > BATCH_CHARACTERS:
            return


def _says_something(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _rows_of_lines(start: str, text_file: TextIO) -> Iterator[_Row]:
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


def _parsed(number: int, line: str) -> _Row:
    try:
        # A text that cannot be decoded is a bad cell: the row keeps its key.
        row = strict_json.loads_row(line if line.strip(_BLANKS) else "{}")
        if isinstance(row, dict):
            return _Row(number, len(line), row)
        problem = "must be a JSON object"
    except (strict_json.LimitError, strict_json.RepeatedNameError) as error:
        problem = f"is JSON {error}"
    except ValueError as error:
        problem = f"is not JSON: {error}"
    return _Row(number, len(line), {}, problem)


def _rows_of_array(start: str, text_file: TextIO) -> Iterator[_Row]:
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
            yield _Row(line, position - counted, row)
            counted = position
    except ValueError as error:
        raise ValueError(f"line {line}, or a later one, is not an array of JSON objects: {error}") from error
