"""The page of a report: access, content and refused files."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from urllib.parse import quote
from uuid import UUID

import pytest
from airflow.sdk import task
from fastapi.testclient import TestClient
from sqlalchemy import false, select

from airflow_provider_assistant.evaluation.report import GENERATOR, owner_tag
from airflow_provider_assistant.ui import files, reports, task_results
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.app import app

REGION = UUID(int=7)


def page_of(dag_id):
    return f"<!DOCTYPE html>\n{GENERATOR}\n{owner_tag(dag_id)}\n<body>\n<h1>Passed</h1>"


@pytest.fixture
def client(monkeypatch):
    """A client with access to everything. System tests check access on a running Airflow."""
    monkeypatch.setitem(app.dependency_overrides, may_see_task, lambda: None)
    return TestClient(app)


@pytest.fixture
def get(client, result):
    """Request the report of a task with a result in XCom."""

    def asked(value, path=None):
        result.put(json.dumps(value))
        return client.get(f"/reports/{path or result.path}")

    return asked


@pytest.fixture
def report(tmp_path, result):
    path = tmp_path / "report.html"
    path.write_text(page_of(result.dag_id))
    return path


def test_the_report_is_shown_and_can_do_nothing(get, result, report, monkeypatch):
    for base, path in (("", str(report)), ("/airflow", report.as_uri())):
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://localhost:8080{base}/")
        shown = get({"report_path": path})
        link = f"{base}/dags/{result.dag_id}/runs/{quote(result.run_id, safe='')}/tasks/task"
        back = f'<body>\n<p><a href="{link}">Back to the task</a></p>\n'
        assert (shown.status_code, shown.text) == (200, page_of(result.dag_id).replace("<body>\n", back))
        assert shown.headers["content-type"] == "text/html; charset=utf-8"
        policy = shown.headers["content-security-policy"].split("; ")
        assert {"sandbox", "default-src 'none'"} <= set(policy)
        assert "script" not in "".join(policy)
        assert (shown.headers["x-content-type-options"], shown.headers["cache-control"]) == ("nosniff", "no-store")


def test_the_report_of_a_mapped_task_leads_back_to_its_task_instance(client, run_stored, tmp_path):
    report = tmp_path / "report.html"

    @task(multiple_outputs=False)
    def judge(_):
        return {"report_path": str(report)}

    run = run_stored(lambda: judge.expand(_=[1, 2]))
    report.write_text(page_of(run.dag_id))
    run_id = quote(run.run_id, safe="")
    shown = client.get(f"/reports/{run.dag_id}/{run_id}/judge/1").text
    assert f'<a href="/dags/{run.dag_id}/runs/{run_id}/tasks/judge/mapped/1">' in shown


def test_without_a_report_the_page_says_why(get, result, report):
    there = {"report_path": str(report)}
    others = [result.path.replace("/task/", "/other/"), result.path.replace("/-1", "/0")]
    refused = [get(there, path) for path in others]
    refused += [get(left) for left in ({}, {"report_path": 7}, {"report_path": None}, {"report_path": {"a": "b"}}, 7)]
    for reply in refused:
        assert (reply.status_code, reply.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert reply.text.startswith("This task has no report. ")


def test_a_path_is_not_taken_from_the_request(client, report):
    refused = client.get("/reports/d/r/judge/-1", params={"report_path": str(report), "path": str(report)})
    assert refused.status_code == 404
    assert client.get(f"/reports/{quote(str(report), safe='')}/r/t/-1").status_code == 404


@pytest.mark.promise("security", "The API server shows no file but the report of the DAG itself.")
def test_only_a_report_of_this_dag_is_shown(get, result, report, tmp_path, monkeypatch):
    def refusal(path=report):
        refused = get({"report_path": str(path)})
        assert (refused.status_code, refused.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert "sesame" not in refused.text
        return refused.text

    (tmp_path / "airflow.cfg").write_text(f"{page_of(result.dag_id)} sesame-1234")
    refusal(tmp_path / "airflow.cfg")
    ours = page_of(result.dag_id)
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
    os.truncate(report, files.LARGEST_FILE + 1)
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
    places += ["/dev/zero/report.html", "nul\0/report.html", "two\nlines/report.html", "x" * 2000 + "/report.html"]
    for place in places:
        assert place.split("/report")[0].split("\0")[0].split("\n")[0][:250] in refusal(place)


@pytest.mark.usefixtures("_airflow_database")
@pytest.mark.parametrize(("asked", "expected"), [("", {}), (f"?region={REGION}", {"region_id": REGION})])
def test_an_iteration_of_a_loop_is_found_by_its_region(asked, expected, client, monkeypatch):
    """Simulate how Airflow 3.4 reads XComs. Older versions have no regions."""
    read = []

    def get_many(*, run_id, dag_ids, task_ids, map_indexes, region_id=None):
        read.append({"region_id": region_id} if region_id else {})
        assert (run_id, dag_ids, task_ids, map_indexes) == ("r", "d", "judge", 2)
        return select(xcom).where(false())

    xcom = task_results.XComModel
    monkeypatch.setattr(task_results, "XComModel", SimpleNamespace(get_many=get_many))
    assert "has no report" in client.get(f"/reports/d/r/judge/2{asked}").text
    assert read == [expected]


def test_what_is_no_region_is_refused(client):
    assert client.get("/reports/d/r/judge/2?region=1").status_code == 422


def test_what_is_no_map_index_is_refused(client):
    for index in ("first", "-2", "1.5", "9" * 20):
        assert client.get(f"/reports/d/r/t/{index}").status_code == 422
