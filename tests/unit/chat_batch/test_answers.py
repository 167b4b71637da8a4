"""The output table: one row per question, for every outcome and every kind of additional column."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_assistant.chat_batch import answers
from airflow_provider_assistant.chat_batch.answers import (
    COLUMNS,
    QUESTION_ID,
    counts,
    joined,
    published,
    questions_table,
)
from airflow_provider_assistant.chat_batch.requests import FinishedRequest
from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.exceptions import AssistantStorageError

MOMENT = datetime(2026, 11, 21, 3, 4, 5, 678901, tzinfo=UTC)
FACTS = {"submitted": 3, "reused": 0, "findings": None}


def ended(name, status="complete", **changes):
    fields = {
        "question_id": name, "request_id": name, "status": status, "text": f"Answer to {name}", "error": None,
        "raw": json.dumps({"status": status}), "ended_at": MOMENT.timestamp() + 10, "seconds": 10.0, "polls": 2,
    }  # fmt: skip
    fields |= changes
    times = {
        "latency": fields["seconds"], "noticed_after": fields["seconds"] + 2, "latency_source": "service",
        "latency_error": 0.0,
    }  # fmt: skip
    return FinishedRequest(**times | fields)


def submitted(names, **changes):
    """Return the columns of questions with these request ids; None is a question that was not submitted."""
    columns = {
        "key": [str(number) for number in range(len(names))],
        "repetition": [1] * len(names),
        "turn": [None] * len(names),
        "message": ["?"] * len(names),
        "error": [None] * len(names),
        "request_id": list(names),
        "session_id": ["s"] * len(names),
        "submitted_at": [name and MOMENT for name in names],
        "attempts": [1 if name else 0 for name in names],
        QUESTION_ID: list(names),
    }
    return columns | changes


def written(tmp_path, columns, passthrough=None):
    state = BatchState(str(tmp_path / "state"))
    state.write_questions(questions_table(columns, passthrough or {}, FACTS))
    return state.read_questions()


def table_of(tmp_path, names, ends, passthrough=None, **changes):
    return joined(written(tmp_path, submitted(names, **changes), passthrough), {end.question_id: end for end in ends})


@pytest.mark.promise("chat", "Every question has its row in the answers, whatever happened to it.")
def test_every_question_has_its_row_in_order(tmp_path):
    ends = [
        ended("c"),
        ended("a"),
        ended("b", "failed", text=None, error="no idea"),
        ended("d", "lost", text=None, error="404", raw=None),
    ]
    errors = [None, None, None, None, None, "rejected: column 'message' is empty", None]
    table = table_of(tmp_path, ["a", "b", "c", "d", "e", None, None], ends, {"n": list(range(7))}, error=errors)
    assert table.column_names == [*COLUMNS, "n"]
    rows = table.to_pylist()
    assert [row["n"] for row in rows] == list(range(7))
    assert [row["status"] for row in rows] == [
        "complete", "failed", "complete", "lost", "timed_out", "not_submitted", "not_submitted",
    ]  # fmt: skip
    assert [row["answer"] for row in rows] == ["Answer to a", None, "Answer to c", None, None, None, None]
    assert [row["error"] for row in rows] == [
        None,
        "no idea",
        None,
        "404",
        "it did not end before the deadline, and may still complete",
        "rejected: column 'message' is empty",
        "not sent: the task had stopped",
    ]
    assert [row["polls"] for row in rows] == [2, 2, 2, 2, None, 0, 0]
    assert [row["attempts"] for row in rows] == [1, 1, 1, 1, 1, 0, 0]
    assert rows[0]["submitted_at"] == MOMENT
    assert rows[0]["completed_at"] == MOMENT + timedelta(seconds=10)
    assert (rows[4]["submitted_at"], rows[4]["completed_at"], rows[4]["seconds"]) == (MOMENT, None, None)
    assert json.loads(rows[1]["raw"]) == {"status": "failed"}
    assert rows[3]["raw"] is None


def test_the_columns_have_the_same_types_whatever_is_in_them(tmp_path):
    some = table_of(tmp_path, ["a", None], [ended("a")])
    none = table_of(tmp_path, [None, None], [])
    assert some.schema.remove_metadata() == none.schema.remove_metadata()
    moment = pa.timestamp("us", tz="UTC")
    types = dict(zip(some.schema.names, some.schema.types, strict=True))
    assert types == dict.fromkeys(COLUMNS, pa.string()) | {
        "submitted_at": moment, "completed_at": moment, "seconds": pa.float64(), "noticed_after": pa.float64(),
        "seconds_error": pa.float64(), "confidence_score": pa.float64(),
        "polls": pa.int32(), "attempts": pa.int32(), "repetition": pa.int32(), "turn": pa.int32(),
    }  # fmt: skip


def test_duplicate_questions_share_one_answer(tmp_path):
    rows = table_of(tmp_path, ["a", "b", "a"], [ended("a")]).to_pylist()
    assert [row["answer"] for row in rows] == ["Answer to a", None, "Answer to a"]


PASSTHROUGH = {
    "int": ([1, None, 2**60], pa.int64()),
    "float": ([1.5, None, 2.0], pa.float64()),
    "bool": ([True, False, None], pa.bool_()),
    "text": (["a", None, "ü🕘"], pa.string()),
    "date": ([date(2026, 1, 2), None, date(1, 1, 1)], pa.date32()),
    "decimal": ([Decimal("1.50"), None, Decimal("12.25")], pa.decimal128(4, 2)),
    "list": ([["a", "b"], [], None], pa.list_(pa.string())),
    "struct": ([{"a": 1}, {"a": 2}, None], pa.struct([("a", pa.int64())])),
}


@pytest.mark.parametrize("kind", PASSTHROUGH)
def test_other_columns_keep_their_type(kind, tmp_path):
    values, expected = PASSTHROUGH[kind]
    table = table_of(tmp_path, ["a", "b", "c"], [], {"x": values})
    answers.publish(table, ObjectStoragePath(str(tmp_path / "out.parquet")), "scope", {})
    column = pq.read_table(tmp_path / "out.parquet")["x"]
    assert column.type == expected
    assert column.to_pylist() == values


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, "a", None], ["1", "a", None]),
        ([2**70, 1, None], [str(2**70), "1", None]),
        (["half \ud83d", "b", None], ["half \\ud83d", "b", None]),
        ([{}, {}, None], ["{}", "{}", None]),
        ([[{}], [], None], ["[{}]", "[]", None]),
        ([{1: 2}, [3], None], ['{"1": 2}', "[3]", None]),
        (["é", ["é", "it's"], [["a"], "b"]], ["é", '["é", "it\'s"]', '[["a"], "b"]']),
        ([True, 1, None], ["True", "1", None]),
    ],
)
def test_values_without_a_common_type_become_text(values, texts, tmp_path):
    table = table_of(tmp_path, ["a", "b", "c"], [], {"x": values})
    assert table["x"].type == pa.string()
    assert table["x"].to_pylist() == texts


def test_a_lone_surrogate_in_an_answer_becomes_an_escape(tmp_path):
    end = ended("a", text="half \ud83d", error="\ude00", raw='{"answer": "half"}', request_id="\ud800")
    (row,) = table_of(tmp_path, ["a"], [end]).to_pylist()
    assert (row["answer"], row["error"]) == ("half \\ud83d", "\\ude00")
    assert json.loads(row["raw"]) == {"answer": "half"}


def test_the_counts_add_up(tmp_path):
    ends = [ended(str(number), seconds=float(number + 1)) for number in range(100)]
    ends += [ended("f", "failed", seconds=1e6), ended("l", "lost", seconds=1e6)]
    names = [*(str(number) for number in range(100)), "f", "l", "open", None]
    found = counts(table_of(tmp_path, names, ends))
    assert found == {
        "rows": 104, "complete": 100, "failed": 1, "lost": 1, "timed_out": 1, "not_submitted": 1,
        "seconds_p50": 50.5, "seconds_p95": 95.05, "seconds_p99": 99.01,
        "noticed_after_p50": 52.5, "noticed_after_p95": 97.05, "noticed_after_p99": 101.01,
        "seconds_measured": 0, "seconds_unknown": 0, "low_confidence": None, **FACTS,
    }  # fmt: skip


def test_a_latency_has_its_source_and_its_error_and_may_be_unknown(tmp_path):
    measured = {"latency": 14.0, "latency_source": "measured", "latency_error": 4.5}
    unknown = {"latency": None, "latency_source": None, "latency_error": None}
    ends = [ended("a"), ended("b", noticed_after=10.0, **unknown), ended("c", noticed_after=14.0, **measured)]
    table = table_of(tmp_path, ["a", "b", "c"], ends)
    assert table["seconds"].to_pylist() == [10.0, None, 14.0]
    assert table["seconds_source"].to_pylist() == ["service", None, "measured"]
    assert table["seconds_error"].to_pylist() == [0.0, None, 4.5]
    assert table["noticed_after"].to_pylist() == [12.0, 10.0, 14.0]
    found = counts(table)
    assert (found["seconds_p50"], found["noticed_after_p50"]) == (12.0, 12.0)
    assert (found["seconds_measured"], found["seconds_unknown"]) == (1, 1)
    path = ObjectStoragePath(str(tmp_path / "out.parquet"))
    answers.publish(table, path, "mine", {})
    rows = [(name, (str(number), "?", "s")) for number, name in enumerate("abc")]
    assert published(path, "mine", rows) == ends


def test_the_confidence_of_answers_is_in_the_file_and_in_the_counts(tmp_path):
    ends = [
        ended("a", confidence_level="low", confidence_score=0.25),
        ended("b", confidence_level="LOW "),
        ended("c", confidence_level="high", confidence_score=97.5),
        ended("d"),
        ended("e", "failed", text=None, confidence_level="low"),
    ]
    table = table_of(tmp_path, list("abcde"), ends)
    assert table["confidence_level"].to_pylist() == ["low", "LOW ", "high", None, "low"]
    assert table["confidence_score"].to_pylist() == [0.25, None, 97.5, None, None]
    assert counts(table)["low_confidence"] == 2, "the failed one is no answer"
    assert counts(table_of(tmp_path, ["a"], [ended("a")]))["low_confidence"] is None
    nothing = counts(table_of(tmp_path, ["a"], []))
    assert (nothing["seconds_p50"], nothing["seconds_p99"]) == (None, None)
    path = ObjectStoragePath(str(tmp_path / "out.parquet"))
    answers.publish(table, path, "mine", {})
    rows = [(name, (str(number), "?", "s")) for number, name in enumerate("abcde")]
    assert published(path, "mine", rows) == ends[:4]


def test_complete_answers_are_found_again_by_the_same_task_only(tmp_path):
    path = ObjectStoragePath(str(tmp_path / "deep" / "out.parquet"))
    rows = [(name, (str(number), "?", "s")) for number, name in enumerate("abcd")]
    assert published(path, "mine", rows) == []
    ends = [ended("a"), ended("b", "failed"), ended("c", raw=None)]
    answers.publish(table_of(tmp_path, ["a", "b", "c", "d"], ends), path, "mine", {})
    assert published(path, "mine", rows) == [ends[0], ends[2]]
    assert published(path, "mine", [("x", ("2", "?", "s"))]) == [ends[2]._replace(question_id="x")]
    assert published(path, "other", rows) == []


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1", None])
def test_a_file_that_is_not_the_output_of_this_task_is_ignored(content, tmp_path):
    path = tmp_path / "out.parquet"
    if content is None:
        pq.write_table(pa.table({"status": ["complete"]}), path)
    else:
        path.write_bytes(content)
    assert published(ObjectStoragePath(str(path)), "mine", [("a", ("0", "?", "s"))]) == []


def test_a_disk_that_is_full_is_reported(tmp_path):
    (tmp_path / "folder").touch()
    with pytest.raises(AssistantStorageError, match=r"questions\.parquet cannot be written"):
        written(tmp_path / "folder", submitted(["q"]))
