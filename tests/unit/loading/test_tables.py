"""Whole sources as tables."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.loading.tables import table_of


def read(source):
    with open_source(source, ColumnSelection((), rest=True)) as opened:
        return table_of(opened)


def test_text_in_another_encoding_is_a_sentence_that_names_the_option(tmp_path):
    path = tmp_path / "golden.csv"
    for encoding, text in {
        "cp1252": "Größe, 5 €?",
        "latin-1": "Où est-ce?",
        "koi8-r": "Что",
        "shift-jis": "何時",
    }.items():
        path.write_bytes(b'key,message\nq1,"Open?"\nq2,"' + text.encode(encoding) + b'"\n')
        with pytest.raises(AssistantInputError, match=r"golden.csv, line 3: column 'message' is not text .*--encoding"):
            read(str(path))


def test_a_column_of_texts_and_lists_has_the_lists_as_json(tmp_path):
    path = tmp_path / "golden.jsonl"
    cells = ["30 days", ["30 days", "it's é"], [["a", "b"], "c"], None]
    path.write_text(
        "".join(json.dumps({"key": str(number), "expected": cell}) + "\n" for number, cell in enumerate(cells))
    )
    for source in (str(path), [{"expected": cell} for cell in cells]):
        texts = read(source)["expected"].to_pylist()
        assert texts[0] == cells[0]
        assert [json.loads(text) for text in texts[1:3]] == cells[1:3]
        assert texts[3] is None


def test_a_row_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text('{"key": "q1"}\n["q2"]\n')
    with pytest.raises(AssistantInputError, match=r"golden.jsonl, line 2"):
        read(str(path))
    with pytest.raises(AssistantInputError, match=r"the character '\\udcfc'"):
        read([{"key": "q1", "message": "Gr\udcfc"}])
