"""Evaluations that compare two answers to a question, through a real socket to the judge of the embedded service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantJudgeLimitError
from airflow_provider_assistant.sandbox import SandboxServer
from tests.integration.test_judging import asked, evaluate, files_below, judging, summary_of

PAIRWISE = "judge.pairwise"
RIGHT, PARTLY, WRONG = "Refunds are paid within 5 days.", "Refunds take 5 days.", "Refunds are paid within 9 days."
# The answer of this evaluation, that of the baseline, and which is better.
PAIRS = [
    (RIGHT, WRONG, "win"),
    (PARTLY, WRONG, "win"),
    (WRONG, RIGHT, "loss"),
    (WRONG, "Refunds are paid within 8 days.", "tie"),
    (RIGHT, RIGHT, "identical"),
]


def rows(side: int, pairs: Any = None) -> list[dict[str, Any]]:
    pairs = PAIRS if pairs is None else pairs
    return [
        {"key": f"q{number:03}", "message": f"Question {number}?", "expected": RIGHT, "answer": pair[side]}
        for number, pair in enumerate(pairs)
    ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", running.judge_conn_json())
        yield running


@pytest.fixture
def compare(tmp_path: Path) -> Any:
    def compare(pairs: Any = None, folder: str = "evaluations", **arguments: Any) -> dict[str, Any]:
        others = tmp_path / "others.parquet"
        pq.write_table(pa.Table.from_pylist(rows(1, pairs)), others)
        arguments = {"scorers": [PAIRWISE], "baseline": {"answers": str(others)}, **arguments}
        return evaluate(judging(tmp_path / folder, rows(0, pairs), **arguments))

    return compare


def counts_of(head: dict[str, Any]) -> dict[str, Any]:
    counts: dict[str, Any] = summary_of(head)["scorers"][PAIRWISE]["judge"]["pairs"]
    return counts


def test_wins_ties_and_losses_are_counted_and_compared(server: SandboxServer, compare: Any) -> None:
    head = compare()
    # Four pairs in two orders; the identical answers are not asked about.
    assert asked(server) == 8
    assert counts_of(head) == {
        "pairs": 5, "wins": 2, "losses": 1, "ties": 1, "order_changed": 0, "identical": 1, "errors": 0,
        "first_preferred": 0.5,
    }  # fmt: skip
    assert [row["score"] for row in pq.read_table(head["scores_path"]).to_pylist()] == [1, 1, -1, 0, 0]
    summary = summary_of(head)
    compared = summary["comparison"]["scorers"][PAIRWISE]
    assert [compared[name] for name in ("paired", "better", "unchanged", "worse")] == [5, 2, 2, 1]
    assert compared["mean"] == pytest.approx(0.2)
    assert compared["low"] < 0.2 < compared["high"]
    assert [change["key"] for change in compared["worst"]] == ["q002"]
    verdicts = pq.read_table(Path(head["scores_path"]).with_name("verdicts.parquet")).to_pylist()
    assert [(row["key"], row["verdict"]) for row in verdicts[:4]] == [
        ("q000", "first"), ("q000", "second"), ("q001", "first"), ("q001", "second"),
    ]  # fmt: skip
    judge = summary["scorers"][PAIRWISE]["judge"]
    assert judge["input_tokens"] == sum(row["input_tokens"] for row in verdicts)
    page = Path(head["report_path"]).read_text()
    assert "The judge read 4 pairs of answers in both orders." in page
    assert "This answer first: the second is better." in page


def test_a_pair_with_one_verdict_is_an_error_and_not_a_tie(server: SandboxServer, compare: Any) -> None:
    server.service.faults.add("status:400", path="/chat/completions", body="Question 3", times=1)
    head = compare()
    counts = counts_of(head)
    assert (counts["pairs"], counts["ties"], counts["errors"]) == (5, 0, 1)
    compared = summary_of(head)["comparison"]["scorers"][PAIRWISE]
    assert (compared["paired"], compared["unchanged"]) == (4, 1)
    [row] = [row for row in pq.read_table(head["scores_path"]).to_pylist() if row["outcome"] == "error"]
    assert (row["key"], row["score"]) == ("q003", None)
    assert "could not be judged" in Path(head["report_path"]).read_text()
    # A retry pays for the missing verdict only, and then writes the same bytes as one that never failed.
    before = asked(server)
    again = compare()
    assert asked(server) - before == 1
    assert counts_of(again)["errors"] == 0
    whole = compare(folder="whole")
    assert files_below(Path(again["scores_path"]).parent) == files_below(Path(whole["scores_path"]).parent)


def test_max_judge_tokens_counts_pairs_and_single_answers_together(server: SandboxServer, compare: Any) -> None:
    many = [(f"Refunds take {number} days.", WRONG, "") for number in range(20)]
    judge = {"max_concurrency": 2, "max_judge_tokens": 12_000}
    scorers = ["judge.tone", PAIRWISE]
    with pytest.raises(AssistantJudgeLimitError, match=r"Known: [0-9]+ of 60 verdicts"):
        compare(many, scorers=scorers, judge=judge)
    first = asked(server)
    assert 20 < first < 60
    compare(many, scorers=scorers)
    # 40 requests about pairs, and one for each answer of both sides.
    assert asked(server) == 40 + 20 + 20


def test_labels_are_counted_before_the_answers_of_the_baseline_cost_anything(
    server: SandboxServer, compare: Any
) -> None:
    gate = ["judge.correctness agreement >= 0.6 on >= 20 labels"]
    with pytest.raises(AssistantInputError, match="needs 20 labels, and only 0"):
        compare(scorers=["judge.correctness", PAIRWISE], gate=gate)
    assert asked(server) == 0


def test_repetitions_are_pairs_and_a_question_counts_once(server: SandboxServer, tmp_path: Path) -> None:
    def repeated(*answers: str) -> list[dict[str, Any]]:
        return [
            {"key": "q", "message": "?", "expected": RIGHT, "answer": text, "repetition": number}
            for number, text in enumerate(answers, start=1)
        ]

    others = tmp_path / "others.parquet"
    pq.write_table(pa.Table.from_pylist(repeated(WRONG, WRONG)), others)
    operator = judging(tmp_path, repeated(RIGHT, WRONG, RIGHT), scorers=[PAIRWISE], baseline={"answers": str(others)})
    head = evaluate(operator)
    counts = counts_of(head)
    assert (counts["pairs"], counts["wins"], counts["identical"]) == (2, 1, 1)
    summary = summary_of(head)
    assert summary["scorers"][PAIRWISE]["not_applicable"] == 1
    assert summary["comparison"]["scorers"][PAIRWISE]["paired"] == 1
    assert summary["comparison"]["scorers"][PAIRWISE]["mean"] == 0.5
