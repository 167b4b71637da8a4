"""The tab of a task instance, and the report of an evaluation."""

from __future__ import annotations

import os
from urllib.parse import quote
from uuid import UUID

import pytest

from airflow_provider_assistant.evaluation.report import GENERATOR, owner_tag
from airflow_provider_assistant.loading.findings import Finding
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.ui import report as reports
from tests.unit.ui.conftest import HOSTILE

ROWS = [{"title": "T", "question": f"Q {n}?", "answer": f"Answer {n}.", "category": "faq"} for n in range(4)]
BAD = [{**ROWS[0], "question": HOSTILE, "answer": " "}, {**ROWS[0], "question": "=1+1", "answer": ""}]
REGION = UUID(int=7)
PLACE = "mine.kb/run%201.0/load/-1"


def place(run, task_id="task", map_index=-1):
    return f"/api/tasks/{run.dag_id}/{quote(run.run_id, safe='')}/{task_id}/{map_index}"


@pytest.mark.promise("pages", "The tab of a task accounts for every row of its tries, and lists the findings.")
def test_a_failed_load_has_its_try_and_its_findings(connection, run_stored, admin):
    run = run_stored(AssistantLoadQAOperator, source=[*ROWS, *BAD], key_columns="question")
    found = admin.get(place(run)).json()
    assert (found["operator"], found["state"], found["problem"]) == ("AssistantLoadQAOperator", "failed", None)
    (load,) = found["tries"]
    counts = load["counts"]
    outcomes = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")
    assert sum(counts[name] for name in outcomes) == counts["rows"] == 6
    assert (load["task_kind"], load["outcome"], counts["rejected"]) == ("load", "failed", 2)
    listed = admin.get(f"{place(run)}/findings").json()
    assert (listed["kinds"], listed["total"]) == ({"rejected": 2}, 2)
    assert [(row["key"], row["row"]) for row in listed["rows"]] == [(HOSTILE, 5), ("=1+1", 6)]
    assert all(row["reason"] for row in listed["rows"])


def test_findings_are_those_of_the_last_try_filtered_and_paged(admin, fill, known_dags):
    fill.load(hours=1.0, run_id="run 1.0", findings=[Finding("stale", "old", "gone")])
    many = [Finding("rejected", f"r{n}", "empty", n, ["d"]) for n in range(1200)]
    fill.load(hours=0.5, run_id="run 1.0", findings=[Finding("ambiguous", "a", "502"), *many])
    fill.load(hours=0.1, run_id="run 1.0", outcome=None)
    page = admin.get(f"/api/tasks/{PLACE}/findings?limit=2&offset=1").json()
    # The ledger keeps the first 1,000.
    assert (page["kinds"], page["total"]) == ({"ambiguous": 1, "rejected": 999}, 1000)
    assert [(row["key"], row["row"], row["document_ids"]) for row in page["rows"]] == [
        ("r0", 0, ["d"]),
        ("r1", 1, ["d"]),
    ]
    one = admin.get(f"/api/tasks/{PLACE}/findings?kind=ambiguous").json()
    assert (one["total"], [row["key"] for row in one["rows"]]) == (1, ["a"])
    assert admin.get(f"/api/tasks/{PLACE}/findings?kind=stale").json()["total"] == 0


def test_a_task_that_airflow_does_not_know_or_that_is_mapped(admin, run_stored, ledger):
    from airflow.sdk import task

    @task
    def work(_):
        """Do nothing."""

    run = run_stored(lambda: work.expand(_=[1, 2]))
    assert admin.get(place(run, "work")).json()["is_mapped"]
    assert admin.get(place(run, "work", 1)).json()["state"] == "success"
    other = admin.get(place(run, "other")).json()
    assert (other["operator"], other["is_mapped"], other["tries"]) == (None, False, [])
    for index in ("first", "-2", "1.5", "9" * 20):
        assert admin.get(place(run, "work", index)).status_code == 422


def test_an_iteration_of_a_loop_is_found_by_its_region(admin, fill, known_dags):
    for index in range(2):
        region = f"{index}.{UUID(int=7 + index)}"
        fill.load(hours=1.0, run_id="run 1.0", region=region, report="/nowhere/report.html")
    assert len(admin.get(f"/api/tasks/{PLACE}").json()["tries"]) == 2
    (one,) = admin.get(f"/api/tasks/{PLACE}?region={REGION}").json()["tries"]
    assert one["report"] == f"/assistant/reports/mine.kb/run%201.0/load/-1?region={REGION}"
    assert "/nowhere/report.html" in admin.get(one["report"].removeprefix("/assistant")).text
    assert admin.get(f"/api/tasks/{PLACE}?region=1").status_code == 422


# -- reports ----------------------------------------------------------------------------------------------


def page_of(dag_id):
    return f"<!DOCTYPE html>\n{GENERATOR}\n{owner_tag(dag_id)}\n<body>\n<h1>Passed</h1>"


@pytest.fixture
def get(admin, fill, known_dags):
    """Request the report of a task that has recorded a path."""

    hours = iter(range(1000, 0, -1))

    def asked(path):
        recorded = None if path is None else str(path)
        fill.load(hours=next(hours), run_id="run 1.0", task_kind="evaluation", report=recorded)
        return admin.get(f"/reports/{PLACE}")

    return asked


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_of("mine.kb"))
    return path


def test_the_report_is_shown_and_can_do_nothing(get, report):
    for path in (str(report), report.as_uri()):
        shown = get(path)
        assert (shown.status_code, shown.text) == (200, page_of("mine.kb"))
        assert shown.headers["content-type"] == "text/html; charset=utf-8"
        policy = shown.headers["content-security-policy"].split("; ")
        assert {"sandbox", "default-src 'none'"} <= set(policy)
        assert "script" not in "".join(policy)
        assert (shown.headers["x-content-type-options"], shown.headers["cache-control"]) == ("nosniff", "no-store")


def test_a_path_is_not_taken_from_the_request(admin, get, report):
    assert get(None).text.startswith("This task has no report")
    refused = admin.get(f"/reports/{PLACE}", params={"report_path": str(report), "path": str(report)})
    assert refused.status_code == 404
    assert admin.get(f"/reports/{quote(str(report), safe='')}/r/t/-1").status_code in {403, 404}


@pytest.mark.promise("security", "The API server shows no file but the report of the DAG itself.")
def test_only_a_report_of_this_dag_is_shown(get, report, tmp_path, monkeypatch):
    def refusal(path=report):
        refused = get(path)
        assert (refused.status_code, refused.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert "sesame" not in refused.text
        return refused.text

    ours = page_of("mine.kb")
    (tmp_path / "airflow.cfg").write_text(f"{ours} sesame-1234")
    refusal(tmp_path / "airflow.cfg")
    for content in (
        "sesame-1234",
        "<script>sesame-1234</script>",
        " " * 2000 + ours + "sesame-1234",
        page_of("other") + "sesame-1234",
        page_of("") + "sesame-1234",
        f"{GENERATOR} sesame-1234",
    ):
        report.write_text(content)
        refusal()
    report.write_text(f"{ours} sesame-1234")
    monkeypatch.setattr(reports, "MAX_BYTES", len(ours))
    refusal()
    os.truncate(report, 10**12)
    refusal()
    report.unlink()
    (tmp_path / "secret").write_text("sesame-1234")
    report.symlink_to(tmp_path / "secret")
    refusal()
    report.unlink()
    os.mkfifo(report)
    refusal()
    report.unlink()
    report.mkdir()
    refusal()
    places = ["/nowhere/report.html", "nowhere://bucket/report.html", "http://127.0.0.1:1/report.html"]
    places += ["/dev/zero/report.html", "two\nlines/report.html", "x" * 2000 + "/report.html"]
    for path in places:
        assert path.split("/report")[0].split("\n")[0][:250] in refusal(path)


def test_reports_of_a_storage_that_hangs_do_not_keep_the_server(get, report, monkeypatch):
    import threading

    ended = threading.Event()
    monkeypatch.setattr(reports, "SECONDS", 0.05)
    monkeypatch.setattr(reports, "_read", lambda *_: ended.wait(30) or b"")
    assert "cannot read it (TimeoutError)" in get(report).text
    for _ in range(reports.MOST_READS):
        last = get(report).text
    assert "too many other reports" in last
    ended.set()
