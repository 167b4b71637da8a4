"""Rows to load, each with its key, its content hash, and the call that creates its document."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple, Protocol

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.loading.columns import Batch
from airflow_provider_assistant.loading.fingerprints import (
    RowFingerprint,
    bad_row_key,
    check_count,
    encoded,
    groups_of,
    hash_of,
    hashes_of,
    key_texts,
    without_blanks,
)
from airflow_provider_assistant.loading.sources import Source
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """
    Hold one row to load.

    :param number: Number of the row in the source, from 1.
    :param readable_key: Key as readable text.
    :param call: Call that creates the document. None if the row is bad.
    :param problem: Why the row is bad. None if it is not.
    :param place: Position in the source as text, such as ``faq.csv, line 7``.
    """

    number: int
    fingerprint: RowFingerprint
    readable_key: str
    call: Call[Any] | None = None
    problem: str | None = None
    place: str = ""


class Rows(Protocol):
    """Rows that can be read repeatedly, always in the same order."""

    @property
    def account(self) -> SourceAccount:
        """What the source left out. Complete once all fingerprints were read."""

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """Yield the fingerprints of all rows, in batches."""

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers in their order, each with its call.

        :param is_wanted: Returns whether a row number, from 1, is wanted.
        """


class DataframeRows:
    """
    Read the rows of a tabular source; each row is one document.

    :param columns: Mapping of each field that varies by row to its column.
    :param constants: Mapping of each field that is the same for all rows to its value.
    :param key_columns: Columns that identify a row. If empty, the whole content identifies it.
    :param group_columns: Columns that name the group of a row, such as its page.
    :param call: Returns the call that creates a given document.
    :param allow_empty: Whether the source may have no rows.
    """

    def __init__(
        self,
        source: Source,
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
        self._optional = {name for name, field in payload.model_fields.items() if not field.is_required()}
        self._names = {field: f"column {column!r}" for field, column in columns.items()}
        # What the content hashes of all rows have in common: the fields that are the same for all rows.
        fields_and_constants = itertools.chain.from_iterable(sorted(constants.items()))
        self._content_prefix = encoded([payload.__name__, *fields_and_constants])
        self._count: int | None = None

    @property
    def account(self) -> SourceAccount:
        """What the source left out. Complete once all fingerprints were read."""
        return self._source.account

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all rows, in batches.

        :raises AssistantInputError: The source has no rows and ``allow_empty`` is False.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            yield self._read(batch).fingerprints
        check_count(count, self._allow_empty)
        self._count = count

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers in their order, each with its call.

        :param is_wanted: Returns whether a row number, from 1, is wanted.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            row_numbers = range(batch.start, batch.start + len(batch))
            if not any(map(is_wanted, row_numbers)):
                continue
            read_batch = self._read(batch)
            for position, row_number in enumerate(row_numbers):
                if is_wanted(row_number):
                    yield self._prepare(batch, position, read_batch)
        if self._count not in {None, count}:
            log.warning(
                "The source had %s when it was checked and %d when it was sent: it changed in between. The next run "
                "loads the rest.",
                counted(self._count or 0, "row"),
                count,
            )

    def _read(self, batch: Batch) -> _ReadBatch:
        fields = {field: batch.columns[column] for field, column in self._columns.items()}
        for field in self._optional & fields.keys():
            fields[field] = without_blanks(fields[field])
        contents = hashes_of(list(fields.values()), len(batch), self._content_prefix)
        keys, bad_keys = key_texts(batch.columns, self._key_columns)
        without_key = bad_keys.keys() | batch.problems_of((), self._key_columns).keys()
        key_hashes = hashes_of(keys, len(batch))
        if not keys:
            # The whole content identifies a row.
            key_hashes = contents
            without_key |= self._incomplete(fields) | batch.problems_of(self._columns.values()).keys()
        bad_groups: dict[int, str] = {}
        if self._group_columns:
            groups, bad_groups = groups_of(batch.columns, self._group_columns)
            bad_groups |= batch.problems_of((), self._group_columns)
            fingerprints = list(map(RowFingerprint, key_hashes, contents, groups))
        else:
            fingerprints = list(map(RowFingerprint, key_hashes, contents))
        for position in without_key:
            key = bad_row_key(batch.start + position)
            group = fingerprints[position].group
            fingerprints[position] = RowFingerprint(key, content_hash=key, group=group, has_key=False)
        for position in bad_groups.keys() - without_key:
            # The row keeps its key, as the source contains it, but is never equal to the document of the key.
            row = fingerprints[position]
            unequal_hash = hash_of(encoded([None, row.content_hash]))
            fingerprints[position] = row._replace(content_hash=unequal_hash, group=None)
        compared_columns = [*self._key_columns, *self._group_columns]
        problems = bad_groups | bad_keys | batch.problems_of(self._columns.values(), compared_columns)
        return _ReadBatch(fields=fields, keys=keys, fingerprints=fingerprints, problems=problems)

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

    def _prepare(self, batch: Batch, position: int, read_batch: _ReadBatch) -> PreparedRow:
        fields = {field: values[position] for field, values in read_batch.fields.items()}
        place = batch.place(position)
        problem = read_batch.problems.get(position)
        call = None
        if problem is None:
            all_fields = {**self._constants, **fields}
            try:
                call = self._call(checked(self._payload, all_fields, names=self._names))
            except AssistantInputError as error:
                problem = str(error)
        if problem and batch.file:
            problem = f"{place}: {problem}"
        if read_batch.keys:
            key_values = [column[position] for column in read_batch.keys]
            readable_key = key_label(self._key_columns, key_values)
        else:
            readable_key = content_label(fields)
        return PreparedRow(
            number=batch.start + position,
            fingerprint=read_batch.fingerprints[position],
            readable_key=readable_key,
            call=call,
            problem=problem,
            place=place,
        )


class _ReadBatch(NamedTuple):
    """
    Hold a batch of rows with their fingerprints.

    :param keys: Values of each key column as text.
    :param fingerprints: One per row.
    :param problems: Why a row is bad, by position in the batch.
    """

    fields: dict[str, list[Any]]
    keys: list[list[str | None]]
    fingerprints: list[RowFingerprint]
    problems: dict[int, str]


def content_label(fields: Mapping[str, Any]) -> str:
    """Return the readable key of a row that its whole content identifies."""
    text_by_field = {name: str(value) for name, value in fields.items() if value is not None}
    return key_label(tuple(text_by_field), tuple(text_by_field.values()))
