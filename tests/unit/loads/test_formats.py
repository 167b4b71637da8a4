"""The same rows in every format: after the first load, no other format creates a document."""

from __future__ import annotations

import csv
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.loads.loads import counts, load, loaded

START = datetime(2026, 1, 1, tzinfo=UTC)
# No times: a text is never taken for one, so a key of times is another in CSV and JSON.
KEYS = ("number", "flag", "day", "code", "uuid")
TEXTS = ("title", "question", "answer", "category")


def rows_of(seed, count=200):
    """Return rows with a key of every type; texts look like numbers, dates and missing values."""
    rng = random.Random(seed)
    codes = ["007", "7", "1.10", "1.1", "1e3", "NA", "None", "nan", "ü 🕘", "a,b", 'say "x"', "2026-1-1", "TRUE"]
    rows = []
    for number in range(count):
        moment = START + timedelta(seconds=rng.randrange(10**7))
        rows.append({
            "number": number,
            "flag": rng.random() < 0.5,
            "day": date(2026, 1, 1) + timedelta(rng.randrange(100)),
            "naive": moment.replace(tzinfo=None) if rng.random() < 0.5 else datetime(2026, 1, 1),  # noqa: DTZ001
            "moment": moment + timedelta(microseconds=rng.choice([0, 500_000, 123_456])),
            "code": rng.choice(codes),
            "uuid": UUID(int=rng.getrandbits(128)),
            "title": f"Title {number}",
            "question": rng.choice(["NA", "None", "n/a", "Why?", "Ω\n2 lines"]),
            "answer": f"{rng.choice(codes)} {number}",
            "category": rng.choice(["faq", "null"]),
        })  # fmt: skip
    return rows


def arrow(rows):
    return pa.Table.from_pylist([row | {"uuid": str(row["uuid"])} for row in rows])


def write_texts(rows, path, sep=" ", zone="+00:00", delimiter=","):
    """Write CSV as programs do that are not Python: other spellings of the same values."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
        writer.writeheader()
        for row in rows:
            changes = {
                "naive": row["naive"].isoformat(sep, "milliseconds"),
                "moment": row["moment"].replace(tzinfo=None).isoformat(sep, "microseconds") + zone,
                "number": f"{row['number']}.0",
            }
            writer.writerow(row | changes)
    return str(path)


def formats(rows, folder):
    """Yield every format by its name."""
    table = arrow(rows)
    frame = pd.DataFrame(rows)
    yield "list", rows
    numbers = {"floats": float, "decimals": lambda number: Decimal(f"{number}.00"), "texts": " {}.0 ".format}
    for name, of in numbers.items():
        yield f"list of {name}", [row | {"number": of(row["number"])} for row in rows]
    yield "pandas", frame
    yield "pandas of objects", frame.astype(object)
    yield "pandas of Arrow", table.to_pandas(types_mapper=pd.ArrowDtype)
    yield "pyarrow", table
    yield "polars", pl.from_arrow(table)
    yield "polars of objects", pl.DataFrame(rows)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        connection.register("rows", table)
        yield "DuckDB", connection.sql("SELECT * REPLACE (uuid::UUID AS uuid, number::HUGEINT AS number) FROM rows")
        for name in ("duckdb.csv", "duckdb.json", "duckdb.parquet"):
            options = {"duckdb.csv": "(HEADER)", "duckdb.json": "", "duckdb.parquet": ""}[name]
            path = folder / name.replace(".json", ".jsonl")
            connection.execute(f"COPY (SELECT * REPLACE (uuid::UUID AS uuid) FROM rows) TO '{path}' {options}")
            yield name, str(path)
    pq.write_table(table, folder / "pyarrow.parquet", row_group_size=70)
    yield "Parquet", str(folder / "pyarrow.parquet")
    frame.to_csv(folder / "pandas.csv", index=False)
    yield "CSV of pandas", str(folder / "pandas.csv")
    yield "CSV in pandas", pd.read_csv(folder / "pandas.csv", dtype=str, keep_default_na=False)
    pl.from_arrow(table).write_csv(folder / "polars.csv")
    yield "CSV of polars", str(folder / "polars.csv")
    yield "CSV with T and Z", write_texts(rows, folder / "t.csv", "T", "Z")
    yield "CSV with UTC", write_texts(rows, folder / "utc.csv", " ", " UTC")
    yield "TSV", write_texts(rows, folder / "faq.tsv", "T", "+0000", "\t")
    frame.assign(uuid=frame["uuid"].astype(str), day=frame["day"].astype(str)).to_json(
        folder / "pandas.jsonl", orient="records", lines=True, date_format="iso", date_unit="us"
    )
    yield "JSON lines of pandas", str(folder / "pandas.jsonl")
    pl.from_arrow(table).write_ndjson(folder / "polars.jsonl")
    yield "JSON lines of polars", str(folder / "polars.jsonl")
    lines = [json.dumps(row, default=str) for row in rows]
    (folder / "str.jsonl").write_text("\n".join(lines))
    yield "JSON lines", str(folder / "str.jsonl")
    (folder / "array.json").write_text(f"[{','.join(lines)}]")
    yield "JSON", str(folder / "array.json")
    for number, row in enumerate(rows):
        part = folder / "hive" / f"number={number}" / f"flag={row['flag']}" / "part.parquet"
        if number % 40 == 0:
            part.parent.mkdir(parents=True)
            pq.write_table(arrow([row]).drop_columns(["number", "flag"]), part)
    rest = [row for number, row in enumerate(rows) if number % 40]
    pq.write_table(arrow(rest), folder / "hive" / "rest.parquet")
    yield "folders of Hive", str(folder / "hive")


@pytest.mark.promise("loads", "A key column of another type (7, 7.0, '7') creates no row again.")
def test_a_change_of_format_creates_nothing(service, connection, tmp_path):
    rows = rows_of(7)
    options = {"key_columns": list(KEYS)}
    assert counts(load(rows, **options)) == {"created": 200}
    assert loaded(service) == sorted(
        ({name: row[name] for name in TEXTS} for row in rows), key=lambda row: row["title"]
    )
    for name, source in formats(rows, tmp_path):
        result = load(source, run_id=name, **options)
        assert (counts(result), result["changed"], result["stale"]) == ({"unchanged": 200}, 0, 0), name
