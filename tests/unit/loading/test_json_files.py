"""JSON files: one object per line, one after the other, or an array."""

from __future__ import annotations

import json
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading import json_files
from airflow_provider_assistant.loading.columns import ColumnSelection
from tests.unit.loading.test_csv_files import read

WANTED = ColumnSelection(("title", "fields.body"), ("id",))


def documents(number, seed):
    chars = random.Random(seed)
    texts = ["", "中文 ü🕘", 'a "b" \\ {[', "]},\n\t", "x" * 300, "\u2028 \u0085"]
    return [
        {"id": id_, "title": f"T{id_}", "fields": {"body": "".join(chars.choices(texts, k=4)), "tags": [[{}]]}}
        for id_ in range(number)
    ]


WRITERS = {
    "a.jsonl": lambda rows: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
    "b.NDJSON": lambda rows: "\r\n\r\n".join(json.dumps(row) for row in rows),
    "c.json": lambda rows: json.dumps(rows, ensure_ascii=False),
    "d.json": lambda rows: json.dumps(rows, indent=2) + "\n",
    "e.json": lambda rows: "\n".join(json.dumps(row) for row in rows),
    "f.json": lambda rows: " ".join(json.dumps(row, indent=1) for row in rows),
    "g.txt": lambda rows: "\n" + json.dumps(rows, indent="\t"),
}


@pytest.mark.parametrize("chunk", [2, 7, 1 << 20])
@pytest.mark.parametrize("name", WRITERS)
def test_every_layout_has_the_same_rows(name, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "CHUNK", chunk)
    rows = documents(40, seed=chunk)
    (tmp_path / name).write_text(WRITERS[name](rows), encoding="utf-8", newline="")
    options = {"format": "json"} if name == "g.txt" else {}
    expected = [{"title": row["title"], "fields.body": row["fields"]["body"], "id": row["id"]} for row in rows]
    assert read(tmp_path / name, WANTED, **options) == (expected, [], {})


@pytest.mark.parametrize("name", ["a.jsonl", "c.json", "d.json", "f.json"])
@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        *((name, "") for name in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")),
        ("utf-16-be", "utf-16"),
        ("utf-16-le", "utf-16-be"),
        ("utf-16", "cp1252"),
        ("gb18030", "gb18030"),
        ("utf-7", "utf-7"),
    ],
)
def test_the_encoding_is_that_of_the_bytes_or_of_the_option(encoding, given, name, tmp_path):
    rows = documents(3, seed=1)
    (tmp_path / name).write_bytes(WRITERS[name](rows).encode(encoding))
    found, problems, _ = read(tmp_path / name, WANTED, encoding=given)
    assert ([row["fields.body"] for row in found], problems) == ([row["fields"]["body"] for row in rows], [])


def test_rows_that_say_nothing_or_two_things(tmp_path):
    lines = [
        '{"id": 1, "title": "T", "fields": {"body": "B"}}',
        "{}",
        '{"id": null, "title": " ", "fields": ""}',
        '{"id": 2, "title": "T", "title": "U", "fields": {"body": "B"}}',
        '{"id": 3, "title": "T", "fields": {"body": "B", "body": "B"}}',
        '{"id": 4, "title": "T", "fields": {"body": "B"}, "fields.body": "own name"}',
        "\x1a",
    ]
    for name, text in {"a.jsonl": "\n".join(lines), "a.json": f"[{','.join(lines[:-1])}]"}.items():
        (tmp_path / name).write_text(text)
        rows, problems, left_out = read(tmp_path / name, WANTED)
        assert [(row["id"], row["fields.body"]) for row in rows] == [(1, "B"), (4, "own name")]
        assert ["'title' more than once" in problems[0], "'body' more than once" in problems[1]] == [True, True]
        assert left_out == {"is blank": 3 if name == "a.jsonl" else 2}


@pytest.mark.parametrize(
    "text",
    [
        '[{"title": "a"}',
        '[{"title": "a"},]',
        '[{"title": "a"} {"title": "b"}]',
        '[{"title": "a"}, "b"]',
        '[{"title": "a"}, {"title": "b"}] []',
        '[{"title": "say "hi""}, {"title": "b"}]',
        "[{'title': 'a'}]",
        '{"title":\n "a"',
        '[{"title": "a"}, {"title": "b}]',
    ],
)
def test_an_array_whose_rows_are_not_certain_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(AssistantInputError, match=r"a\.json' cannot be read: line 1"):
        read(tmp_path / "a.json", ColumnSelection(("title",)))


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_inside_of_an_object_are_named(indent, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"count": 1, "articles": [{"title": "a"}]}, indent=indent))
    with pytest.raises(AssistantInputError, match=r"json\.load\(open\('.*a\.json'\)\)\['articles'\]"):
        read(tmp_path / "a.json", ColumnSelection(("title",)))
