"""Results in XCom: where a deployment keeps them, and values that no task of this package returns."""

from __future__ import annotations

import codecs
import gzip
import json
import random
import threading

import pytest

from airflow_provider_assistant.evaluation.report import GENERATOR, owner_tag
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.ui import files as files_that_tasks_named
from airflow_provider_assistant.ui import task_results
from tests.unit.ui.managers import ShiftedXComs

KINDS = {
    "load": "AssistantLoadQAOperator",
    "chat_batch": "AssistantChatBatchOperator",
    "evaluation": "AssistantEvaluateOperator",
    "export": "AssistantStatisticsToParquetOperator",
    "other": "MyOperator",
}
BATCH = {"rows": 2, "complete": 1, "failed": 1, "timed_out": 0, "lost": 0, "not_submitted": 0, "submitted": 2}
EVALUATION = {
    "name": "golden",
    "verdict": "passed",
    "questions": 3,
    "answered": 3,
    "coverage": 1.0,
    "pass_rate": 0.5,
    "means": {"exact_match": 0.5},
    "worse": ["exact_match"],
    "failed_rules": [],
    "newly_failing": ["refund-abroad"],
}


@pytest.fixture
def files(tmp_path, result):
    """The paths of findings and of a report of the task's DAG."""
    with FindingsFile(tmp_path / "findings.parquet", dag_id=result.dag_id) as file:
        file.add(Finding("rejected", "the key", "reason"))
    report = tmp_path / "report.html"
    report.write_text(GENERATOR + owner_tag(result.dag_id))
    return {"findings": str(tmp_path / "findings.parquet"), "report_path": str(report)}


@pytest.fixture
def shown(admin, result):
    """Return what the pages of the task show: its tab, its findings and the status of its report."""

    def get():
        path = f"/api/tasks/{result.path}"
        replies = [admin.get(path), admin.get(f"{path}/findings"), admin.get(f"{path}/findings.csv")]
        report = admin.get(f"/reports/{result.path}")
        assert {reply.status_code for reply in replies} <= {200, 404}
        assert report.status_code in {200, 404}
        for reply in (*replies, report):
            assert "sesame" not in reply.text
        return replies[0].json(), replies[1].json(), report

    return get


def test_results_are_read_from_object_storage(files, result, shown, monkeypatch, tmp_path):
    folder = tmp_path / "xcoms"
    folder.mkdir()
    module = "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend"
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", module)
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH", folder.as_uri())
    result.operator(KINDS["evaluation"])
    content = json.dumps({**EVALUATION, **files}).encode()
    stored = {"a.json": content, "b.json.gz": gzip.compress(content)}
    for name, stored_bytes in stored.items():
        (folder / name).write_bytes(stored_bytes)
        result.put(json.dumps((folder / name).as_uri()))
        tab, findings, report = shown()
        assert (tab["evaluation"]["verdict"], report.status_code) == ("passed", 200)
        assert [tab["evaluation"][name] for name in ("worse", "newly_failing")] == [["exact_match"], ["refund-abroad"]]
        assert [row["key"] for row in findings["rows"]] == ["the key"]
    # Below the threshold, results stay in the database.
    result.put(content.decode())
    assert shown()[0]["evaluation"]["verdict"] == "passed"
    (tmp_path / "outside.json").write_bytes(content)
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    (folder / "bomb.json.gz").write_bytes(gzip.compress(b" " * 30_000_000))
    (folder / "damaged.json").write_bytes(b"{sesame")
    outside = [(tmp_path / "outside.json").as_uri(), f"{folder.as_uri()}/../outside.json", "nowhere://a/b"]
    inside = [f"{folder.as_uri()}/{name}" for name in ("gone.json", "link.json", "bomb.json.gz", "damaged.json", "")]
    for path in (*outside, *inside, f"{folder.as_uri()}/../../../../../../dev/zero"):
        result.put(json.dumps(path))
        tab, findings, report = shown()
        assert "XCom" in tab["problem"]["text"]
        assert (tab["evaluation"], findings["rows"], report.status_code) == (None, [], 404)
        assert "XCom" in report.text


def test_results_are_read_with_the_backend_of_the_deployment(files, result, shown, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", "tests.unit.ui.managers.ShiftedXComs")
    result.operator(KINDS["evaluation"])
    result.put(json.dumps(codecs.encode(json.dumps({**EVALUATION, **files}), "rot13")))
    tab, findings, report = shown()
    assert (tab["evaluation"]["pass_rate"], findings["total"], report.status_code) == (0.5, 1, 200)
    monkeypatch.setattr(ShiftedXComs, "storage_answers", False)
    failures = {
        "tests.unit.ui.managers.ShiftedXComs": "ConnectionError",
        "tests.unit.ui.managers.Gone": "ConfigException",
    }
    failures["os.path.join"] = "AttributeError"
    for backend, reason in failures.items():
        monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", backend)
        tab, findings, report = shown()
        assert reason in tab["problem"]["text"]
        assert reason in report.text
        assert (tab["evaluation"], findings["rows"]) == (None, [])


def test_a_backend_that_hangs_is_a_sentence(result, shown, monkeypatch):
    answered = threading.Event()
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", "tests.unit.ui.managers.ShiftedXComs")
    monkeypatch.setattr(ShiftedXComs, "deserialize_value", lambda _: answered.wait(60))
    monkeypatch.setattr(files_that_tasks_named, "SECONDS", 0.1)
    monkeypatch.setattr(files_that_tasks_named, "TURN_SECONDS", 0.1)
    result.operator(KINDS["export"])
    try:
        assert "in XCom cannot be read within" in shown()[0]["problem"]["text"]
    finally:
        answered.set()


def test_a_task_that_pushes_no_result_says_so(connection, run_stored, admin, tmp_path):
    run = run_stored(AssistantLimitsToParquetOperator, output_path=str(tmp_path / "lake"), do_xcom_push=False)
    path = f"{run.dag_id}/{run.run_id.replace('+', '%2B')}/task/-1"
    assert "do_xcom_push=False" in admin.get(f"/api/tasks/{path}").json()["problem"]["text"]
    assert admin.get(f"/api/tasks/{path}/findings").json()["path"] is None
    assert "do_xcom_push=False" in admin.get(f"/reports/{path}").text


def odd_value(dice, depth=0):
    """Return a JSON text."""
    kinds = [
        "null",
        "true",
        "-1",
        "0",
        "1e400",
        "NaN",
        "-Infinity",
        "1" * 30,
        "9" * 5000,
        "0.5",
        '"nan"',
        '"7"',
        '"x"',
        '""',
    ]
    kinds += [
        json.dumps("\0\ud800\n" * 3),
        json.dumps("s3://a/" + "b" * 3000),
        '"/tmp/x"',
        '"2026-11-26T00:00:00"',
        "[]",
        "{}",
    ]
    if depth < 3 and dice.random() < 0.4:
        items = [odd_value(dice, depth + 1) for _ in range(dice.randrange(4))]
        if dice.random() < 0.5:
            return f"[{','.join(items)}]"
        names = ["a", "__classname__", "rule", "verdict", "reason", "\ud800"]
        return "{" + ",".join(f"{json.dumps(dice.choice(names))}:{item}" for item in items) + "}"
    return dice.choice(kinds)


@pytest.mark.promise("pages", "The tab of a task is shown whatever the task has returned.")
def test_no_result_is_an_error_of_the_server(result, shown, tmp_path):
    dice = random.Random(20261126)
    paths = ("paths", "path", "raw_path", "output_path", "scores_path", "lake_path", "findings", "report_path")
    names = [*BATCH, *EVALUATION, *paths, "datasets", "seconds_p50", "seconds_p99", "rejected", "low_confidence"]
    whole = [
        "[" * 2000 + "]" * 2000,
        "[" + "[]," * 400_000 + "[]]",
        json.dumps("x" * 2_000_000),
        "{",
        "",
        "null",
        '"{"',
    ]
    whole += [json.dumps({"__classname__": "os.system", "__version__": 1, "__data__": "sesame"}), "[1]", '"[1]"']
    for number in range(3 * len(whole)):
        result.operator(dice.choice(list(KINDS.values())))
        if number < len(whole):
            text = whole[number]
        elif number < 2 * len(whole):
            text = odd_value(dice)
        else:
            items = {name: json.dumps(value) for name, value in {**BATCH, **EVALUATION}.items()}
            for name in dice.sample(names, dice.randrange(1, 6)):
                items[name] = odd_value(dice)
            text = "{" + ",".join(f'"{name}":{value}' for name, value in items.items()) + "}"
            if dice.random() < 0.2 and "\n" not in text:
                # As Airflow's REST API stores it.
                text = json.dumps(text)
        result.put(text)
        shown()


def test_the_result_of_a_large_evaluation_is_shown(result, shown):
    result.operator(KINDS["evaluation"])
    means = {f"scorer {number}": 0.5 for number in range(5000)}
    result.put(json.dumps({**EVALUATION, "means": means, "report_path": None}))
    assert len(shown()[0]["evaluation"]["means"]) == 5000
    result.put(json.dumps({**EVALUATION, "report_path": "x" * task_results.LARGEST_RESULT}))
    assert "too large" in shown()[0]["problem"]["text"]
