"""
Bring the keys of an older ledger to today's form.

Keys were digests of values and their types: the number 7 was another key than the text "7". The ledger has the digest
and the label, which is the value as text. Digests of what the label may have been show which type it had.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.keys import key_text
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.schema import documents, questions
from airflow_provider_assistant.loading.rows import digest_of, encoded

# How the types of an older key are called in its digest, and how to read a label of that type.
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
# Rows are read and written so many at a time.
_GROUP = 1000


@dataclass(slots=True)
class Rekeyed:
    """
    What became of the entries.

    :param changed: They have today's key now.
    :param same: They had it already, or have no key columns.
    :param taken: Their key today belongs to another entry: the row was created under both. They are left as they are,
        and the next load of the whole source lists their documents as stale.
    """

    changed: int = 0
    same: int = 0
    taken: int = 0


def rekey(ledger: Ledger) -> Rekeyed:
    """
    Give every document and question of a ledger the key that its row has today; repeating it changes nothing.

    :param ledger: The ledger, which no task uses at the same time.
    """
    found = Rekeyed()
    for table in (documents, questions):
        for group in _groups(ledger, table):
            _rekey(ledger, table, group, found)
    return found


def _groups(ledger: Ledger, table: sa.Table) -> Iterator[list[Any]]:
    entries = sa.select(table.c.scope, table.c.key, table.c.label)
    with ledger.engine.connect() as connection:
        # All keys at once: they change while they are worked on.
        rows = connection.execute(entries).all()
    for start in range(0, len(rows), _GROUP):
        yield list(rows[start : start + _GROUP])


def _rekey(ledger: Ledger, table: sa.Table, entries: list[Any], found: Rekeyed) -> None:
    c = table.c
    with ledger.engine.begin() as connection:
        for scope, key, label in entries:
            today = key_today(key, label)
            if today == key:
                found.same += 1
            elif connection.scalar(sa.select(c.key).where(c.scope == scope, c.key == today)):
                found.taken += 1
            else:
                connection.execute(sa.update(table).where(c.scope == scope, c.key == key).values(key=today))
                found.changed += 1


def key_today(key: str, label: str) -> str:
    """
    Return today's form of an older key; the key itself where its values cannot be told from its label.

    :param key: The key.
    :param label: Its values as text.
    """
    for texts in _texts(label):
        for kinds in itertools.product(_TYPES, repeat=len(texts)):
            former = texts if set(kinds) == {"str"} else [*texts, ",".join(kinds)]
            if digest_of(encoded(former)) != key:
                continue
            with contextlib.suppress(ValueError):
                return digest_of(
                    encoded([key_text(_TYPES[kind](text)) for kind, text in zip(kinds, texts, strict=True)])
                )
    return key


def _texts(label: str) -> Iterator[list[str]]:
    """Yield the values that a label may stand for: one, or those of several columns."""
    yield [label]
    starts = list(_COLUMN.finditer(label))
    if 1 < len(starts) <= 3:
        # With more columns, the types have too many combinations.
        ends = [*(start.start() for start in starts[1:]), len(label)]
        yield [label[start.end() : end] for start, end in zip(starts, ends, strict=True)]
