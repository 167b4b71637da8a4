"""A row that cannot be read is in the source: no document is stale because of it."""

from __future__ import annotations

import json
import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.loading.guards import LEAST_CHANGED
from tests.unit.loads.loads import counts, listed, load

NAMES = ("id", "title", "question", "answer", "category")
FIRST = [(f"k{number}", f"Title {number}", "Q?", f"Ä {number}", "faq") for number in range(2 * LEAST_CHANGED)]


def as_json(row, names=NAMES):
    return json.dumps(dict(zip(names, row, strict=True))).encode()


# Ways to spoil a row of CSV: its bytes, and whether its key is still known.
SPOILED_CSV = {
    "too many cells": (lambda row: ",".join([*row, "x"]).encode(), False),
    "too few cells": (lambda row: ",".join(row[:3]).encode(), False),
    "bad byte in the key": (lambda row: b"\xff" + ",".join(row).encode(), False),
    "blank key": (lambda row: ",".join([" ", *row[1:]]).encode(), False),
    "bad byte in the answer": (lambda row: ",".join(row).encode("latin-1"), True),
    "bad byte in the category": (lambda row: ",".join(row).encode() + b"\xe4", True),
    "empty answer": (lambda row: ",".join([*row[:3], "", row[4]]).encode(), True),
}
SPOILED_JSON = {
    "not JSON": (lambda row: as_json(row)[:-1], False),
    "a list": (lambda row: json.dumps(row).encode(), False),
    "no key": (lambda row: as_json(row[1:], NAMES[1:]), False),
    "a list as key": (lambda row: as_json([[1], *row[1:]]), False),
    "half a character in the key": (lambda row: as_json(["\ud83d", *row[1:]]), False),
    "half a character": (lambda row: as_json([*row[:3], "A\ud83d", ""]), True),
    "bad byte": (lambda row: as_json(row).replace(b"\\u00c4", b"\xc4"), True),
    "a number as answer": (lambda row: as_json([*row[:3], 7, row[4]]), True),
}


def write(path, lines):
    if path.suffix == ".csv":
        lines = [",".join(NAMES).encode(), *lines]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def line_of(row, suffix):
    if suffix == ".csv":
        return ",".join(row).encode()
    return as_json(row)


@pytest.mark.promise("loads", "A row that cannot be read is in the source: no document is stale because of it.")
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(("suffix", "spoiled"), [(".csv", SPOILED_CSV), (".jsonl", SPOILED_JSON)])
def test_stale_documents_are_known_only_with_every_key(
    suffix, spoiled, keyed, service, connection, tmp_path, ledger_home
):
    """Each night, the first rows are gone, and some of the others are spoiled in one way."""
    rng = random.Random(f"{suffix} {keyed}")
    options = {"key_columns": ["id"]} if keyed else {}
    options["max_rejected"] = LEAST_CHANGED
    path = tmp_path / f"faq{suffix}"
    load(write(path, [line_of(row, suffix) for row in FIRST]), **options)
    sent = service.posts()
    for way, (spoil, has_key) in spoiled.items():
        bad = set(rng.sample(range(3, len(FIRST)), 2 if keyed else 45))
        lines = [
            spoil(row) if number in bad else line_of(row, suffix) for number, row in enumerate(FIRST) if number >= 3
        ]
        result = load(write(path, lines), run_id=way, **options)
        if "key" in way and not keyed:
            # Without key columns, the content is there.
            assert (result["rejected"], result["stale"]) == (0, 3), way
            continue
        stale = 3 if has_key and keyed else None
        assert (result["rejected"], result["unchanged"]) == (len(bad), len(FIRST) - 3 - len(bad)), way
        assert result["stale"] == stale, way
        found = [kind for kind, _row, _key in listed(ledger_home, way)]
        assert found.count("stale") == (stale or 0), way
    assert service.posts() == sent


def test_every_kind_of_source(service, connection, tmp_path):
    """Objects of Python, and text of another encoding that a writer stored in Parquet."""
    service.behave(allow_duplicates=True)
    rows = [dict(zip(NAMES, row, strict=True)) for row in FIRST[:5]]
    options = {"key_columns": ["id"], "max_rejected": 5}
    load(rows, **options)
    half = [*rows[1:4], rows[4] | {"answer": "cut \ud83d"}]
    offsets = pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0]))
    bad_text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xc4!")])
    latin = pa.table({**{name: pa.array([rows[4][name]]) for name in NAMES}, "answer": bad_text})
    pq.write_table(pa.concat_tables([pa.Table.from_pylist(rows[1:4]), latin]), tmp_path / "latin.parquet")
    for number, source in enumerate((half, pd.DataFrame(half, dtype=object), str(tmp_path / "latin.parquet"))):
        result = load(source, run_id=str(number), **options)
        assert (counts(result), result["stale"]) == ({"unchanged": 3, "rejected": 1}, 1)
    # A key is not sent, so that it may have any characters.
    cut = [*rows[1:4], rows[4] | {"id": "cut \ud83d"}]
    result = load(cut, run_id="cut", **options)
    # The row has the document of the equal row that is gone.
    assert (counts(result), result["stale"]) == ({"unchanged": 4}, 1)
    # Arrow cannot hold such a text.
    result = load(pd.DataFrame(cut, dtype=object), run_id="frame", **options)
    assert (counts(result), result["stale"]) == ({"unchanged": 3, "rejected": 1}, None)
