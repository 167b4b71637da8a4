"""Groups of rows, such as the chunks of a page: which groups a source has completely, and which entries to regroup."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Sequence

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import DocumentGroup, EntryContent, ScopeLedger
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)


class SeenGroups:
    """Collect the groups of a source. They take eight bytes each, and for a moment eight bytes per change of group."""

    def __init__(self) -> None:
        self._keys = array("q")
        # Keys of the groups with a row that has no key.
        self._incomplete_keys: set[int] = set()
        # Whether a row has neither a key nor a group.
        self._has_unknown_row = False

    def add(self, fingerprints: Sequence[RowFingerprint]) -> None:
        """Add the groups of a batch of rows."""
        last_key = self._keys[-1] if self._keys else None
        for _key, _content_hash, group, has_key in fingerprints:
            if group is None:
                if not has_key:
                    self._has_unknown_row = True
                continue
            if group.key != last_key:
                # Neighbouring rows are usually of one group, which is kept once.
                last_key = group.key
                self._keys.append(last_key)
            if not has_key:
                self._incomplete_keys.add(group.key)

    def complete(self) -> Sequence[int]:
        """
        Return the keys of the groups of which the source has every row, sorted and each once.

        A row that has no key may be any row of its group, and a row without key and group any row at all.
        """
        if self._has_unknown_row and self._keys:
            log.warning("A row has no key and no group, so that it may be of any group: no stale rows are looked for.")
            return ()
        if self._incomplete_keys:
            log.warning(
                "%s with a row that has no key: stale rows are not looked for in these groups.",
                counted(len(self._incomplete_keys), "group"),
            )
        sorted_keys = sorted_values(self._keys)
        complete_keys = array("q")
        # In pieces, so that only 1,000 keys at a time are Python integers.
        for start in range(0, len(sorted_keys), 1000):
            # A set, because a group whose rows do not follow each other in the source occurs repeatedly.
            piece = sorted({*sorted_keys[start : start + 1000]} - self._incomplete_keys)
            if complete_keys and piece and piece[0] == complete_keys[-1]:
                # The previous piece ended with the same group.
                piece = piece[1:]
            complete_keys.extend(piece)
        return complete_keys


def is_regrouped(row: RowFingerprint, entry: EntryContent, source: str) -> bool:
    """Return whether the ledger has another group for a row of this source, or none."""
    return row.group is not None and entry.group_key != row.group.key and entry.source == source


def regroup(batches: Iterable[Sequence[RowFingerprint]], ledger: ScopeLedger) -> None:
    """
    Record the groups of the rows in the ledger, where it has others or none.

    :param batches: All rows of the source.
    """
    for rows in batches:
        contents = ledger.contents([row.key for row in rows])
        group_by_key: dict[str, DocumentGroup] = {}
        for row in rows:
            entry = contents.get(row.key)
            if entry and row.group and is_regrouped(row, EntryContent(*entry), ledger.source):
                group_by_key[row.key] = row.group
        ledger.set_groups(group_by_key)


class SharedGroups:
    """Count the groups that several mapped tasks of a run have loaded, and say so in an error."""

    def __init__(self) -> None:
        self.count = 0
        self._first: tuple[DocumentGroup, int] | None = None

    def add(self, group: DocumentGroup, map_index: int) -> None:
        """Add a group that another task, the one with this map index, has loaded."""
        self.count += 1
        if self._first is None:
            self._first = (group, map_index)

    def check(self) -> None:
        """Refuse groups that several mapped tasks have loaded."""
        if self._first:
            group, map_index = self._first
            raise AssistantInputError(
                f"{counted(self.count, 'group')} with rows in several mapped tasks of this run, such as "
                f"{group.label!r}, of which the task with map index {map_index} has loaded others",
                safe="The rows of this task are loaded, but stale rows of these groups are not known.",
                todo="Give all rows of a group to one task. If this run was cleared and its rows were divided "
                "differently, the next run finds the stale rows.",
                field="group_columns",
            )


def sorted_values(values: array[int]) -> Sequence[int]:
    """
    Sort integers of 64 bits in Arrow memory, without converting all of them to Python integers.

    :param values: An array of the type ``q`` or ``Q``.
    """
    if not values:
        return values
    import pyarrow as pa
    import pyarrow.compute as pc

    integer_type = pa.uint64() if values.typecode == "Q" else pa.int64()
    column = pa.Array.from_buffers(integer_type, len(values), [None, pa.py_buffer(values)])
    sorted_column = column.take(pc.array_sort_indices(column))
    _validity_buffer, value_buffer = sorted_column.buffers()
    # Arrow may allocate more bytes than the values need.
    sorted_bytes = memoryview(value_buffer).cast("B")[: 8 * len(values)]
    if values.typecode == "Q":
        return sorted_bytes.cast("Q")
    return sorted_bytes.cast("q")
