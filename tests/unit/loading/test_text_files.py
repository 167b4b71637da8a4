"""Files that are compressed, cut off or empty."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random

import pyarrow as pa
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source
from tests.unit.loading.test_csv_files import read

TITLE = ColumnSelection(("title",))
COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}
# Texts that do not compress well, so that a part of a file has rows.
TITLES = [f"{random.Random(number).getrandbits(400):x}" for number in range(600)]
CONTENTS = {
    "csv": "title\n" + "\n".join(TITLES),
    "tsv": "title\n" + "\n".join(TITLES),
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
        assert [row["title"] for row in read(path, TITLE)[0]] == TITLES
    for length in (1, 5, len(compressed) // 6, len(compressed) // 2, len(compressed) - 1):
        path.write_bytes(compressed[:length])
        with pytest.raises(AssistantInputError, match="cannot be read"):
            read(path, TITLE)


def test_files_without_a_row_are_counted_and_the_others_are_read(tmp_path):
    contents = {
        "zero": b"",
        "mark": b"\xef\xbb\xbf",
        "mark16": b"\xff\xfe",
        "lines": b"\n\r\n\n",
        "nothing": b"\xef\xbb\xbf\r\n",
    }
    for name, content in contents.items():
        for kind in ("csv", "tsv", "jsonl", "json"):
            (tmp_path / f"{name}.{kind}").write_bytes(content)
            for compression, compress in COMPRESS.items():
                (tmp_path / f"{name}.{kind}.{compression}").write_bytes(compress(content))
                (tmp_path / f"no-{name}.{kind}.{compression}").write_bytes(b"")
    empty = len(list(tmp_path.iterdir()))
    assert empty == len(contents) * 4 * (1 + 2 * len(COMPRESS))
    assert read(tmp_path, TITLE) == ([], [], {"is empty": empty})
    (tmp_path / "rows.csv").write_text("title\na\n")
    with open_source(str(tmp_path), TITLE) as source:
        assert [batch.columns["title"] for batch in source.batches()] == [["a"]]
        assert source.account.unexpected[0].count == empty
