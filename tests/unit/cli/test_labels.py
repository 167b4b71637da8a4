"""The commands golden-set label and agreement."""

from __future__ import annotations

import csv

import pyarrow as pa
import pyarrow.parquet as pq


def rows_of(path, delimiter=","):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def label(path, words, delimiter=","):
    rows = rows_of(path, delimiter)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**row, "label": word} for row, word in zip(rows, words, strict=True))


def saved(tmp_path, count=30):
    """Write answers in conversations of two turns; every tenth question has none."""
    path = tmp_path / "answers.parquet"
    rows = [
        {
            "key": f"q{number}",
            "message": f"Question {number}?",
            "expected": f"Answer {number}",
            "answer": None if number % 10 == 9 else f"=Answer {number}",
            "session_id": f"s{number // 2}",
            "turn": number % 2 + 1,
            "tags": ["billing"] if number % 3 else ["shipping", "new"],
        }
        for number in range(count)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_answers_are_written_for_people_and_their_labels_compared(cli, tmp_path):
    answers = saved(tmp_path)
    files = [tmp_path / name for name in ("anna.csv", "bert.csv", "carl.csv")]
    for file in files:
        ran = cli("golden-set", "label", answers, file, "--semicolons", "-o", "json")
        assert ran.code == 0
        assert ran.json == {"path": str(file), "answers": 27, "unanswered": 3}
    rows = rows_of(files[0], ";")
    assert (rows[1]["earlier_turns"], rows[1]["answer"]) == ("User: Question 0?\nAssistant: =Answer 0", "'=Answer 1")
    assert {row["label"] for row in rows} == {""}
    for file, words in zip(files, (["pass", "fail", "pass"], ["pass", "fail", "fail"], ["pass", "", ""]), strict=True):
        label(file, words * 9, ";")
    ran = cli("golden-set", "agreement", *files, "-o", "json")
    assert ran.code == 0
    assert {name: ran.json[name] for name in ("answers", "labels", "pass", "fail", "ties")} == {
        "answers": 27, "labels": 63, "pass": 9, "fail": 9, "ties": 9,
    }  # fmt: skip
    first = ran.json["raters"][0]
    assert (first["raters"], first["both"], round(first["kappa"], 2)) == (["anna.csv", "bert.csv"], 27, 0.4)
    assert first["low"] < 0.4 < first["high"]
    ran = cli("golden-set", "agreement", tmp_path / "*.csv")
    assert ran.lines[-1] == ["63 labels for 27 answers: 9 pass, 9 fail, 9 ties"]


def test_a_sample_has_the_shares_of_the_tags_and_no_file_is_overwritten(cli, tmp_path):
    answers, drawn = saved(tmp_path), tmp_path / "drawn.csv"
    options = ("--size", "9", "--rater", "Anna", "--judge", "tone", "--judge", "correctness")
    assert cli("golden-set", "label", answers, drawn, *options).code == 0
    rows = rows_of(drawn)
    assert (len(rows), sum(int(row["key"][1:]) % 3 == 0 for row in rows)) == (9, 3)
    assert {(row["rater"], row["label.tone"], row["label.correctness"]) for row in rows} == {("Anna", "", "")}
    before = drawn.read_bytes()
    ran = cli("golden-set", "label", answers, drawn)
    assert ran.code == 2
    assert "may hold labels that a person has filled in" in ran.err
    assert drawn.read_bytes() == before
    assert cli("golden-set", "label", answers, tmp_path / "x.csv", "--size", "1").code == 2
    assert cli("golden-set", "label", answers, tmp_path / "x.csv", "--size", "3", "--by", "nothing").code == 2
    assert cli("golden-set", "agreement", drawn).code == 2
