"""Read JSON files: one object per line, or one array of objects."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple, TextIO

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import BATCH, Batch, ColumnSelection, columns_of_rows
from airflow_provider_assistant.loading.text_files import (
    BATCH_CHARACTERS,
    ROW_LIMIT,
    bounded_lines,
    open_text,
    too_long,
)
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath

# Characters that are read at once.
CHUNK = 1 << 20

# The end mark of old files, and white space.
_BLANKS = " \t\r\n\x1a"
_NOT_JSON = "is not JSON"

# Up to the next bracket outside of strings. Without backtracking, as a string at the end may not be complete.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(rf'[^"\[\]{{}}]*+(?:{_STRING}[^"\[\]{{}}]*+)*+[\[\]{{}}]', re.DOTALL)


def read_json(
    stack: ExitStack,
    file: BinaryIO,
    path: StoragePath,
    encoding: str,
    wanted: ColumnSelection,
    account: SourceAccount,
    *,
    has_lines: bool,
) -> Iterator[Batch]:
    """
    Yield the wanted columns of a JSON file.

    :param stack: Closes what is opened.
    :param file: The opened file.
    :param encoding: See :func:`open_text`.
    :param account: Counts the rows that are left out.
    :param has_lines: Whether a file that is not an array has one object per line. Otherwise an object may take several
        lines.
    :raises ValueError: The file cannot be read, or it is not certain where a row ends.
    """
    text_file = open_text(stack, file, path, encoding)
    start = text_file.read(CHUNK)
    is_array = start.lstrip().startswith("[")
    if is_array or not (has_lines or _begins_with_row(start)):
        parsed_rows = _rows_of_objects(start, text_file, is_array=is_array)
    else:
        parsed_rows = _rows_of_lines(start, text_file)
    nested_names = [name for name in wanted.read if "." in name]
    # The names of all fields so far, in their order.
    present_names: dict[str, None] = {}
    last_row: dict[str, Any] = {}
    is_empty = not is_array
    while parsed_batch := list(_next_batch(parsed_rows)):
        is_empty = False
        rows: list[dict[str, Any]] = []
        lines: list[int] = []
        problems: dict[int, str] = {}
        for line, row, problem, _size in parsed_batch:
            if problem:
                problems[len(rows)] = problem
            elif _is_blank(row):
                account.leave_out("row", "is blank", f"{path}, line {line}", is_expected=True)
                continue
            for name in nested_names:
                _add_nested(row, name)
            rows.append(row)
            lines.append(line)
        if problems and len(problems) == len(rows) and not present_names:
            raise ValueError(f"line {lines[0]} {problems[0]}")
        batch_names = dict.fromkeys(itertools.chain.from_iterable(rows))
        present_names |= batch_names
        last_row = rows[-1] if rows else last_row
        columns = columns_of_rows(rows, batch_names, wanted)
        yield Batch(columns, problems=problems, is_decoded=True, file=str(path), lines=lines)
    if present_names:
        # Check at the end: a field may be missing in the first lines and present in later ones.
        _check_columns(present_names, last_row, wanted, str(path))
    if is_empty:
        account.leave_out("file", "is empty", str(path), is_expected=False)


class _ParsedRow(NamedTuple):
    """
    A row of a file.

    :param line: Number of the line that it begins on.
    :param row: Empty if it cannot be read.
    :param problem: Why it cannot be read; empty if it can.
    :param size: Characters of its text.
    """

    line: int
    row: dict[str, Any]
    problem: str
    size: int


def _next_batch(rows: Iterator[_ParsedRow]) -> Iterator[_ParsedRow]:
    """Yield the next 1,000 rows; fewer if they are long."""
    size = 0
    for row in itertools.islice(rows, BATCH):
        yield row
        size += row.size
        if size > BATCH_CHARACTERS:
            return


def _check_columns(present: Iterable[str], row: Mapping[str, Any], wanted: ColumnSelection, path: str) -> None:
    """
    Check that a file has the required columns.

    :param row: The last row, which may be the whole reply of an API.
    :raises AssistantInputError: A column is missing.
    """
    try:
        wanted.check(present, repr(path))
    except AssistantInputError as error:
        lists = [name for name, value in row.items() if isinstance(value, list)]
        if len(lists) == 1:
            source = f"lambda: json.load(open({path!r}))[{lists[0]!r}]"
            error.todo = f"If the rows are in the field {lists[0]}, pass source={source}. {error.todo}"
        raise


def _begins_with_row(start: str) -> bool:
    """Return whether the first line of a text is a JSON object, or the text is blank."""
    first_line, *_ = start.lstrip().splitlines() or [""]
    try:
        return isinstance(strict_json.loads_row(first_line or "{}"), dict)
    except ValueError:
        return False


def _rows_of_lines(start: str, text_file: TextIO) -> Iterator[_ParsedRow]:
    # The end of the first part is rarely the end of a line.
    first_lines = io.StringIO(start + text_file.readline(ROW_LIMIT), newline="")
    for number, line in enumerate(bounded_lines(first_lines, text_file), start=1):
        if line.strip("\r\n"):
            row, problem = _parsed(line)
            yield _ParsedRow(number, row, problem, len(line))


def _rows_of_objects(start: str, text_file: TextIO, *, is_array: bool) -> Iterator[_ParsedRow]:
    """
    Yield the objects of an array, or objects one after the other.

    :raises ValueError: Something is not JSON, so it is not certain where an object ends.
    """
    for line, text in _objects(start, text_file, is_array=is_array):
        row, problem = _parsed(text)
        if problem.startswith(_NOT_JSON):
            raise ValueError(f"line {line} {problem}")
        yield _ParsedRow(line, row, problem, len(text))


def _objects(start: str, text_file: TextIO, *, is_array: bool) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each object, without reading the whole file into memory."""
    buffer = start
    # Where the next search begins, and where the text begins that is still needed.
    position = needed = buffer.index("[") + 1 if is_array else 0
    line = 1 + buffer.count("\n", 0, needed)
    outside = int(is_array)
    depth = outside
    separator = ""
    while True:
        match = _TO_BRACKET.match(buffer, position)
        if match is None:
            rest = buffer[needed:]
            more = text_file.read(max(CHUNK, len(rest)))
            if len(rest) > ROW_LIMIT:
                raise too_long(line)
            if not more:
                break
            buffer, position, needed = rest + more, position - needed, 0
            continue
        position = match.end()
        is_opening = buffer[position - 1] in "[{"
        if depth == outside:
            between = buffer[needed : position - 1]
            line += between.count("\n")
            if not is_opening:
                break
            if between.strip() != separator:
                raise ValueError(f"line {line} is not an object, or not separated from the one before")
            needed = position - 1
        depth += 1 if is_opening else -1
        if depth == outside:
            yield line, buffer[needed:position]
            line += buffer.count("\n", needed, position)
            needed = position
            separator = "," if is_array else ""
    rest = buffer[needed:] + text_file.read(1)
    end = "]" if is_array else ""
    if depth != outside or rest.strip(_BLANKS) != end:
        raise ValueError(f"line {line}: the JSON is cut off, is not closed, or goes on after its end")


def _parsed(text: str) -> tuple[dict[str, Any], str]:
    """Return the row of a text, empty if it cannot be read, and why it cannot be read."""
    if not text.strip(_BLANKS):
        return {}, ""
    try:
        # A text that cannot be decoded is a bad cell: the row keeps its key.
        value = strict_json.loads_row(text)
    except (strict_json.LimitError, strict_json.RepeatedNameError) as error:
        return {}, f"is JSON {error}"
    except ValueError as error:
        return {}, f"{_NOT_JSON}: {error}"
    if not isinstance(value, dict):
        return {}, "must be a JSON object"
    return value, ""


def _is_blank(row: Mapping[str, Any]) -> bool:
    return all(value is None or (isinstance(value, str) and not value.strip()) for value in row.values())


def _add_nested(row: dict[str, Any], name: str) -> None:
    """Add the value at a path such as ``fields.title``, unless the row has a field of this name or nothing there."""
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return
        value = value[part]
    row.setdefault(name, value)
