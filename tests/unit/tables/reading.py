"""Read a source as the loads do."""

from __future__ import annotations

from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.tables import Columns, read_rows


def columns(*required, key=(), optional=(), **options):
    """Return columns of which all but the keys are texts."""
    texts = frozenset([*required, *optional])
    return Columns((*required, *key), tuple(optional), texts, **options)


def read(source, wanted, **options):
    """Return the rows that can be read, the problems of the others, and what was left out by reason."""
    rows, problems, notes = [], [], {}
    start = 1
    for part in read_rows(source, wanted, **options):
        if isinstance(part, Note):
            notes[part.reason] = notes.get(part.reason, 0) + part.count
            continue
        assert part.start == start
        assert 0 < len(part) <= 1000
        start += len(part)
        bad = part.problems_of(wanted.texts, wanted.required)
        for position, values in enumerate(zip(*part.columns.values(), strict=True)):
            if position in bad:
                problems.append(f"{part.place(position)}: {bad[position]}")
            else:
                rows.append(dict(zip(part.columns, values, strict=True)))
    return rows, problems, notes


def rows_of(source, wanted, **options):
    """Return all rows, of which none has a problem."""
    rows, problems, _notes = read(source, wanted, **options)
    assert problems == []
    return rows
