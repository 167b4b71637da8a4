"""Rows of a source: each has a key, a content hash, and the call that creates its document."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Protocol, TypeAlias

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload, checked
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_label, short_label, whole_label
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.loading.decide import PlannedRow
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.tables import Batch
from airflow_provider_assistant.tables.fingerprints import (
    bad_row_key,
    encoded,
    hashes_of,
    key_texts,
    without_blanks,
)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """
    Hold a batch of rows.

    :param rows: The rows; the reason of one says why it cannot be sent.
    :param complete: Returns a row with its label, its place, and its payload or the reason why it is bad.
    :param has_groups: Whether rows have groups, such as pages, files or tickets.
    """

    rows: list[PlannedRow]
    complete: Callable[[PlannedRow], PlannedRow] = lambda row: row
    has_groups: bool = False


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
            keys = hashes
            without_key |= self._incomplete(fields) | batch.problems_of(self._columns.values()).keys()
        groups, bad_groups = self._groups(batch)
        compared = [*self._key_columns, *self._group_columns]
        problems = bad_groups | bad_keys | batch.problems_of(self._columns.values(), compared)
        rows = []
        for position, (key, content_hash, group) in enumerate(zip(keys, hashes, groups, strict=True)):
            number, has_key = batch.start + position, position not in without_key
            own_key = key if has_key else bad_row_key(number)
            problem = problems.get(position, "")
            rows.append(PlannedRow(number, own_key, content_hash, group, has_key, "unchanged", problem))
        complete = functools.partial(self._complete, batch, fields, texts)
        return RowBatch(rows, complete, has_groups=bool(self._group_columns))

    def _groups(self, batch: Batch) -> tuple[list[str | None], dict[int, str]]:
        """Return the group of each row; and why a row has none, by its position."""
        groups: list[str | None] = [None] * len(batch)
        if not self._group_columns:
            return groups, {}
        texts, problems = key_texts(batch.columns, self._group_columns, "group column")
        problems |= batch.problems_of((), self._group_columns)
        for position, values in enumerate(zip(*texts, strict=True)):
            if position not in problems:
                groups[position] = group_of(whole_label(self._group_columns, values))
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

    def _complete(
        self, batch: Batch, fields: Mapping[str, list[Any]], keys: Sequence[list[str | None]], row: PlannedRow
    ) -> PlannedRow:
        """Return a row with what it says."""
        position = row.number - batch.start
        values = {name: column[position] for name, column in fields.items()}
        label = content_label(values)
        if self._key_columns:
            label = key_label(self._key_columns, [column[position] for column in keys])
        place, problem = batch.place(position), row.reason
        if not problem:
            try:
                document = checked(self._payload, {**self._constants, **values}, names=self._names)
            except AssistantInputError as error:
                problem = str(error)
            else:
                return row._replace(label=label, place=place, payload=document.model_dump_json(exclude_none=True))
        # The number of a row is shown anyway; a file and its line are not.
        reason = f"{place}: {problem}" if "line" in place else problem
        return row._replace(label=label, place=place, reason=reason)


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
