"""What the page gets about evaluations from the lake, and a lake that cannot be read."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.ui.lake import files_of

TODAY = date(2026, 11, 22)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LAKE_PATH", str(tmp_path / "lake"))
    return str(tmp_path / "lake")


def moment(day, hour=3):
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def publish(folder, dataset, table, day, part="d.t", dag_id="mine.kb"):
    lake.publish(table, folder, dataset, day, part, provenance={"dag_id": dag_id})


def evaluate(folder, number, *, name="golden", dag_id="mine.kb", verdict="passed", high=None, **facts):
    day = TODAY - timedelta(days=number)
    row = dict.fromkeys(lake.EVALUATIONS.schema().names)
    row |= {"name": name, "dag_id": dag_id, "run_id": f"run {number}", "task_id": "judge", "map_index": -1}
    row |= {"asked_at": moment(day), "verdict": verdict, "questions": 10, "answered": 9, "coverage": 0.9}
    row |= {"pass_rate": 0.5 + number / 10, "scorer": "token_f1", "scored": 9, "mean": 0.7, "difference_high": high}
    row |= {"path": "summary.json", **facts}
    publish(
        folder, "evaluations", lake.rows_table(lake.EVALUATIONS, [row]), day, f"{dag_id}.judge.{name}.{number}", dag_id
    )


def test_evaluations_are_a_trend_with_reports(folder, admin, known_dags):
    for number in range(4):
        evaluate(folder, number, verdict="failed" if number == 0 else "passed", high=-0.1 if number == 0 else 0.1)
    evaluate(folder, 1, name="other", dag_id="deleted.kb")
    found = admin.get("/api/evaluations").json()
    assert found["names"] == ["golden", "other"]
    golden = admin.get("/api/evaluations?name=golden&limit=3").json()["rows"]
    assert [row["pass_rate"] for row in golden] == [0.7, 0.6, 0.5]
    last = golden[-1]
    assert (last["verdict"], last["worse"], last["means"]) == ("failed", ["token_f1"], {"token_f1": 0.7})
    assert last["report"] == "/assistant/reports/mine.kb/run%200/judge/-1"
    assert last["task"]["path"] == "/dags/mine.kb/runs/run%200/tasks/judge"
    (other,) = admin.get("/api/evaluations?name=other").json()["rows"]
    assert (other["report"], other["task"]["path"]) == (None, None)


def test_evaluations_are_of_the_selected_site(folder, admin, ledger, known_dags):
    sites = (
        (None, None, None),
        ("a.example", None, "help"),
        ("b.example", "acme", "help"),
        ("a.example", None, "shop"),
    )
    for number, (service, tenant_id, site_id) in enumerate(sites):
        site = {"service": service, "tenant_id": tenant_id, "site_id": site_id}
        evaluate(folder, number, name=f"{site_id} {number}", **site)
    for query, numbers in {
        "": [3, 2, 1, 0],
        "site=help": [2, 1],
        "site=help&service=a.example": [1],
        "site=help&service=b.example": [2],
        "site=shop": [3],
    }.items():
        rows = admin.get(f"/api/evaluations?{query}").json()["rows"]
        assert [(row["name"], row["site_id"]) for row in rows] == [
            (f"{sites[number][2]} {number}", sites[number][2]) for number in numbers
        ]
        gates = admin.get(f"/api/summary?{query}").json()["gates"]
        assert {gate["name"] for gate in gates} == {row["name"] for row in rows}


def test_the_summary_has_the_last_gate_of_each_name(folder, admin, ledger, known_dags):
    evaluate(folder, 0, verdict="passed")
    evaluate(folder, 1)
    evaluate(folder, 3, name="weekly", verdict="failed", scorer="latency", difference_low=0.5)
    gates = admin.get("/api/summary").json()["gates"]
    assert [(gate["name"], gate["verdict"], gate["before"]) for gate in gates] == [
        ("weekly", "failed", None),
        ("golden", "passed", 0.6),
    ]


def test_values_that_no_export_writes_are_left_out(folder, admin, known_dags, tmp_path):
    evaluate(folder, 0, mean=float("nan"), pass_rate=float("inf"))
    evaluate(folder, 1, verdict="odd")
    (row,) = admin.get("/api/evaluations").json()["rows"]
    assert (row["means"], row["pass_rate"]) == ({"token_f1": None}, None)
    # A pipe would never end, and other columns are not those of the dataset.
    os.mkfifo(tmp_path / "lake" / "evaluations" / f"date={TODAY}" / "a.parquet")
    assert admin.get("/api/evaluations").json()["problem"]["code"] == "lake_unreadable"
    (tmp_path / "lake" / "evaluations" / f"date={TODAY}" / "a.parquet").unlink()
    publish(folder, "evaluations", pa.table({"name": [1]}), TODAY)
    assert admin.get("/api/evaluations").json()["problem"]["code"] == "lake_unreadable"


def test_a_replaced_file_is_read_again(folder, admin, known_dags):
    for mean in (0.1, 0.25):
        evaluate(folder, 0, mean=mean)
        assert admin.get("/api/evaluations").json()["rows"][0]["means"] == {"token_f1": mean}


def test_users_see_what_their_dags_wrote(folder, as_user, known_dags):
    evaluate(folder, 0)
    evaluate(folder, 1, name="secret", dag_id="other.kb")
    assert as_user("mine", "ADMIN").get("/api/evaluations").json()["names"] == ["golden"]
    assert as_user("viewer").get("/api/evaluations").json()["names"] == ["golden", "secret"]


def test_without_a_lake_there_is_a_sentence(admin):
    problem = admin.get("/api/evaluations").json()["problem"]
    assert problem["code"] == "no_lake"
    assert "[assistant] lake_path" in problem["text"]


def test_an_empty_lake_is_no_problem(admin, folder):
    assert admin.get("/api/evaluations").json()["problem"] is None


@pytest.mark.parametrize("url", ["nowhere://sesame-1234/lake", "damaged"])
def test_a_lake_that_cannot_be_read_is_a_sentence(url, admin, folder, monkeypatch, tmp_path, caplog):
    if url == "damaged":
        day = tmp_path / "lake" / "evaluations" / "date=2026-11-22"
        day.mkdir(parents=True)
        (day / "d.t.parquet").write_bytes(b"sesame-1234")
    else:
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LAKE_PATH", url)
    problem = admin.get("/api/evaluations").json()["problem"]
    assert problem["code"] == "lake_unreadable"
    assert "[assistant] lake_path" in problem["text"]


def test_only_the_latest_partitions_are_listed(folder, tmp_path):
    for name in ("date=2026-11-20", "date=2026-11-21", "date=2026-11-22", "other", "date=x"):
        day = tmp_path / "lake" / "evaluations" / name
        day.mkdir(parents=True)
        for file in ("a.parquet", ".a.parquet.tmp", "_SUCCESS", "b.csv"):
            (day / file).write_bytes(b"")
    assert [(file.day.day, file.path.rpartition("/")[2]) for file in files_of("evaluations", 2)] == [
        (22, "a.parquet"),
        (21, "a.parquet"),
    ]
