"""
The preflight: a first pass over the whole source, before the first request.

It finds errors of the source as a whole (the same key twice with different content), and rows that need no
request. It keeps nine bytes per row: eight of the key and one for the decision.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import EntryContent
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.loading.groups import SeenGroups, is_regrouped, sorted_values
from airflow_provider_assistant.loading.rows import Rows
from airflow_provider_assistant.texts import counted

LISTED = 5


class RowAction(IntEnum):
    """The preflight's decision about a row."""

    SEND = 0
    UNCHANGED = 1
    DUPLICATE = 2


class LedgerReader(Protocol):
    """The part of the ledger that the preflight reads."""

    @property
    def source(self) -> str:
        """Name of the source that is loaded."""

    def contents(self, keys: Sequence[str]) -> Mapping[str, tuple[Any, ...]]:
        """
        Return what the ledger says about the documents of these keys.

        :return: Values of :class:`EntryContent` by key, without the last one if the rows have no groups; keys without
            an entry are left out.
        """


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """
    Hold the result of the preflight.

    :param actions: One :class:`RowAction` per row, in order.
    :param keys: First eight bytes of each key, sorted.
    :param changed: Number of keys that belong to this source and have other content in the ledger. This and the
        following numbers count a key once, however often its row is repeated.
    :param kept: Number of keys that belong to this source and have the same content in the ledger.
    :param foreign: Number of keys that belong to another source and have other content, by that source's name.
    :param shared: Number of keys that belong to another source and have the same content, by that source's name.
    :param is_regrouped: Whether a row whose key belongs to this source has another group in the ledger, or none.
    :param groups: Keys of the groups of which the source has every row, sorted.
    :param without_key: Number of rows that have no key or cannot be read. The document of each may be any document of
        the source.
    """

    actions: bytearray
    keys: Sequence[int]
    changed: int = 0
    kept: int = 0
    foreign: Mapping[str, int] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)
    is_regrouped: bool = False
    groups: Sequence[int] = ()
    without_key: int = 0

    @property
    def rows(self) -> int:
        """Number of rows of the source."""
        return len(self.actions)

    def count(self, action: RowAction) -> int:
        """Return the number of rows with this decision."""
        return self.actions.count(action)

    def to_send(self, number: int) -> bool:
        """
        Return whether to send a row.

        :param number: From 1. Rows that were added to the source after the preflight are not sent.
        """
        return number <= len(self.actions) and self.actions[number - 1] == RowAction.SEND

    def has(self, key: str) -> bool:
        """Return whether the source has this key; only its first eight bytes are compared."""
        short = short_key(key)
        position = bisect_left(self.keys, short)
        return position < len(self.keys) and self.keys[position] == short


def plan_load(
    rows: Rows,
    ledger: LedgerReader | None,
    *,
    has_groups: bool = False,
    tick: Callable[[int], None] = lambda _: None,
) -> LoadPlan:
    """
    Read all rows and decide which ones to send.

    :param ledger: None if the load uses no ledger.
    :param has_groups: Whether the rows and the ledger have groups.
    :param tick: Called after each batch with the number of rows read so far.
    :return: The decisions, and how the keys relate to the ledger.
    :raises AssistantInputError: The source is empty and must not be, or rows with the same key have different content.
    """
    actions = bytearray()
    keys = array("Q")
    relations = _Relations(ledger.source if ledger else "")
    groups = SeenGroups()
    without_key = 0
    for fingerprints in rows.fingerprints():
        contents: Mapping[str, tuple[Any, ...]] = {}
        if ledger:
            contents = ledger.contents([row.key for row in fingerprints])
        if ledger and contents:
            entries = [contents.get(row.key) for row in fingerprints]
            source = ledger.source
            is_same_by_row = _are_same(entries, fingerprints, source, has_groups)
            relations.count("kept", source, sum(is_same_by_row))
            # UNCHANGED is 1, as True is, and SEND is 0, as False is.
            batch_actions = bytearray(is_same_by_row)
            if not all(is_same_by_row):
                for position, entry in enumerate(entries):
                    if entry and not is_same_by_row[position]:
                        row = fingerprints[position]
                        content = EntryContent(*entry)
                        batch_actions[position] = _action(row, content)
                        relations.add(row, content)
            actions += batch_actions
        else:
            # Bytes of zero, which is SEND.
            actions += bytes(len(fingerprints))
        keys.extend([short_key(row.key) for row in fingerprints])
        without_key += [row.has_key for row in fingerprints].count(False)
        if has_groups:
            groups.add(fingerprints)
        tick(len(actions))
    sorted_keys = sorted_values(keys)
    if keys:
        repeated_keys = _repeated(sorted_keys)
        if repeated_keys:
            duplicates = _mark_duplicates(rows, repeated_keys, actions)
            relations.leave_out(_relations_of(duplicates, ledger))
    return LoadPlan(
        actions=actions,
        keys=sorted_keys,
        changed=relations.own("changed"),
        kept=relations.own("kept"),
        foreign=relations.others("changed"),
        shared=relations.others("kept"),
        is_regrouped=relations.is_regrouped,
        groups=groups.complete(),
        without_key=without_key,
    )


def _are_same(
    entries: Sequence[tuple[Any, ...] | None],
    fingerprints: Sequence[RowFingerprint],
    source: str,
    has_groups: bool,
) -> list[bool]:
    """
    Return whether the ledger has each row as it is, of this source.

    These are most rows of most loads. The fastest way is to compare plain tuples, in the order of
    :class:`EntryContent`.
    """
    if has_groups:
        return [
            entry == (key, "created", content_hash, source, group and group.key)
            for entry, (key, content_hash, group, _has_key) in zip(entries, fingerprints, strict=True)
        ]
    return [
        entry == (key, "created", content_hash, source)
        for entry, (key, content_hash, _group, _has_key) in zip(entries, fingerprints, strict=True)
    ]


class _Relations:
    """
    Count rows by what the ledger has for their keys: ``kept`` for the same content, and ``changed`` for other content.

    :param source: Name of the source that is loaded.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.is_regrouped = False
        # Number of rows by relation and by the source that has the key.
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, row: RowFingerprint, entry: EntryContent) -> None:
        """Count a row whose key has an entry."""
        self.is_regrouped |= is_regrouped(row, entry, self.source)
        if entry.content_hash is not None:
            is_same = entry.content_hash == row.content_hash
            self.count("kept" if is_same else "changed", entry.source)

    def count(self, relation: str, source: str, rows: int = 1) -> None:
        """Count rows of one relation whose keys belong to a source."""
        self._counts[relation, source] += rows

    def leave_out(self, repeated_rows: _Relations) -> None:
        """Take rows that repeat others out of the counts, so that they count keys."""
        # Counter's operator keeps no numbers below one: another load may have changed the ledger in between.
        self._counts -= repeated_rows._counts

    def own(self, relation: str) -> int:
        """Return the number for keys of the source that is loaded."""
        return self._counts[relation, self.source]

    def others(self, relation: str) -> dict[str, int]:
        """Return the number for keys of each other source."""
        return {
            source: count
            for (counted_relation, source), count in self._counts.items()
            if counted_relation == relation and source != self.source
        }


def _relations_of(batches: Iterable[Sequence[RowFingerprint]], ledger: LedgerReader | None) -> _Relations:
    """Read the ledger for these rows, and count them."""
    relations = _Relations(ledger.source if ledger else "")
    for rows in batches:
        if ledger is None:
            continue
        contents = ledger.contents([row.key for row in rows])
        for row in rows:
            if row.key in contents:
                relations.add(row, EntryContent(*contents[row.key]))
    return relations


def _action(row: RowFingerprint, entry: EntryContent) -> int:
    if entry.outcome == "created" and entry.content_hash == row.content_hash:
        return RowAction.UNCHANGED
    return RowAction.SEND


def short_key(key: str) -> int:
    """Return the first eight bytes of a key, which the plan keeps of it."""
    return int(key[:16], 16)


def _repeated(sorted_keys: Sequence[int]) -> set[int]:
    """Return the keys that occur more than once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.Array.from_buffers(pa.uint64(), len(sorted_keys), [None, pa.py_buffer(sorted_keys)])
    # The keys are sorted, so a repeated key equals the key before it.
    all_but_first = column.slice(1)
    all_but_last = column.slice(0, len(all_but_first))
    is_repeated = pc.equal(all_but_first, all_but_last)
    return set(all_but_first.filter(is_repeated).to_pylist())


def _mark_duplicates(rows: Rows, repeated_keys: set[int], actions: bytearray) -> Iterator[list[RowFingerprint]]:
    """
    Read the rows again and mark all but the first of each group with the same key and content as duplicates.

    :param repeated_keys: First eight bytes of the keys that occur more than once.
    :return: The duplicates, in batches.
    :raises AssistantInputError: Rows with the same key have different content.
    """
    # Number and content hash of the first row of each key.
    first_rows: dict[str, tuple[int, str]] = {}
    # Numbers of the rows of each key that has different contents, the first row included.
    conflicts: dict[str, list[int]] = {}
    number = 0
    for fingerprints in rows.fingerprints():
        duplicates = []
        for row in fingerprints:
            number += 1
            if short_key(row.key) not in repeated_keys:
                continue
            if row.key not in first_rows:
                first_rows[row.key] = (number, row.content_hash)
                continue
            first_number, first_content_hash = first_rows[row.key]
            if row.content_hash == first_content_hash:
                actions[number - 1] = RowAction.DUPLICATE
                duplicates.append(row)
            else:
                conflicts.setdefault(row.key, [first_number]).append(number)
        if duplicates:
            yield duplicates
    if conflicts:
        first_conflicts = list(conflicts.values())[:LISTED]
        examples = _listed(rows, [numbers[:LISTED] for numbers in first_conflicts])
        raise AssistantInputError(
            f"the source has {counted(len(conflicts), 'key')} with rows of different content: {examples}",
            safe=NOTHING_SENT,
            todo="Choose unique key columns, or drop the outdated rows.",
            field="key_columns",
        )


def _listed(rows: Rows, conflicts: Sequence[Sequence[int]]) -> str:
    """
    Return the conflicting keys and the positions of their rows as text.

    :param conflicts: Numbers of the rows of each key.
    """
    wanted_numbers = set(itertools.chain.from_iterable(conflicts))
    row_by_number = {row.number: row for row in rows.prepared(wanted_numbers.__contains__)}
    texts = []
    for numbers in conflicts:
        # A source that changes in between may lack a row.
        conflicting_rows = [row_by_number[number] for number in numbers if number in row_by_number]
        if conflicting_rows:
            key = conflicting_rows[0].readable_key
            places = ", ".join(row.place for row in conflicting_rows)
            texts.append(f"{key!r} in {places}")
    return "; ".join(texts)
