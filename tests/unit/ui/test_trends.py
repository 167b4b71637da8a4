"""What the page gets from the lake, and a lake that cannot be read."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.ui.lake import files_of

TODAY = date(2026, 11, 22)
PAGES = ("evaluations", "statistics", "limits")


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
        "site=help&service=b.example": [],
        "site=help&service=b.example&tenant=acme": [2],
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
    captures = [lake.Capture(moment(TODAY), '{"chats": 7}', "x", service="h.example", site_id="help")]
    table = lake.metrics_table(lake.STATISTICS, captures)
    values = pa.array([float("nan")] * len(table))
    publish(folder, "statistics", table.set_column(table.schema.names.index("value"), "value", values), TODAY)
    assert admin.get("/api/statistics").json()["series"] == []
    # A pipe would never end, and other columns are not those of the dataset.
    os.mkfifo(tmp_path / "lake" / "statistics" / f"date={TODAY}" / "a.parquet")
    publish(folder, "limits", pa.table({"metric": [1], "value": ["x"]}), TODAY)
    for page in ("statistics", "limits"):
        assert admin.get(f"/api/{page}").json()["problem"]["code"] == "lake_unreadable"


def test_a_replaced_file_is_read_again(folder, admin, known_dags):
    for mean in (0.1, 0.25):
        evaluate(folder, 0, mean=mean)
        assert admin.get("/api/evaluations").json()["rows"][0]["means"] == {"token_f1": mean}


def test_statistics_are_drawn_by_metric_and_site(folder, admin, known_dags):
    for number in range(3):
        day = TODAY - timedelta(days=number)
        raw = {"chats": {"total": 10 + number, "word": "text"}, "users": number}
        raw["daily"] = {day.isoformat(): {"chats": 1}}
        captures = [
            lake.Capture(moment(day, hour), json.dumps(raw), "acme", site, service="h.example")
            for site in ("a", "b")
            for hour in (3, 2)
        ]
        publish(folder, "statistics", lake.metrics_table(lake.STATISTICS, captures), day)
    found = admin.get("/api/statistics?site=a&metric=chats.total&metric=gone").json()
    assert found["gaps"] == []
    assert found["metrics"] == ["chats.total", "users"]
    assert found["series"] == [
        {
            "name": "chats.total",
            "site_id": "a",
            "points": [{"day": f"2026-11-{20 + n}", "value": 12.0 - n} for n in range(3)],
        }
    ]
    assert len(admin.get("/api/statistics").json()["series"]) == 4
    other = lake.Capture(moment(TODAY, 1), '{"chats": {"total": 5}}', "acme", "a", service="staging.example")
    publish(folder, "statistics", lake.metrics_table(lake.STATISTICS, [other]), TODAY, part="other")
    series = admin.get("/api/statistics?site=a&metric=chats.total").json()["series"]
    assert [one["site_id"] for one in series] == ["a on h.example", "a on staging.example"]


def test_feedback_is_counted_by_word(folder, admin, known_dags):
    row = dict.fromkeys(lake.FEEDBACK.schema().names)
    row |= {
        "sent_at": moment(TODAY),
        "service": "h.example",
        "site_id": "a",
        "session_id": "s",
        "request_id": "r",
        "attempts": 1,
    }
    words = ("positive", "positive", "negative")
    publish(folder, "feedback", lake.rows_table(lake.FEEDBACK, [{**row, "rating": word} for word in words]), TODAY)
    assert admin.get("/api/statistics").json()["feedback"] == [
        {"day": "2026-11-22", "ratings": {"positive": 2, "negative": 1}}
    ]
    assert admin.get("/api/statistics?site=b").json()["feedback"] == [{"day": "2026-11-22", "ratings": {}}]


def test_limits_are_paired_with_what_is_used(folder, admin, known_dags):
    older = {"limits": {"documents": {"limit": 50, "used": 1}, "gone": {"limit": 1}}}
    raw = {"limits": {"documents": {"limit": 100, "used": 90, "resets_at": None}, "rate": {"limit": 0.5}}}
    raw |= {"messages_limit": 10, "messages_used": 2, "messages_resets_at": "2026-12-01", "plan": "pro", "max": "x"}
    captures = [
        lake.Capture(moment(TODAY, 1), json.dumps(older), "acme", service="h.example"),
        lake.Capture(moment(TODAY), json.dumps(raw), "acme", service="h.example"),
    ]
    publish(folder, "limits", lake.metrics_table(lake.LIMITS, captures), TODAY)
    rows = admin.get("/api/limits").json()["rows"]
    names = ("name", "used", "limit", "share", "resets_at")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("limits.documents", 90.0, 100.0, 0.9, None),
        ("messages", 2.0, 10.0, 0.2, "2026-12-01"),
        ("limits.rate", None, 0.5, None, None),
    ]


def test_days_without_a_capture_are_gaps(folder, admin, as_user, known_dags):
    days_by_site = {"a": (40, 29, 3, 2, 0), "b": (3, 1)}
    for site, numbers in days_by_site.items():
        for number in numbers:
            day = TODAY - timedelta(days=number)
            captures = [lake.Capture(moment(day), '{"n": 1}', "acme", site, service="h.example")]
            publish(folder, "statistics", lake.metrics_table(lake.STATISTICS, captures), day, part=site)
            publish(folder, "limits", lake.metrics_table(lake.LIMITS, captures), day, site, "other.kb")

    def gaps(path, client=admin):
        days = client.get(path).json()["gaps"]
        return [(TODAY - date.fromisoformat(day)).days for day in days]

    assert gaps("/api/limits") == gaps("/api/statistics") == [*range(28, 3, -1)]
    assert gaps("/api/statistics?site=a") == [*range(28, 3, -1), 1]
    assert gaps("/api/statistics?site=b") == [2]
    assert gaps("/api/statistics?site=c") == []
    assert gaps("/api/limits", as_user("mine", "ADMIN")) == []


def test_users_see_what_their_dags_wrote(folder, as_user, known_dags):
    evaluate(folder, 0)
    evaluate(folder, 1, name="secret", dag_id="other.kb")
    other = lake.metrics_table(
        lake.LIMITS, [lake.Capture(moment(TODAY), '{"a": {"limit": 1}}', "x", service="h.example")]
    )
    publish(folder, "limits", other, TODAY, dag_id="other.kb")
    mine = as_user("mine", "ADMIN")
    assert mine.get("/api/evaluations").json()["names"] == ["golden"]
    assert mine.get("/api/limits").json()["rows"] == []
    assert len(as_user("viewer").get("/api/limits").json()["rows"]) == 1


@pytest.mark.parametrize("page", PAGES)
def test_without_a_lake_there_is_a_sentence(page, admin):
    problem = admin.get(f"/api/{page}").json()["problem"]
    assert problem["code"] == "no_lake"
    assert "[assistant] lake_path" in problem["text"]


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_lake_is_no_problem(page, admin, folder):
    assert admin.get(f"/api/{page}").json()["problem"] is None


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("url", ["nowhere://sesame-1234/lake", "damaged"])
def test_a_lake_that_cannot_be_read_is_a_sentence(page, url, admin, folder, monkeypatch, tmp_path, caplog):
    if url == "damaged":
        for dataset in PAGES:
            day = tmp_path / "lake" / dataset / "date=2026-11-22"
            day.mkdir(parents=True)
            (day / "d.t.parquet").write_bytes(b"sesame-1234")
    else:
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LAKE_PATH", url)
    problem = admin.get(f"/api/{page}").json()["problem"]
    assert problem["code"] == "lake_unreadable"
    assert "[assistant] lake_path" in problem["text"]


def test_only_the_latest_partitions_are_listed(folder, tmp_path):
    for name in ("date=2026-11-20", "date=2026-11-21", "date=2026-11-22", "other", "date=x"):
        day = tmp_path / "lake" / "limits" / name
        day.mkdir(parents=True)
        for file in ("a.parquet", ".a.parquet.tmp", "_SUCCESS", "b.csv"):
            (day / file).write_bytes(b"")
    assert [(file.day.day, file.path.rpartition("/")[2]) for file in files_of("limits", 2)] == [
        (22, "a.parquet"),
        (21, "a.parquet"),
    ]
