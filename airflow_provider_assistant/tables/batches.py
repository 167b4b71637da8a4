"""What a source becomes: batches of rows by column, and notes about what it left out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.texts import NOT_TEXT, did_you_mean, escaped, is_encodable

# Rows of a batch, and the characters of text after which it is full.
BATCH, BATCH_CHARACTERS = 1000, 4 << 20

_FIELD_ADVICE = (
    "If a field's column has another name, pass columns={field: column} (--column FIELD=COLUMN); "
    "if a field has the same value in all rows, pass constants={field: value} (--constant FIELD=VALUE)."
)
_KEY_ADVICE = "If a column has another name now, set key_columns (--key) or group_columns (--group) to it."


class Row(NamedTuple):
    """
    A row of a source.

    :param values: Its values by column. Empty if it cannot be read.
    :param line: Number of the line of its file on which it begins.
    :param size: Its characters in the file.
    :param problem: Why it cannot be read. Empty if it can.
    """

    values: Mapping[str, Any]
    line: int = 0
    size: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Hold a batch of rows by column.

    :param columns: Values of each column that was read; all lists have the same length.
    :param start: Number of the first row in the source, from 1.
    :param problems: Why a row cannot be read, by its position in the batch from 0. The row's values
        are placeholders.
    :param encoding: Encoding from which the texts were decoded. Empty if they were text before: a
        text with half a character is then still known, and can be compared.
    :param file: Path of the text file that the rows come from. Empty for other sources.
    :param lines: Line number of each row in that file.
    """

    columns: dict[str, list[Any]]
    start: int = 1
    problems: Mapping[int, str] = field(default_factory=dict)
    encoding: str = ""
    file: str = ""
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, position: int) -> str:
        """Return the file and line, or the row number, of the row at this position in the batch."""
        if self.lines:
            return f"{escaped(self.file)}, line {self.lines[position]}"
        return f"row {self.start + position}"

    def problems_of(self, texts: Iterable[str], keys: Iterable[str] = ()) -> dict[int, str]:
        """
        Return why a row cannot be read, or has a text that cannot be used, by its position.

        :param texts: Columns that are sent.
        :param keys: Columns that are compared.
        """
        problems: dict[int, str] = {}
        for name in [*texts, *keys] if self.encoding else texts:
            problems |= _bad_texts(name, self.columns.get(name, ()), self.encoding)
        return problems | dict(self.problems)


Part: TypeAlias = "Batch | Note"


@dataclass(frozen=True, slots=True)
class Columns:
    """
    Name the columns to read.

    :param required: Columns that the source must have.
    :param optional: Columns whose values are None if the source lacks them.
    :param texts: Those of both that are sent as text. Missing values become None; values of other
        types are kept for the validation of the row.
    :param rest: Whether to read all other columns as well.
    :param known: Columns that have one value in all rows, from the names of folders.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    rest: bool = False
    known: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, None]:
        """Columns that every batch has, in their order."""
        return dict.fromkeys([*self.required, *self.optional])

    def present(self, names: Iterable[Any]) -> list[Any]:
        """Return those of a source's columns that are to be read."""
        present = dict.fromkeys(names)
        return list(present) if self.rest else [name for name in self.names if name in present]

    def complete(self, columns: dict[str, list[Any]], count: int) -> dict[str, list[Any]]:
        """Return the columns of some rows, with those that the source lacks."""
        missing = [name for name in self.names if name not in columns]
        return columns | {name: [self.known.get(name)] * count for name in missing}

    def check(self, present: Iterable[Any], where: str = "source", advice: str = "") -> None:
        """
        Check that a source has the required columns, each once.

        :param where: Name of the source for the message.
        :param advice: What to do if a column is missing, as a sentence.
        :raises AssistantInputError: A required column is missing, or a column to read is there twice.
        """
        counts = Counter(list(present))
        listed = ", ".join(map(_shown, counts)) or "none"
        missing = [name for name in dict.fromkeys(self.required) if name not in {*counts, *self.known}]
        if missing:
            meant = did_you_mean(missing[0], [name for name in counts if isinstance(name, str)])
            is_text = not self.texts.isdisjoint(missing)
            todo = [advice] if advice else []
            if not self.texts.issuperset(missing):
                todo.append(_KEY_ADVICE)
            if is_text:
                todo.append(_FIELD_ADVICE)
            raise AssistantInputError(
                f"{where} has no column {', '.join(map(_shown, missing))}; it has {listed}{meant}",
                todo=" ".join(todo),
                field="columns" if is_text else "key_columns",
            )
        repeated = [_shown(name) for name in self.present(counts) if counts[name] > 1]
        if repeated:
            raise AssistantInputError(
                f"{where} has more than one column {', '.join(repeated)}; it has {listed}",
                todo="Rename or drop one of them.",
                field="columns",
            )


def _shown(name: Any) -> str:
    """Return the name of a column, in quotes and with escapes if it has invisible characters."""
    if not isinstance(name, str):
        return f"{name!r} ({type(name).__name__})"
    return name if name.isprintable() and name == name.strip() and name else repr(name)


def numbered(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the notes, and the batches that have rows, with the numbers of their rows."""
    start = 1
    for part in parts:
        if isinstance(part, Note):
            yield part
        elif len(part):
            yield replace(part, start=start)
            start += len(part)


def _bad_texts(name: str, values: Sequence[Any], encoding: str) -> dict[int, str]:
    """Return why texts of a column cannot be sent, by their position."""
    # One check of the whole column is faster than one of each value, and rows may share a large text.
    if is_encodable("".join({text for text in values if isinstance(text, str)})):
        return {}
    problems = {}
    for position, text in enumerate(values):
        if isinstance(text, str) and not is_encodable(text):
            problems[position] = f"column {name!r} {_problem_of(text, encoding)}"
    return problems


def _problem_of(text: str, encoding: str) -> str:
    # Only a byte that cannot be decoded becomes one of these characters.
    if encoding and any("\udc80" <= char <= "\udcff" for char in text):
        return (
            f"has bytes of another encoding than {encoding}; set csv_options={{'encoding': …}} "
            "(--encoding), such as cp1252"
        )
    if encoding:
        return "is not valid text: it holds half a character (a lone surrogate)"
    return NOT_TEXT


def batches_of_rows(rows: Iterable[Row], columns: Columns, file: str = "", encoding: str = "") -> Iterator[Batch]:
    """
    Yield rows by column; they need not have the same columns.

    :param file: Path of the text file that the rows come from.
    :param encoding: Its encoding.
    """
    for block in _blocks(rows):
        names = [name for name in columns.names if any(name in row.values for row in block)]
        if columns.rest:
            names = columns.present(itertools.chain.from_iterable(row.values for row in block))
        read = {name: [row.values.get(name) for row in block] for name in names}
        for name in columns.texts & read.keys():
            read[name] = texts_of(read[name])
        yield Batch(
            columns.complete(read, len(block)),
            problems={position: row.problem for position, row in enumerate(block) if row.problem},
            encoding=encoding,
            file=file,
            lines=[row.line for row in block] if file else (),
        )


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows in lists of 1,000; of fewer, if they have many characters."""
    block: list[Row] = []
    size = 0
    for row in rows:
        block.append(row)
        size += row.size
        if len(block) == BATCH or size > BATCH_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def batches_of_mappings(rows: Iterable[Mapping[str, Any]], columns: Columns) -> Iterator[Batch]:
    """
    Yield the columns of mappings.

    :raises AssistantInputError: No row has a required column.
    """
    present: dict[str, None] = {}

    def read() -> Iterator[Row]:
        for row in rows:
            present.update(dict.fromkeys(row))
            yield Row(row)

    yield from batches_of_rows(read(), columns)
    if present:
        columns.check(present)


def texts_of(values: list[Any]) -> list[Any]:
    """Convert strings to ``str`` and missing values to None; keep all other values."""
    return [value if type(value) is str else _text(value) for value in values]


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    return None if is_missing(value) else value
