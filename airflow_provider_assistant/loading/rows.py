"""Rows to load, each with its key, its content hash, and the call that creates its document."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.loading.columns import Batch
from airflow_provider_assistant.loading.fingerprints import (
    DataframeFingerprints,
    FingerprintedBatch,
    RowFingerprint,
    unless_blank,
)
from airflow_provider_assistant.loading.sources import Source

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """
    Hold one row to load.

    :param number: Number of the row in the source, from 1.
    :param fingerprint: Hashes of its key and its content.
    :param readable_key: Key as readable text.
    :param call: Call that creates the document. None if the row is bad.
    :param problem: Why the row is bad. None if it is not.
    :param place: Position in the source as text, such as ``faq.csv, line 7``.
    :param size: Size of the file in bytes. None if the row is not a file.
    """

    number: int
    fingerprint: RowFingerprint
    readable_key: str
    call: Call[Any] | None = None
    problem: str | None = None
    place: str = ""
    size: int | None = None


class Rows(Protocol):
    """Rows that can be read repeatedly, always in the same order."""

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all rows, in batches.

        :return: One list per batch.
        """

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers, each with its call.

        :param is_wanted: Returns whether a row number, from 1, is wanted.
        :return: The rows in their order.
        """


class DataframeRows(DataframeFingerprints):
    """
    Read the rows of a tabular source; each row is one document.

    :param source: Source of the rows.
    :param payload: Model of the document to create.
    :param columns: Mapping of each field that varies by row to its column.
    :param constants: Mapping of each field that is the same for all rows to its value.
    :param key_columns: Columns that identify a row. If empty, the whole content identifies it.
    :param group_columns: Columns that name the group of a row, such as its page. Default: none.
    :param call: Returns the call that creates a given document.
    :param allow_empty: Whether the source may have no rows. Default: False.
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
        super().__init__(
            source,
            payload=payload,
            columns=columns,
            constants=constants,
            key_columns=key_columns,
            group_columns=group_columns,
            allow_empty=allow_empty,
        )
        self._payload = payload
        self._constants = constants
        self._call = call
        self._names = {field: f"column {column!r}" for field, column in columns.items()}
        self._count: int | None = None

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all rows, in batches.

        :return: One list per batch.
        :raises AssistantInputError: The source has no rows and ``allow_empty`` is False.
        """
        count = 0
        for fingerprints in super().fingerprints():
            count += len(fingerprints)
            yield fingerprints
        self._count = count

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers, each with its call.

        :param is_wanted: Returns whether a row number, from 1, is wanted.
        :return: The rows in their order.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            if not any(map(is_wanted, range(batch.start, batch.start + len(batch)))):
                continue
            read = self.of_batch(batch)
            for position in range(len(batch)):
                if is_wanted(batch.start + position):
                    yield self._prepare(batch, position, read)
        if self._count not in {None, count}:
            log.warning(
                "The source had %d rows when it was checked and %d when it was sent: it changed in between. The next "
                "run loads the rest.",
                self._count,
                count,
            )

    def _prepare(self, batch: Batch, position: int, read: FingerprintedBatch) -> PreparedRow:
        fields = {field: batch.columns[column][position] for field, column in self._columns.items()}
        fields |= {field: unless_blank(fields[field]) for field in self._optional & fields.keys()}
        readable_key = self._readable_key(fields, read, position)
        place = batch.place(position)
        call, problem = None, read.problems.get(position)
        if problem is None:
            try:
                call = self._call(checked(self._payload, {**self._constants, **fields}, names=self._names))
            except AssistantInputError as error:
                problem = str(error)
        if problem and batch.file:
            problem = f"{place}: {problem}"
        fingerprint = read.fingerprints[position]
        return PreparedRow(batch.start + position, fingerprint, readable_key, call, problem, place)

    def _readable_key(self, fields: Mapping[str, Any], read: FingerprintedBatch, position: int) -> str:
        if read.keys:
            return key_label(self._key_columns, read.keys[position])
        values = {name: str(value) for name, value in fields.items() if value is not None}
        return key_label(tuple(values), tuple(values.values()))
