"""The commands golden-set check and sample."""

from __future__ import annotations

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.evaluation.golden_set import golden_cases

RUN = {"answer_seconds": 1.0, "dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("key;question;expected\n1;When are refunds paid?;In five days.\n2;When are refunds paid;\n")
    return path


def test_findings_are_listed(cli, golden, tmp_path):
    gate, documents = tmp_path / "gate.yaml", tmp_path / "faq.csv"
    gate.write_text("gate: ['token_f1[billing] drop <= 0.1']")
    documents.write_text("question;answer\nwhen are refunds paid?;Soon.\n")
    check = ("golden-set", "check", golden, "--csv-option", "delimiter=;", "--column", "message=question")
    ran = cli(*check, "--gate", gate, "--documents", documents, "-o", "json")
    assert ran.code == 1
    kinds = ["duplicate", "no_expectation", "tag_without_questions", "leaked", "leaked"]
    assert [one["finding"] for one in ran.json] == kinds
    assert ran.json[0]["keys"] == ["1", "2"]
    ran = cli(*check)
    assert ran.lines[1] == ["duplicate", "1, 2", "1, 2", "2 rows with the same question"]
    assert ran.lines[-1] == ["questions: 2, findings: 2"]


def test_a_set_without_findings(cli, golden):
    golden.write_text("message,expected\nWhen are refunds paid?,In five days.\n")
    ran = cli("golden-set", "check", golden)
    assert (ran.code, ran.out) == (0, "questions: 1, findings: 0\n")


def test_a_sample_has_the_shares_of_the_set(cli, tmp_path):
    golden, drawn = tmp_path / "golden.parquet", tmp_path / "sample.csv"
    tags = [["billing", "new"]] * 30 + [["shipping"]] * 9 + [None]
    rows = [
        {"key": number, "message": f"Is {number} right?", "tags": tag, "expect_no_answer": number % 2 == 0}
        for number, tag in enumerate(tags)
    ]
    pq.write_table(pa.Table.from_pylist(rows), golden)
    ran = cli("golden-set", "sample", golden, drawn, "--size", "10", "--seed", "2", "-o", "json")
    assert (ran.code, ran.json["by"]) == (0, {"billing": 7, "shipping": 2, "": 1})
    with drawn.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 10
    assert {row["tags"] for row in found} == {'["billing", "new"]', '["shipping"]', ""}
    assert all(row["expect_no_answer"] == str(int(row["key"]) % 2 == 0).lower() for row in found)
    assert cli("golden-set", "sample", golden, drawn, "--size", "10", "--by", "key").code == 2
    assert cli("golden-set", "sample", golden, drawn, "--size", "10", "--by", "team").code == 2


def test_a_sample_expects_what_the_set_does(cli, tmp_path):
    golden, drawn, again = tmp_path / "golden.parquet", tmp_path / "sample.csv", tmp_path / "again.csv"
    rows = [
        {"expected": ["Yes.", "Of course."], "must_include": [["a", "b"], ["c"]], "tags": ["x", "y"]},
        {"expected": ["Yes | no"], "must_include": [["regex:5|6"]], "tags": ["größer"]},
        {"expected": None, "must_include": None, "tags": None, "must_not_include": "a || b|c", "weight": 2.0},
    ]
    pq.write_table(pa.Table.from_pylist([{"message": f"{n}?", **rows[n]} for n in (2, 1, 0)]), golden)
    assert cli("golden-set", "sample", golden, drawn, "--size", "3").code == 0
    ran = cli("golden-set", "sample", drawn, again, "--size", "3", "-o", "json")
    assert ran.json["by"] == {"x": 1, "größer": 1, "": 1}
    expected = expectations(pq.read_table(golden))
    assert expectations(read_csv(drawn)) == expectations(read_csv(again)) == expected


def read_csv(file):
    with file.open(newline="") as opened:
        return pa.Table.from_pylist(list(csv.DictReader(opened)))


def expectations(table):
    fields = ("accepted", "must_include", "must_not_include", "tags", "weight")
    return {case.message: [getattr(case, name) for name in fields] for case in golden_cases(table)}


def test_documents_need_questions(cli, golden):
    golden.write_text("message,expected\nWhen are refunds paid?,In five days.\n")
    ran = cli("golden-set", "check", golden, "--documents", golden)
    assert ran.code == 2
    assert "there is no column question" in ran.err
