"""Batches of columns, the columns to read, and lists of rows in memory."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import NOT_TEXT, is_encodable

BATCH = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Hold a batch of rows by column.

    :param columns: Values of each wanted column; all lists have the same length.
    :param start: Number of the first row in the source, from 1.
    :param problems: Why a row cannot be read, by its position in the batch from 0. The row's values are placeholders.
    :param bad_cells: Why a text cannot be sent, by its column and its position.
    :param bad_text: What is wrong with a text that has characters without an encoding.
    :param is_decoded: Whether the texts were decoded from bytes, so that one with such characters is not known.
    :param file: Path of the text file that the rows come from. Empty for other sources.
    :param lines: Line number of each row in that file.
    """

    columns: dict[str, list[Any]]
    start: int = 1
    problems: Mapping[int, str] = field(default_factory=dict)
    bad_cells: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    bad_text: str = NOT_TEXT
    is_decoded: bool = False
    file: str = ""
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, position: int) -> str:
        """Return the file and line, or the row number, of the row at this position in the batch."""
        if self.lines:
            return f"{self.file}, line {self.lines[position]}"
        return f"row {self.start + position}"

    def problems_of(self, texts: Iterable[str], keys: Iterable[str] = ()) -> dict[int, str]:
        """
        Return why a row cannot be read, or has a text that cannot be used, by its position.

        :param texts: Columns that are sent.
        :param keys: Columns that are compared. A text that is known can be compared, whatever its characters.
        """
        problems: dict[int, str] = {}
        names = list(texts)
        if self.is_decoded:
            names.extend(keys)
        for name in names:
            problems |= self.bad_cells.get(name, {})
        return problems | dict(self.problems)


_FIELD_ADVICE = (
    "If a field's column has another name, pass columns={field: column} (--column FIELD=COLUMN); if a field has the "
    "same value in all rows, pass constants={field: value} (--constant FIELD=VALUE)."
)
_KEY_ADVICE = "If a column of the key has another name now, set key_columns (--key) to it."


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """
    Name the columns to read.

    :param text: Required columns with text.
    :param any: Required columns of any type, such as key columns.
    :param rest: Whether to read all other columns as well.
    :param optional: Columns with text that the source may lack.
    :param partition: Values of columns that are the same in all rows, for a source that lacks the columns.
    """

    text: tuple[str, ...]
    any: tuple[str, ...] = ()
    rest: bool = False
    optional: tuple[str, ...] = ()
    partition: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Required columns, without repetitions."""
        return tuple(dict.fromkeys(self.text + self.any))

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that every batch contains, without repetitions."""
        return tuple(dict.fromkeys(self.names + self.optional))

    @property
    def text_names(self) -> set[str]:
        """Columns with text, required or optional."""
        return {*self.text, *self.optional}

    def among(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the columns to read of those that are present in the source."""
        present_names = dict.fromkeys(present)
        if self.rest:
            return tuple(present_names)
        return tuple(name for name in self.read if name in present_names)

    def complete(self, columns: dict[str, list[Any]], length: int) -> dict[str, list[Any]]:
        """Return the columns, with those that the source lacks: of one value, or of None."""
        missing_names = [name for name in self.read if name not in columns]
        return columns | {name: [self.partition.get(name)] * length for name in missing_names}

    def check(self, present: Iterable[Any], where: str = "source") -> None:
        """
        Check that a source has the required columns, each once.

        :param where: Name of the source for the error message.
        :raises AssistantInputError: A required column is missing, or a column to read occurs more than once.
        """
        count_by_name = Counter(list(present))
        present_names = ", ".join(map(_shown, count_by_name)) or "none"
        missing = [name for name in self.names if name not in {*count_by_name, *self.partition}]
        if missing:
            advice = _similar_names(missing, count_by_name)
            if {*missing} & {*self.any}:
                advice.append(_KEY_ADVICE)
            if {*missing} & self.text_names:
                advice.append(_FIELD_ADVICE)
            raise AssistantInputError(
                f"{where} has no column {', '.join(map(_shown, missing))}; it has {present_names}",
                todo=" ".join(advice),
                field="columns" if {*missing} & self.text_names else "key_columns",
            )
        repeated = [name for name in self.read if count_by_name[name] > 1]
        if repeated:
            raise AssistantInputError(
                f"{where} has more than one column {', '.join(repeated)}; it has {present_names}",
                todo="Rename or drop one of them.",
                field="columns",
            )


def _shown(name: Any) -> str:
    """Return the name of a column, in quotes and with escapes if it has characters that cannot be seen."""
    text = str(name)
    is_plain = text.isprintable() and text == text.strip() and bool(text)
    return text if is_plain else repr(text)


def _similar_names(missing: Iterable[str], present: Iterable[Any]) -> list[str]:
    """Return sentences about names that look like missing ones."""
    sentences = []
    present_names = {_seen(str(name)): str(name) for name in present}
    for name in missing:
        similar = present_names.get(_seen(name))
        if similar is not None:
            sentences.append(f"The name {similar!r} looks like {name!r}, but has other characters: rename one of them.")
    return sentences


def _seen(name: str) -> str:
    """Return what people see of a name: without white space and invisible characters, and without case."""
    letters = [char for char in unicodedata.normalize("NFKC", name) if char.isprintable() and not char.isspace()]
    return "".join(letters).casefold()


def number(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the non-empty batches, with the number of their first row and their bad cells."""
    start = 1
    for batch in batches:
        if len(batch) > 0:
            yield replace(batch, start=start, bad_cells=_bad_cells(batch))
            start += len(batch)


def _bad_cells(batch: Batch) -> dict[str, dict[int, str]]:
    """Return why a text cannot be sent, by its column and its position."""
    bad_cells = {}
    for name, values in batch.columns.items():
        # One check of the whole column is faster than one of each value.
        try:
            joined = "".join(values)
        except TypeError:
            joined = "".join([value for value in values if isinstance(value, str)])
        if is_encodable(joined):
            continue
        problem = f"column {name!r} {batch.bad_text}"
        bad_cells[name] = {
            position: problem
            for position, value in enumerate(values)
            if isinstance(value, str) and not is_encodable(value)
        }
    return bad_cells


def is_rows(source: Any) -> bool:
    """Return whether a source is a list of mappings."""
    return isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source)


def batches_of_rows(rows: Iterable[Mapping[str, Any]], wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of mappings.

    :param rows: The rows. A row may lack columns that other rows have.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: No row has a required column.
    """
    present: dict[str, None] = {}
    remaining = iter(rows)
    while piece := list(itertools.islice(remaining, BATCH)):
        names = dict.fromkeys(name for row in piece for name in row)
        present |= names
        yield Batch(columns_of_rows(piece, names, wanted))
    if present:
        wanted.check(present)


def columns_of_rows(
    rows: Sequence[Mapping[str, Any]], present: Iterable[str], wanted: ColumnSelection
) -> dict[str, list[Any]]:
    """
    Return the wanted columns of a list of mappings: values by column.

    :param present: Names of the columns that at least one row has.
    """
    columns = {name: [row.get(name) for row in rows] for name in wanted.among(present)}
    for name in wanted.text_names & columns.keys():
        columns[name] = texts_of(columns[name])
    return wanted.complete(columns, len(rows))


def texts_of(values: list[Any]) -> list[Any]:
    """Convert strings to ``str`` and missing values to None; keep other values, which the row's validation refuses."""
    return [value if type(value) is str else _text(value) for value in values]


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if is_missing(value):
        return None
    return value
