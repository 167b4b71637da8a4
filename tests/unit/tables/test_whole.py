"""Whole sources as tables."""

from __future__ import annotations

import json
import logging

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.tables import Columns, read_rows
from airflow_provider_assistant.tables.whole import read_columns, table_of


def read(source):
    return table_of(read_rows(source, Columns(rest=True)))


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "koi8-r", "shift-jis"])
def test_text_in_another_encoding_is_a_sentence_that_names_the_option(encoding, tmp_path):
    path = tmp_path / "golden.csv"
    text = {"koi8-r": "Что", "shift-jis": "何時"}.get(encoding, "Größe, é?")
    path.write_bytes(b'key,message\nq1,"Open?"\nq2,"' + text.encode(encoding) + b'"\n')
    with pytest.raises(AssistantInputError, match=r"golden.csv, line 3: column 'message' has bytes of .*--encoding"):
        read(path)


def test_a_column_of_texts_and_lists_has_the_lists_as_json(tmp_path):
    path = tmp_path / "golden.jsonl"
    cells = ["30 days", ["30 days", "it's é"], [["a", "b"], "c"], None]
    rows = [{"key": str(number), "expected": cell} for number, cell in enumerate(cells)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for source in (path, rows):
        texts = read(source)["expected"].to_pylist()
        assert [texts[0], texts[3]] == [cells[0], None]
        assert [json.loads(text) for text in texts[1:3]] == cells[1:3]


def test_a_row_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text('{"key": "q1"}\n["q2"]\n3\n')
    with pytest.raises(AssistantInputError, match=r"golden.jsonl, line 2: .* \(1 more row cannot be read\)"):
        read(path)
    with pytest.raises(AssistantInputError, match=r"the character '\\udcfc'"):
        read([{"key": "q1", "message": "Gr\udcfc"}])


def test_columns_may_come_and_go(caplog, tmp_path):
    (tmp_path / "a.csv").write_text("key,early\n1,a\n,\n")
    (tmp_path / "b.csv").write_text("key,late\n2,b\n")
    with caplog.at_level(logging.INFO):
        rows = read_columns(read_rows(tmp_path, Columns(("key",), rest=True)))
    assert rows.columns == {"key": ["1", "2"], "early": ["a", None], "late": [None, "b"]}
    assert "1 row left out: is blank" in caplog.text
