"""
The look at the whole source before the first request.

It finds what would make the load wrong as a whole (the same key twice with different content), and what
needs no request at all. Per row it keeps eight bytes of its key and one byte of what to do.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Known
from airflow_provider_assistant.loading.rows import Digest, Rows

LISTED = 5


class Fate(IntEnum):
    """What is to become of a row."""

    SEND = 0
    UNCHANGED = 1
    DUPLICATE = 2


class Memory(Protocol):
    """The part of the ledger that a survey asks."""

    @property
    def source(self) -> str:
        """Name of the source that is loaded."""

    def known(self, keys: Sequence[str]) -> Mapping[str, Known]:
        """Return what is known of these keys."""


@dataclass(frozen=True, slots=True)
class Survey:
    """
    What was seen.

    :param fates: The fate of each row, in order.
    :param keys: Eight bytes of each key, sorted.
    :param changed: How many rows have a key of this source with other content.
    :param kept: How many rows have a key of this source with the same content.
    :param foreign: How many rows have a key of another source with other content, by its name.
    """

    fates: bytearray
    keys: Sequence[int]
    changed: int = 0
    kept: int = 0
    foreign: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the source has."""
        return len(self.fates)

    def count(self, fate: Fate) -> int:
        """Return how many rows have this fate."""
        return self.fates.count(fate)

    def to_send(self, number: int) -> bool:
        """Return whether the row with this number, from 1, is to be sent; a row that came later is not."""
        return number <= len(self.fates) and self.fates[number - 1] == Fate.SEND

    def has(self, key: str) -> bool:
        """Return whether the source has this key."""
        short = _short(key)
        position = bisect_left(self.keys, short)
        return position < len(self.keys) and self.keys[position] == short


def survey(rows: Rows, memory: Memory | None, *, tick: Callable[[int], None] = lambda _: None) -> Survey:
    """
    Look at all rows.

    :param rows: The rows.
    :param memory: What is known from earlier loads, if anything is.
    :param tick: Told now and then how many rows have been seen.
    :raises AssistantInputError: There are no rows although there must be, or one key stands for different contents.
    """
    fates = bytearray()
    keys = array("Q")
    relations: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    for digests in rows.digests():
        known = memory.known([digest.key for digest in digests]) if memory else {}
        for digest in digests:
            entry = known.get(digest.key)
            fates.append(_fate(digest, entry))
            if memory and entry:
                _relate(digest, entry, memory.source, relations, foreign)
        keys.extend([_short(digest.key) for digest in digests])
        tick(len(fates))
    ordered = _sorted(keys) if keys else keys
    if keys and (repeated := _repeated(ordered)):
        _mark_duplicates(rows, repeated, fates)
    return Survey(fates, ordered, relations["changed"], relations["kept"], foreign)


def _relate(digest: Digest, known: Known, source: str, relations: Counter[str], foreign: Counter[str]) -> None:
    """Count how a row relates to what its key stands for on the site."""
    if known.content_hash is None:
        return
    is_same = known.content_hash == digest.content
    if known.source == source:
        relations["kept" if is_same else "changed"] += 1
    elif not is_same:
        foreign[known.source] += 1


def _fate(digest: Digest, known: Known | None) -> int:
    if known is not None and known.state == "done" and known.content_hash == digest.content:
        return Fate.UNCHANGED
    return Fate.SEND


def _short(key: str) -> int:
    return int(key[:16], 16)


def _sorted(keys: array[int]) -> Sequence[int]:
    """Sort without making Python integers of all keys at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.Array.from_buffers(pa.uint64(), len(keys), [None, pa.py_buffer(keys)])
    return memoryview(column.take(pc.array_sort_indices(column)).buffers()[1]).cast("B")[: 8 * len(keys)].cast("Q")


def _repeated(ordered: Sequence[int]) -> set[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.Array.from_buffers(pa.uint64(), len(ordered), [None, pa.py_buffer(ordered)])
    later = column.slice(1)
    return set(later.filter(pc.equal(later, column.slice(0, len(later)))).to_pylist())


def _mark_duplicates(rows: Rows, repeated: set[int], fates: bytearray) -> None:
    """Mark every further row of the same key and content; see all rows again, but keep only the repeated."""
    first: dict[str, tuple[int, str]] = {}
    conflicts: dict[str, list[int]] = defaultdict(list)
    number = 0
    for digests in rows.digests():
        for digest in digests:
            number += 1
            if _short(digest.key) not in repeated:
                continue
            seen_at, content = first.setdefault(digest.key, (number, digest.content))
            if content != digest.content:
                conflicts[digest.key] += [number] if conflicts[digest.key] else [seen_at, number]
            elif seen_at != number:
                fates[number - 1] = Fate.DUPLICATE
    if conflicts:
        listed = _listed(rows, [numbers[:LISTED] for numbers in list(conflicts.values())[:LISTED]])
        raise AssistantInputError(
            f"{len(conflicts)} keys stand for rows of different content, so it is unclear which to load: {listed}. "
            "Nothing was sent. Make the key columns unique, or drop the older rows.",
            field="key_columns",
        )


def _listed(rows: Rows, conflicts: Sequence[Sequence[int]]) -> str:
    """Return the keys and where their rows are, in words."""
    wanted = {number for numbers in conflicts for number in numbers}
    found = {item.number: item for item in rows.items(wanted.__contains__)}
    known = [[found[number] for number in numbers if number in found] for numbers in conflicts]
    return "; ".join(f"{items[0].label!r} in {', '.join(item.place for item in items)}" for items in known if items)
