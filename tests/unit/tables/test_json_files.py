"""JSON files: one object per line, or one array."""

from __future__ import annotations

import json
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.tables import json_files
from tests.unit.tables.reading import columns, read, rows_of

WANTED = columns("title", "body", key=["id"])
TITLE = columns("title")


def documents(number, seed):
    chars = random.Random(seed)
    texts = ["", "中文 ü🕘", 'a "b" \\ {[', "]},\n\t", "x" * 300, "\u2028 \u0085"]
    return [
        {"title": f"T{id_}", "body": "".join(chars.choices(texts, k=4)), "id": id_, "tags": [[{}]]}
        for id_ in range(number)
    ]


WRITERS = {
    "a.jsonl": lambda rows: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
    "b.NDJSON": lambda rows: "\r\n\r\n".join(json.dumps(row) for row in rows),
    "c.json": lambda rows: json.dumps(rows, ensure_ascii=False),
    "d.json": lambda rows: "\n" + json.dumps(rows, indent=2) + "\n",
    "e.json": lambda rows: "\n" + "\n".join(json.dumps(row) for row in rows),
}


@pytest.mark.parametrize("count", [1, 40, 2500])
@pytest.mark.parametrize("name", WRITERS)
def test_every_layout_has_the_same_rows(name, count, tmp_path):
    rows = documents(count, seed=count)
    (tmp_path / name).write_text(WRITERS[name](rows), encoding="utf-8", newline="")
    expected = [{name: row[name] for name in ("title", "body", "id")} for row in rows]
    assert rows_of(tmp_path / name, WANTED) == expected


def test_values_keep_their_types_and_digits(tmp_path):
    values = ["2026-01-31T08:30:00", 2**70, 1, 1.5, "007", True, None]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": value, "title": "T"}) + "\n" for value in values))
    found = [row["id"] for row in rows_of(tmp_path / "a.jsonl", columns("title", key=["id"]))]
    assert (found, list(map(type, found))) == (values, list(map(type, values)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"title": [' + b"1," * 1_000_001 + b"1]}", "more values than 1,000,000"),
        (b'{"title": ' + b"[" * 101 + b"]" * 101 + b"}", "nested more than 100 levels"),
        ('{"title": "中"}'.encode("utf-16-le"), "is not JSON"),
        (b'{"title": "x", "other": {"a": 1, "a": 2}}', "with the name 'a' more than once"),
        (b'{"title": NaN}', "NaN is not a value of JSON"),
        (b'{"title": "x", "n": 1e400}', "the number 1e400 is unusual"),
        (b'["a"]', "must be a JSON object"),
        (b'{"title": "Gr\xfc\xdfe"}', "has bytes of another encoding than utf-8; set csv_options={'encoding'"),
        (rb'{"title": "\ud800"}', "half a character"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_problem_of_its_row(line, problem, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"title": "a"}\n' + line + b'\n{"title": "b \\u0000"}\n')
    rows, problems, _notes = read(path, TITLE)
    assert [row["title"] for row in rows] == ["a", "b \0"]
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}, line 2: ")
    assert problem in problems[0]


def test_blank_rows_are_counted(tmp_path):
    lines = [
        '{"id": 1, "title": "T", "body": "B"}',
        "{}",
        '{"id": null, "title": " ", "body": ""}',
        '{"id": 2, "title": "T"}',
    ]
    for name, text in {"a.jsonl": "\n".join([*lines, "\x1a"]), "a.json": f"[{','.join(lines)}]"}.items():
        (tmp_path / name).write_text(text)
        rows, problems, notes = read(tmp_path / name, WANTED)
        assert [(row["id"], row["body"]) for row in rows] == [(1, "B"), (2, None)]
        assert (problems, notes) == ([], {"is blank": 3 if name == "a.jsonl" else 2})


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
        "[",
        '[{"title": "a"}, {"title": "b}]',
        '[{"title": ' + "[" * 101,
        '{"title":\n "a"',
    ],
)
def test_a_file_whose_rows_are_not_certain_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(AssistantInputError, match=r"a\.json' cannot be read: line 1"):
        read(tmp_path / "a.json", TITLE)


def test_an_array_that_memory_cannot_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "ARRAY_LIMIT", 1 << 20)
    (tmp_path / "a.json").write_text(json.dumps([{"title": "x" * 1000}] * 2000))
    with pytest.raises(AssistantInputError, match=r"more than 1 MB: write one object per line"):
        read(tmp_path / "a.json", TITLE)


def test_a_field_may_be_missing_in_the_first_rows_but_not_in_all(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 1500 + '{"id": 2, "title": "T"}\n')
    assert [row["title"] for row in rows_of(tmp_path / "a.jsonl", TITLE)][-2:] == [None, "T"]
    (tmp_path / "a.jsonl").write_text('{"id": 1, "titel": "T"}\n')
    with pytest.raises(AssistantInputError, match=r"a\.jsonl' has no column title; it has id, titel"):
        read(tmp_path / "a.jsonl", TITLE)
