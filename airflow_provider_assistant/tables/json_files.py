"""Read JSON files: one object per line, or one array of objects."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.tables.batches import BATCH, Batch, Columns, Note, Part, columns_of_rows
from airflow_provider_assistant.tables.text import BATCH_CHARACTERS, ROW_LIMIT, bounded_lines, open_text

# Characters of the longest array.
ARRAY_LIMIT = 100 << 20
# The end mark of old files, and white space.
_BLANKS = " \t\r\n\x1a"


class _Row(NamedTuple):
    """
    A row of a file.

    :param values: Empty if the row cannot be read.
    :param problem: Why it cannot be read; empty if it can.
    :param size: Characters of its text.
    """

    line: int
    values: Mapping[str, Any]
    problem: str = ""
    size: int = 0


def read_json(
    stack: ExitStack,
    file: BinaryIO,
    path: StoragePath,
    encoding: str,
    columns: Columns,
    values: Mapping[str, str | None],
    *,
    has_lines: bool,
) -> Iterator[Part]:
    """
    Yield the columns of a JSON file.

    :param stack: Closes what is opened.
    :param encoding: See :func:`open_text`.
    :param values: Columns that are known without the file, see :meth:`Columns.complete`.
    :param has_lines: Whether the file has one object per line unless it is an array. Otherwise it
        may also be one object of several lines.
    :raises ValueError: The file cannot be read.
    """
    text_file = open_text(stack, file, path, encoding)
    start = text_file.read(1 << 16)
    is_array = start.lstrip().startswith("[")
    if not is_array:
        start += text_file.readline(ROW_LIMIT)
    is_whole = is_array or not (has_lines or _begins_with_row(start))
    rows = _rows_of_array(start, text_file) if is_whole else _rows_of_lines(start, text_file)
    # The names of all fields so far, in their order.
    present: dict[str, None] = {}
    last_row: Mapping[str, Any] = {}
    is_empty = not is_array
    blank = 0
    first_blank = ""
    while block := list(_next_block(rows)):
        is_empty = False
        kept = [row for row in block if row.problem or not _is_blank(row.values)]
        if len(kept) < len(block) and not first_blank:
            first_blank = next(f"{path}, line {row.line}" for row in block if row not in kept)
        blank += len(block) - len(kept)
        problems = {position: row.problem for position, row in enumerate(kept) if row.problem}
        if problems and len(problems) == len(kept) and not present:
            raise ValueError(f"line {kept[0].line} {kept[0].problem}")
        read = [row.values for row in kept]
        present |= dict.fromkeys(itertools.chain.from_iterable(read))
        last_row = read[-1] if read else last_row
        yield Batch(
            columns_of_rows(read, columns, values),
            problems=problems,
            encoding=text_file.encoding,
            file=str(path),
            lines=[row.line for row in kept],
        )
    if present:
        # Checked at the end: the first rows may lack a field that later ones have.
        _check_columns([*present], last_row, columns, values, str(path))
    if is_empty:
        yield Note("file", "is empty", str(path), expected=False)
    if blank:
        yield Note("row", "is blank", first_blank, expected=True, count=blank)


def _next_block(rows: Iterator[_Row]) -> Iterator[_Row]:
    """Yield the next 1,000 rows; fewer if they are long."""
    size = 0
    for row in itertools.islice(rows, BATCH):
        yield row
        size += row.size
        if size > BATCH_CHARACTERS:
            return


def _is_blank(row: Mapping[str, Any]) -> bool:
    return all(value is None or (isinstance(value, str) and not value.strip()) for value in row.values())


def _check_columns(
    present: list[str],
    row: Mapping[str, Any],
    columns: Columns,
    values: Mapping[str, str | None],
    path: str,
) -> None:
    """
    Check that a file has the required columns.

    :param row: The last row, which may be the whole reply of an API.
    :raises AssistantInputError: A column is missing.
    """
    try:
        columns.check(present, repr(path), values)
    except AssistantInputError as error:
        lists = [name for name, value in row.items() if isinstance(value, list)]
        if len(lists) == 1:
            source = f"lambda: json.load(open({path!r}))[{lists[0]!r}]"
            error.todo = f"If the rows are in the field {lists[0]}, pass source={source}. {error.todo}"
        raise


def _begins_with_row(start: str) -> bool:
    """Return whether the first line of a text is a JSON object, or the text is blank."""
    first_line = start.lstrip().partition("\n")[0]
    return not _parsed(1, first_line).problem


def _rows_of_lines(start: str, text_file: TextIO) -> Iterator[_Row]:
    lines = itertools.chain(io.StringIO(start, newline=""), bounded_lines(text_file))
    for number, line in enumerate(lines, start=1):
        if line.strip("\r\n"):
            yield _parsed(number, line)


def _parsed(number: int, line: str) -> _Row:
    size = len(line)
    if not line.strip(_BLANKS):
        return _Row(number, {}, size=size)
    try:
        # A text that cannot be decoded is a bad cell: the row keeps its key.
        row = strict_json.loads_row(line)
    except (strict_json.LimitError, strict_json.RepeatedNameError) as error:
        return _Row(number, {}, f"is JSON {error}", size)
    except ValueError as error:
        return _Row(number, {}, f"is not JSON: {error}", size)
    if not isinstance(row, dict):
        return _Row(number, {}, "must be a JSON object", size)
    return _Row(number, row, size=size)


def _rows_of_array(start: str, text_file: TextIO) -> Iterator[_Row]:
    """
    Yield the objects of an array, which is read as a whole.

    :raises ValueError: It is too large, or something is not JSON.
    """
    text = start + text_file.read(ARRAY_LIMIT)
    if len(text) > ARRAY_LIMIT:
        raise ValueError(
            f"it is a JSON array of more than {ARRAY_LIMIT >> 20} MB; write one object per line (.jsonl) instead"
        )
    line, counted = 1, 0
    try:
        for position, row in strict_json.items(text.rstrip(_BLANKS)):
            line += text.count("\n", counted, position)
            counted = position
            if not isinstance(row, dict):
                raise ValueError("an item must be a JSON object")  # noqa: TRY004, TRY301
            yield _Row(line, row)
    except ValueError as error:
        raise ValueError(f"line {line} and what follows is not a JSON array of objects: {error}") from error
