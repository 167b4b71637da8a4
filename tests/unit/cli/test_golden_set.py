"""The commands golden-set check, sample and propose."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant import lake
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
    check = ("golden-set", "check", golden, "--delimiter", ";", "--column", "message=question")
    ran = cli(*check, "--gate", gate, "--documents", documents, "-o", "json")
    assert ran.code == 1
    kinds = ["duplicate", "no_expectation", "tag_without_questions", "leaked", "leaked"]
    assert [one["finding"] for one in ran.json] == kinds
    assert ran.json[0]["keys"] == ["1", "2"]
    ran = cli(*check)
    assert ran.lines[1] == ["duplicate", "1, 2", "1, 2", "2 rows ask the same question"]
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


@pytest.fixture
def rated(tmp_path):
    """The dataset ``feedback`` with one file per day, and the outputs of two chat batches with other columns."""
    day = datetime(2026, 11, 21, 12, tzinfo=UTC)
    words = {"r1": "bad", "r2": "good", "r3": "bad", "r4": "bad", "r5": "bad"}
    for number, (request, word) in enumerate(words.items()):
        ids = {"service": "h.example", "site_id": "a", "session_id": "s", "request_id": request}
        row = {"sent_at": day + timedelta(days=number), **ids}
        folder = tmp_path / "lake" / "feedback" / f"date=2026-11-{21 + number}"
        folder.mkdir(parents=True)
        table = lake.rows_table(lake.FEEDBACK, [{**row, "rating": word, "attempts": 1, **RUN}])
        pq.write_table(table, folder / "nightly.export.parquet")
    asked = ["When are refunds paid?", "Who are you?", "Is the =shop open, at night?", "When are refunds paid", "?"]
    rows = [
        {
            "key": str(number),
            "message": message,
            "answer": f"Answer {number}.",
            "session_id": "s",
            "request_id": f"r{number}",
        }
        for number, message in enumerate(asked, start=1)
    ]
    answers = tmp_path / "lake" / "answers"
    answers.mkdir()
    pq.write_table(pa.Table.from_pylist([row | {"turn": 1} for row in rows[:2]]), answers / "one.parquet")
    pq.write_table(
        pa.Table.from_pylist([row | {"tags": ["x"], "turn": None} for row in rows[2:4]]), answers / "two.parquet"
    )
    return ("golden-set", "propose", tmp_path / "lake" / "feedback", answers)


def test_cases_are_proposed_from_feedback_and_checked(cli, rated, golden, tmp_path):
    cases = tmp_path / "proposed.csv"
    ran = cli(*rated, cases, "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json == {
        "path": str(cases), "ratings": 5, "proposed": 2, "replaced": 0, "other_ratings": 1, "without_answer": 1,
        "later_turns": 0, "in_golden_set": 0, "duplicates": 1, "over_limit": 0,
    }  # fmt: skip
    with cases.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["message"], row["human_answer"], row["rated_at"][:10]) for row in rows] == [
        ("When are refunds paid", "Answer 4.", "2026-11-24"),
        ("Is the =shop open, at night?", "Answer 3.", "2026-11-23"),
    ]
    # The check lists the cases until a person has filled in what is expected.
    unfinished = cli("golden-set", "check", cases, "-o", "json")
    assert [one["finding"] for one in unfinished.json] == ["no_expectation", "no_expectation"]
    cases.write_text(cases.read_text().replace("refunds paid,,", "refunds paid,In five days.,"))
    assert [one["rows"] for one in cli("golden-set", "check", cases, "-o", "json").json] == [[2]]


def test_a_file_of_proposals_is_never_overwritten(cli, rated, golden, tmp_path):
    cases, more = tmp_path / "proposed.csv", tmp_path / "more.csv"
    assert cli(*rated, cases).code == 0
    before = cases.read_text()
    again = cli(*rated, cases)
    assert again.code == 2
    assert "exists, and may hold expectations" in again.err
    assert cases.read_text() == before
    # A question that already waits for a person is not proposed again.
    ran = cli(*rated, more, "--golden", cases)
    assert ran.code == 0
    assert ran.lines[0] == ["skipped", "ratings"]
    assert ["in golden set", "3"] in ran.lines
    assert ran.lines[-1] == ["no file: 0 cases from 5 ratings"]
    assert not more.exists()


def test_the_golden_set_may_name_its_questions_otherwise(cli, rated, golden, tmp_path):
    options = ("--golden", golden, "--delimiter", ";", "--rating", "good", "--rating", "bad", "-o", "json")
    refused = cli(*rated, tmp_path / "out.csv", *options)
    assert refused.code == 2
    assert "there is no column message" in refused.err
    ran = cli(*rated, tmp_path / "out.csv", *options, "--column", "message=question", "--limit", "1")
    assert {name: ran.json[name] for name in ("proposed", "in_golden_set", "over_limit", "without_answer")} == {
        "proposed": 1, "in_golden_set": 2, "over_limit": 1, "without_answer": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"limit": "0"}, "--limit must be at least 1"),
        ({"feedback": "nowhere"}, "does not exist"),
        ({"feedback": "answers"}, "has no column rating, sent_at"),
        ({"turn": "last"}, "turn must be a whole number, not 'last'"),
    ],
)
def test_what_cannot_be_read_is_refused(cli, rated, tmp_path, change, says):
    command, name, feedback, answers = rated
    if turn := change.get("turn"):
        table = pq.read_table(answers / "one.parquet").drop_columns("turn")
        pq.write_table(table.append_column("turn", pa.array([turn] * table.num_rows)), answers / "one.parquet")
    feedback = {"nowhere": tmp_path / "nowhere", "answers": answers}.get(change.get("feedback"), feedback)
    ran = cli(command, name, feedback, answers, tmp_path / "out.csv", "--limit", change.get("limit", "5"))
    assert ran.code == 2
    assert says in ran.err
    assert not (tmp_path / "out.csv").exists()
