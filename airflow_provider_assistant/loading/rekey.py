"""
Convert the keys of an older ledger to the current form.

Older keys are hashes of values and their types: the number 7 and the text "7" had different keys. The ledger keeps
the hash and the label, which is the value as text. To find the type, this module computes the hash of the label
for each possible type and compares it with the key.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.keys import key_text
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import documents, questions
from airflow_provider_assistant.loading.fingerprints import encoded, hash_of

# Type names in the hashes of older keys, and how to parse a label of that type.
_TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("str", "UUID", "time"), str),
    **dict.fromkeys(("int", "int64", "int32", "uint64", "uint32"), int),
    **dict.fromkeys(("float", "float64", "float32"), float),
    **dict.fromkeys(("bool", "bool_"), lambda text: text == "True"),
    **dict.fromkeys(("datetime", "Timestamp", "datetime64"), datetime.fromisoformat),
    "Decimal": Decimal,
    "date": date.fromisoformat,
}
_COLUMN = re.compile(r"(?:^|, )[^=,]+=")
# Entries per transaction.
_GROUP = 1000


@dataclass(slots=True)
class Rekeyed:
    """
    Count the entries by result.

    :param changed: Entries whose key was converted.
    :param same: Entries that already had the current key, or whose key cannot be converted.
    :param taken: Entries whose current key belongs to another entry: the row was created under both keys. They stay
        unchanged, and the next load of the complete source lists their documents as stale.
    """

    changed: int = 0
    same: int = 0
    taken: int = 0


def rekey(ledger: Ledger) -> Rekeyed:
    """
    Convert the keys of all documents and questions of a ledger. Running it again changes nothing.

    :param ledger: The ledger. No task may use it at the same time.
    :return: Number of entries by result.
    :raises AssistantLedgerError: The database cannot be used. Entries converted before the error stay converted.
    """
    counts: Counter[str] = Counter()
    for table in (documents, questions):
        # Read all keys first: they change during the conversion.
        rows = transaction(ledger.engine, functools.partial(_entries, table=table))
        for start in range(0, len(rows), _GROUP):
            convert = functools.partial(_convert, table=table, entries=rows[start : start + _GROUP])
            counts += transaction(ledger.engine, convert, writes=True)
    return Rekeyed(**counts)


def _entries(connection: sa.Connection, table: sa.Table) -> list[Any]:
    return list(connection.execute(sa.select(table.c.scope, table.c.key, table.c.label)))


def _convert(connection: sa.Connection, table: sa.Table, entries: Sequence[Any]) -> Counter[str]:
    """Convert the keys of a group of entries, and return their number by result."""
    c, counts = table.c, Counter[str]()
    for scope, key, label in entries:
        current = key_today(key, label)
        if current == key:
            counts["same"] += 1
        elif connection.scalar(sa.select(c.key).where(c.scope == scope, c.key == current)):
            counts["taken"] += 1
        else:
            connection.execute(sa.update(table).where(c.scope == scope, c.key == key).values(key=current))
            counts["changed"] += 1
    return counts


def key_today(key: str, label: str) -> str:
    """
    Return the current form of an older key.

    :param key: The older key.
    :param label: Values of the key columns as text.
    :return: The current key; ``key`` itself if the label does not reveal the values.
    """
    for texts in _texts(label):
        for kinds in itertools.product(_TYPES, repeat=len(texts)):
            former = texts if set(kinds) == {"str"} else [*texts, ",".join(kinds)]
            if hash_of(encoded(former)) != key:
                continue
            with contextlib.suppress(ValueError):
                return hash_of(encoded([key_text(_TYPES[kind](text)) for kind, text in zip(kinds, texts, strict=True)]))
    return key


def _texts(label: str) -> Iterator[list[str]]:
    """Yield the possible values of a label: the whole label, and the values of several columns."""
    yield [label]
    starts = list(_COLUMN.finditer(label))
    if 1 < len(starts) <= 3:
        # More than three columns would have too many combinations of types.
        ends = [*(start.start() for start in starts[1:]), len(label)]
        yield [label[start.end() : end] for start, end in zip(starts, ends, strict=True)]
