"""Files of text that are compressed, cut off, empty, huge, or in another encoding."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import subprocess
import sys

import pyarrow as pa
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.tables.reading import columns, read, rows_of

TITLE = columns("title")
COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "ZST": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}
# Texts that do not compress well, so that a part of a file has rows.
TITLES = [f"{random.Random(number).getrandbits(400):x}" for number in range(600)]
CONTENTS = {
    "csv": "title\n" + "\n".join(TITLES),
    "jsonl": "\n".join(json.dumps({"title": title}) for title in TITLES),
    "json": json.dumps([{"title": title} for title in TITLES]),
}


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_compressed_file_is_read_as_a_whole_or_refused(kind, compression, tmp_path):
    path = tmp_path / f"faq.{kind}.{compression}"
    content = CONTENTS[kind].encode()
    compressed = COMPRESS[compression](content)
    # Two parts, as tools append them.
    for whole in (compressed, COMPRESS[compression](content[:9000]) + COMPRESS[compression](content[9000:])):
        path.write_bytes(whole)
        assert [row["title"] for row in rows_of(path, TITLE)] == TITLES
    for length in (1, 5, len(compressed) // 6, len(compressed) // 2, len(compressed) - 1):
        path.write_bytes(compressed[:length])
        with pytest.raises(AssistantInputError, match="cannot be read"):
            read(path, TITLE)


def test_files_without_a_row_are_counted_and_the_others_are_read(tmp_path):
    contents = {"zero": b"", "mark": b"\xef\xbb\xbf", "mark16": b"\xff\xfe", "lines": b"\n\r\n\n", "end": b"\x1a"}
    for name, content in contents.items():
        for kind in ("csv", "tsv", "jsonl", "json"):
            (tmp_path / f"{name}.{kind}").write_bytes(content)
            for compression, compress in COMPRESS.items():
                (tmp_path / f"{name}.{kind}.{compression}").write_bytes(compress(content) if content else b"")
    count = len(list(tmp_path.iterdir()))
    rows, problems, notes = read(tmp_path, TITLE)
    assert (rows, problems, sum(notes.values())) == ([], [], count)
    (tmp_path / "rows.csv").write_text("title\na\n")
    rows, _, notes = read(tmp_path, TITLE)
    assert ([row["title"] for row in rows], sum(notes.values())) == (["a"], count)


ENCODINGS = [
    *((name, "") for name in ("utf-8", "utf-8-sig", "utf-16", "utf-32")),
    *((name, name) for name in ("utf-16-le", "utf-16-be", "cp1252", "shift-jis", "gb18030", "koi8-r", "utf-7")),
    ("utf-16", "cp1252"),
]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@pytest.mark.parametrize(("encoding", "given"), ENCODINGS)
def test_the_encoding_is_that_of_the_mark_or_of_the_option(encoding, given, kind, tmp_path):
    text = {"cp1252": "Größe 5 €", "shift-jis": "何時", "koi8-r": "Что"}.get(encoding, "中文 ü")
    contents = {"csv": f"title\n{text}\n", "jsonl": json.dumps({"title": text}, ensure_ascii=False)}
    contents["json"] = f"[{contents['jsonl']}]"
    path = tmp_path / f"a.{kind}"
    path.write_bytes(contents[kind].encode(encoding))
    assert rows_of(path, TITLE, csv_options={"encoding": given}) == [{"title": text}]


def test_many_rows_in_another_encoding_name_the_option(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"title,id\n" + "".join(f"Größe {n},k{n}\n" for n in range(300)).encode("cp1252"))
    rows, problems, _ = read(path, columns("title", key=["id"]))
    assert (rows, len(problems)) == ([], 300)
    assert problems[7] == (
        f"{path}, line 9: column 'title' has bytes of another encoding than utf-8; set csv_options={{'encoding': …}} "
        "(--encoding), such as cp1252"
    )
    # Only the cells that are read count.
    assert len(rows_of(path, columns(key=["id"]))) == 300
    path.write_bytes("Größe,id\n".encode("cp1252"))
    with pytest.raises(AssistantInputError, match=r"its first line is not a list of names in utf-8; .*--encoding"):
        read(path, TITLE)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.xlsx", b"x", r"pandas\.read_excel\('.*a\.xlsx', dtype=str, keep_default_na=False\)"),
        ("a.avro", b"x", r"does not have the suffix of .*pandas\.read_csv"),
        ("a", b"x", "does not have the suffix of .*Rename it"),
        ("a.csv", gzip.compress(b"title\na\n", mtime=0), "is compressed with gzip"),
        ("a.csv", b"PK\x03\x04", r"is an Excel workbook: pass source=lambda: pandas\.read_excel\('.*a\.csv'"),
        ("a.csv", b"PAR1", "is a Parquet file"),
        ("a.parquet", b"no parquet", "cannot be read"),
        ("a.parquet", b"", "cannot be read"),
        ("a.jsonl", b'{"title": ', "line 1 is not JSON"),
        ("a.jsonl", b"\xff", "line 1 is not JSON"),
        ("a.jsonl", b"1\n", "must be a JSON object"),
        ("a.jsonl.gz", b"no gzip", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"title\na\n", mtime=0) + b"\0" * 40, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(name, content, part, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AssistantInputError, match=part) as caught:
        read(tmp_path / name, TITLE)
    assert str(tmp_path / name) in str(caught.value)
    assert caught.value.field == "source"


MEASURE = """
import gzip, resource, sys
import pyarrow
from airflow_provider_assistant.tables import Columns, read_rows
assert not {"pandas", "polars"} & set(sys.modules)
resource.setrlimit(resource.RLIMIT_AS, (1_200 << 20, 1_200 << 20))
def rows():
    for number in range(400_000):
        yield {"title": f"{number} " + "x" * 4_000}
print(sum(map(len, read_rows(rows, Columns(("title",))))))
for name, start, piece, size in (
    ("a.csv.gz", b"title\\n", b"x", 28),
    ("b.csv.gz", b'title\\n"', b"x\\n", 20),
    ("c.jsonl.gz", b'{"title": "', b"x", 28),
    ("d.json.gz", b'["', b"x", 150),
):
    with gzip.open(name, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(size):
            file.write(piece * (1 << 20))
    try:
        list(read_rows(name, Columns(("title",))))
    except Exception as error:
        print(type(error).__name__, error.happened[:120])
"""


@pytest.mark.promise("loads", "A source of any size needs little memory, also one that unfolds from a small file.")
def test_a_source_of_any_size_needs_little_memory(tmp_path):
    """The rows take 1.6 GB, and each file some kilobytes."""
    ran = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, cwd=tmp_path)
    count, *errors = ran.stdout.splitlines()[-5:]
    assert count == "400000"
    too_long = "a row has more than 16,777,216 characters"
    for name, error in zip("abcd", errors, strict=True):
        assert error.startswith(f"AssistantInputError '{name}.")
        assert (too_long if name < "d" else "its array has more than 100 MB") in error
