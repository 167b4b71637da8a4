"""
The preflight: a first pass over the whole source, before the first request.

It finds errors of the source as a whole (the same key twice with different content), and rows that need no
request. It keeps nine bytes per row: eight of the key and one for the decision.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
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
    :param changed: Number of rows whose key belongs to this source and has other content in the ledger.
    :param kept: Number of rows whose key belongs to this source and has the same content in the ledger.
    :param foreign: Number of rows whose key belongs to another source and has other content, by that source's name.
    :param regrouped: Number of rows whose key belongs to this source and has another group in the ledger, or none.
    :param groups: Keys of the groups of which the source has every row, sorted.
    """

    actions: bytearray
    keys: Sequence[int]
    changed: int = 0
    kept: int = 0
    foreign: Mapping[str, int] = field(default_factory=dict)
    regrouped: int = 0
    groups: Sequence[int] = ()

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
    relations: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    groups = SeenGroups()
    for fingerprints in rows.fingerprints():
        first = len(actions)
        actions.extend(bytes(len(fingerprints)))
        contents = ledger.contents([row.key for row in fingerprints]) if ledger else {}
        if ledger and contents:
            known = [contents.get(row.key) for row in fingerprints]
            source = ledger.source
            is_same = _are_same(known, fingerprints, source, has_groups)
            relations["kept"] += sum(is_same)
            # UNCHANGED is 1, as True is.
            actions[first:] = bytes(is_same)
            for position, entry in enumerate(known, first) if not all(is_same) else ():
                if entry and not actions[position]:
                    row, content = fingerprints[position - first], EntryContent(*entry)
                    actions[position] = _action(row, content)
                    _relate(row, content, source, relations, foreign)
        keys.extend([short_key(row.key) for row in fingerprints])
        if has_groups:
            groups.add(fingerprints)
        tick(len(actions))
    ordered = sorted_values(keys)
    if keys and (repeated := _repeated(ordered)):
        _mark_duplicates(rows, repeated, actions)
    return LoadPlan(
        actions, ordered, relations["changed"], relations["kept"], foreign, relations["regrouped"], groups.complete()
    )


def _are_same(
    known: Sequence[tuple[Any, ...] | None],
    fingerprints: Sequence[RowFingerprint],
    source: str,
    has_groups: bool,
) -> list[bool]:
    """Return whether the ledger has each row as it is, of this source. This is most rows of most loads."""
    if has_groups:
        return [
            entry == (key, "created", content, source, group and group.key)
            for entry, (key, content, group, _) in zip(known, fingerprints, strict=True)
        ]
    return [
        entry == (key, "created", content, source)
        for entry, (key, content, _, _) in zip(known, fingerprints, strict=True)
    ]


def _relate(
    row: RowFingerprint, entry: EntryContent, source: str, relations: Counter[str], foreign: Counter[str]
) -> None:
    """Count whether a row keeps or changes the document of its key, its group, and whose key it is."""
    relations["regrouped"] += is_regrouped(row, entry, source)
    if entry.content_hash is None:
        return
    is_same = entry.content_hash == row.content_hash
    if entry.source == source:
        relations["kept" if is_same else "changed"] += 1
    elif not is_same:
        foreign[entry.source] += 1


def _action(row: RowFingerprint, entry: EntryContent) -> int:
    if entry.outcome == "created" and entry.content_hash == row.content_hash:
        return RowAction.UNCHANGED
    return RowAction.SEND


def short_key(key: str) -> int:
    """Return the first eight bytes of a key, which the plan keeps of it."""
    return int(key[:16], 16)


def _repeated(ordered: Sequence[int]) -> set[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.Array.from_buffers(pa.uint64(), len(ordered), [None, pa.py_buffer(ordered)])
    later = column.slice(1)
    return set(later.filter(pc.equal(later, column.slice(0, len(later)))).to_pylist())


def _mark_duplicates(rows: Rows, repeated: set[int], actions: bytearray) -> None:
    """Read the rows again and mark all but the first of each group with the same key and content as duplicates."""
    first: dict[str, tuple[int, str]] = {}
    conflicts: dict[str, list[int]] = defaultdict(list)
    number = 0
    for fingerprints in rows.fingerprints():
        for row in fingerprints:
            number += 1
            if short_key(row.key) not in repeated:
                continue
            seen_at, content = first.setdefault(row.key, (number, row.content_hash))
            if content != row.content_hash:
                conflicts[row.key] += [number] if conflicts[row.key] else [seen_at, number]
            elif seen_at != number:
                actions[number - 1] = RowAction.DUPLICATE
    if conflicts:
        listed = _listed(rows, [numbers[:LISTED] for numbers in list(conflicts.values())[:LISTED]])
        raise AssistantInputError(
            f"the source has {counted(len(conflicts), 'key')} with rows of different content: {listed}",
            safe=NOTHING_SENT,
            todo="Choose unique key columns, or drop the outdated rows.",
            field="key_columns",
        )


def _listed(rows: Rows, conflicts: Sequence[Sequence[int]]) -> str:
    """Return the conflicting keys and the positions of their rows as text."""
    wanted = {number for numbers in conflicts for number in numbers}
    found = {row.number: row for row in rows.prepared(wanted.__contains__)}
    groups = [[found[number] for number in numbers if number in found] for numbers in conflicts]
    return "; ".join(
        f"{group[0].readable_key!r} in {', '.join(row.place for row in group)}" for group in groups if group
    )
