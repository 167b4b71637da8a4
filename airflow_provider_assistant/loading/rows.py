"""Rows of a source: each has a key, a content hash, and the call that creates its document."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Protocol, TypeAlias

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload, checked
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_label, short_label, whole_label
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.tables import Batch, Note
from airflow_provider_assistant.tables.fingerprints import (
    bad_row_key,
    encoded,
    hashes_of,
    key_texts,
    without_blanks,
)


@dataclass(frozen=True, slots=True)
class Text:
    """
    Hold what a row says.

    :param label: Its key as readable text.
    :param place: Its position in the source, such as ``faq.csv, line 7``.
    :param payload: What its call is made of, as text. None if the row is bad.
    :param problem: Why the row is bad. None if it is not.
    """

    label: str
    place: str
    payload: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RowBatch:
    """
    Hold a batch of rows, by column.

    :param start: Number of the first row in the source, from 1.
    :param keys: Hash of each row's key: of its key columns, or else of its whole content.
    :param hashes: Hash of what each row says.
    :param groups: Name of each row's page, file or ticket. Empty if rows have no groups.
    :param without_key: Positions of the rows whose key is not known. Each may be any row of the source.
    :param problems: Why a row cannot be sent, by its position.
    :param text: Returns what the row at a position says.
    """

    start: int
    keys: list[str]
    hashes: list[str]
    text: Callable[[int], Text]
    groups: list[str | None] = field(default_factory=list)
    without_key: frozenset[int] = frozenset()
    problems: Mapping[int, str] = field(default_factory=dict)


# What a source yields.
RowStream: TypeAlias = Iterator[RowBatch | Note]


class Rows(Protocol):
    """The rows of a load."""

    can_share: bool
    """Whether rows of equal content may have one document."""

    def batches(self) -> RowStream:
        """Yield all rows, once, and what the source left out."""

    def call(self, payload: str) -> Call[Any]:
        """Return the call that creates the document of a row."""


class TableRows:
    """
    Read the rows of a table; each row is one document.

    :param source: Batches of the table, and what was left out of it.
    :param columns: Mapping of each field that varies by row to its column.
    :param constants: Mapping of each field that is the same for all rows to its value.
    :param key_columns: Columns that identify a row. If empty, the whole content identifies it.
    :param group_columns: Columns that name the group of a row, such as its page.
    :param call: Returns the call that creates a given document.
    :param allow_empty: Whether the source may have no rows.
    """

    can_share = True

    def __init__(
        self,
        source: Iterator[Batch | Note],
        *,
        payload: type[Payload],
        columns: Mapping[str, str],
        constants: Mapping[str, str],
        key_columns: Sequence[str],
        group_columns: Sequence[str] = (),
        call: Callable[[Any], Call[Any]],
        allow_empty: bool = False,
    ) -> None:
        self._source = source
        self._payload = payload
        self._columns = columns
        self._constants = constants
        self._key_columns = key_columns
        self._group_columns = group_columns
        self._call = call
        self._allow_empty = allow_empty
        self._optional = {name for name, info in payload.model_fields.items() if not info.is_required()}
        self._names = {name: f"column {column!r}" for name, column in columns.items()}
        # What the content hashes of all rows have in common.
        constants_in_order = itertools.chain.from_iterable(sorted(constants.items()))
        self._content_prefix = encoded([payload.__name__, *constants_in_order])

    def batches(self) -> RowStream:
        """
        Yield all rows, once, and what the source left out.

        :raises AssistantInputError: The source has no rows and ``allow_empty`` is False.
        """
        count = 0
        for part in self._source:
            if isinstance(part, Note):
                yield part
            else:
                count += len(part)
                yield self._read(part)
        check_count(count, self._allow_empty)

    def call(self, payload: str) -> Call[Any]:
        """Return the call that creates the document of a row."""
        return self._call(self._payload.model_validate_json(payload))

    def _read(self, batch: Batch) -> RowBatch:
        fields = {name: batch.columns[column] for name, column in self._columns.items()}
        for name in self._optional & fields.keys():
            fields[name] = without_blanks(fields[name])
        hashes = hashes_of(list(fields.values()), len(batch), self._content_prefix)
        texts, bad_keys = key_texts(batch.columns, self._key_columns)
        without_key = bad_keys.keys() | batch.problems_of((), self._key_columns).keys()
        keys = hashes_of(texts, len(batch))
        if not self._key_columns:
            # The whole content identifies a row.
            keys = list(hashes)
            without_key |= self._incomplete(fields) | batch.problems_of(self._columns.values()).keys()
        for position in without_key:
            keys[position] = bad_row_key(batch.start + position)
        groups, bad_groups = self._groups(batch)
        compared = [*self._key_columns, *self._group_columns]
        problems = bad_groups | bad_keys | batch.problems_of(self._columns.values(), compared)
        return RowBatch(
            start=batch.start,
            keys=keys,
            hashes=hashes,
            groups=groups,
            without_key=frozenset(without_key),
            problems=problems,
            text=functools.partial(self._text, batch, fields, texts, problems),
        )

    def _groups(self, batch: Batch) -> tuple[list[str | None], dict[int, str]]:
        """Return the group of each row; and why a row has none, by its position."""
        if not self._group_columns:
            return [], {}
        texts, problems = key_texts(batch.columns, self._group_columns, "group column")
        problems |= batch.problems_of((), self._group_columns)
        groups: list[str | None] = []
        for position, values in enumerate(zip(*texts, strict=True)):
            groups.append(None if position in problems else group_of(whole_label(self._group_columns, values)))
        return groups, problems

    def _incomplete(self, fields: Mapping[str, list[Any]]) -> set[int]:
        """Return the positions of the rows with a field that no document has, so that their content is not known."""
        positions: set[int] = set()
        for name, values in fields.items():
            filled = without_blanks(values)
            if filled is values:
                # All values are texts that are not blank.
                continue
            allowed_types = (str, NoneType) if name in self._optional else str
            positions.update(position for position, value in enumerate(filled) if not isinstance(value, allowed_types))
        return positions

    def _text(
        self,
        batch: Batch,
        fields: Mapping[str, list[Any]],
        keys: Sequence[list[str | None]],
        problems: Mapping[int, str],
        position: int,
    ) -> Text:
        """Return what a row says."""
        values = {name: column[position] for name, column in fields.items()}
        place = batch.place(position)
        if self._key_columns:
            label = key_label(self._key_columns, [column[position] for column in keys])
        else:
            label = content_label(values)
        problem = problems.get(position)
        if problem is None:
            try:
                document = checked(self._payload, {**self._constants, **values}, names=self._names)
            except AssistantInputError as error:
                problem = str(error)
            else:
                return Text(label, place, document.model_dump_json(exclude_none=True))
        # The number of a row is shown anyway; a file and its line are not.
        if "line" in place:
            problem = f"{place}: {problem}"
        return Text(label, place, problem=problem)


def group_of(name: str) -> str:
    """Return a name of a group as the ledger has it: shortened, with a hash if that made it ambiguous."""
    label = short_label(name)
    return label if label == name else f"{label} ({hash_of(name)[:8]})"


def content_label(fields: Mapping[str, Any]) -> str:
    """Return the readable key of a row that its whole content identifies."""
    text_by_field = {name: str(value) for name, value in fields.items() if value is not None}
    return key_label(tuple(text_by_field), tuple(text_by_field.values()))


def check_count(count: int, allow_empty: bool) -> None:
    """Refuse an empty source."""
    if not count and not allow_empty:
        raise AssistantInputError(
            "source has no rows",
            safe=NOTHING_SENT,
            todo="If it may be empty, set allow_empty=True (--allow-empty).",
            field="source",
        )
