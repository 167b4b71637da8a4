"""The page of a report: access, content and refused files."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.parse import quote
from uuid import UUID

import pytest
from airflow.sdk import task
from fastapi.testclient import TestClient
from sqlalchemy import false, select

from airflow_provider_assistant.evaluation.report import GENERATOR
from airflow_provider_assistant.ui import reports, task_results
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.app import app

REGION = UUID(int=7)
PAGE = f"<!DOCTYPE html>\n{GENERATOR}\n<h1>Passed</h1>"


@pytest.fixture
def client(monkeypatch):
    """A client with access to everything. System tests check access on a running Airflow."""
    monkeypatch.setitem(app.dependency_overrides, may_see_task, lambda: None)
    return TestClient(app)


@pytest.fixture
def get(client, run_operator):
    """Push a value to XCom for a task, and request its report."""

    def asked(result, *, task_id="judge", map_index=-1, multiple_outputs=True):
        @task(task_id="judge", multiple_outputs=multiple_outputs)
        def judge():
            return result

        run = run_operator(judge)
        return client.get(f"/reports/{run.dag_id}/{quote(run.run_id, safe='')}/{task_id}/{map_index}")

    return asked


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(PAGE)
    return path


@pytest.mark.parametrize("multiple_outputs", [True, False])
@pytest.mark.parametrize("spelling", [str, lambda path: path.as_uri()], ids=["path", "uri"])
def test_the_report_is_shown_and_can_do_nothing(spelling, multiple_outputs, get, report):
    shown = get({"report_path": spelling(report)}, multiple_outputs=multiple_outputs)
    assert (shown.status_code, shown.text) == (200, PAGE)
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    policy = shown.headers["content-security-policy"].split("; ")
    assert {"sandbox", "default-src 'none'"} <= set(policy)
    assert "script" not in "".join(policy)
    assert (shown.headers["x-content-type-options"], shown.headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize("base", ["", "/airflow"])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_report_leads_back_to_its_task(is_mapped, base, client, run_operator, report, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://localhost:8080{base}/")
    report.write_text(f"{GENERATOR}\n<body>\n<h1>Passed</h1>")

    @task(multiple_outputs=False)
    def judge(_):
        return {"report_path": str(report)}

    run = run_operator(lambda: judge.expand(_=[1, 2]) if is_mapped else judge(1))
    run_id = quote(run.run_id, safe="")
    shown = client.get(f"/reports/{run.dag_id}/{run_id}/judge/{1 if is_mapped else -1}")
    link = f"{base}/dags/{run.dag_id}/runs/{run_id}/tasks/judge{'/mapped/1' if is_mapped else ''}"
    assert shown.text == f'{GENERATOR}\n<body>\n<p><a href="{link}">Back to the task</a></p>\n<h1>Passed</h1>'


@pytest.mark.parametrize("asked", [{"task_id": "other"}, {"map_index": 0}])
def test_another_task_has_none(asked, get, report):
    refused = get({"report_path": str(report)}, **asked)
    assert (refused.status_code, refused.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert "has no report" in refused.text


@pytest.mark.parametrize("left", [{}, {"report_path": 7}, {"report_path": None}, {"report_path": {"a": "b"}}])
def test_what_is_no_path_is_no_report(left, get):
    assert "has no report" in get(left).text


def test_a_path_is_not_taken_from_the_request(client, report):
    refused = client.get("/reports/d/r/judge/-1", params={"report_path": str(report), "path": str(report)})
    assert refused.status_code == 404
    assert client.get(f"/reports/{quote(str(report), safe='')}/r/t/-1").status_code == 404


def test_other_files_are_not_shown(get, tmp_path):
    (tmp_path / "airflow.cfg").write_text(f"{GENERATOR} sesame-1234")
    refused = get({"report_path": str(tmp_path / "airflow.cfg")})
    assert refused.status_code == 404
    assert "sesame" not in refused.text


@pytest.mark.parametrize("content", ["sesame-1234", "<script>sesame-1234</script>", " " * 2000 + PAGE + "sesame-1234"])
def test_what_this_package_did_not_make_is_not_shown(content, get, report):
    report.write_text(content)
    refused = get({"report_path": str(report)})
    assert refused.status_code == 404
    assert "sesame" not in refused.text


def test_a_link_leads_to_nothing_else(get, report, tmp_path):
    (tmp_path / "secret").write_text("sesame-1234")
    report.unlink()
    report.symlink_to(tmp_path / "secret")
    assert "sesame" not in get({"report_path": str(report)}).text


def test_what_is_too_large_is_not_shown(get, report, monkeypatch):
    monkeypatch.setattr(reports, "MAX_BYTES", len(PAGE) - 1)
    assert get({"report_path": str(report)}).status_code == 404


@pytest.mark.parametrize(
    "place", ["/nowhere/report.html", "nowhere://bucket/report.html", "http://127.0.0.1:1/report.html"]
)
def test_where_it_is_is_said_if_it_cannot_be_read(place, get):
    refused = get({"report_path": place})
    assert (refused.status_code, refused.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert place in refused.text


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


def test_a_word_for_a_number_is_refused(client):
    assert client.get("/reports/d/r/t/first").status_code == 422


def test_nothing_else_is_there(client):
    assert [client.get(path).status_code for path in ("/", "/docs", "/openapi.json", "/reports/d/r/t")] == [404] * 4
