"""Load operators against the embedded service: created documents, counts and rejected rows."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pandas as pd
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import ObjectStoragePath, task

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
)
from airflow_provider_assistant.loading import load as engine
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.task_runs.context import task_context
from tests.task_runs.finals import kind_of
from tests.unit.loads.loads import ENDS, KEYED, ROWS, counts, listed, load, loaded, loaded_titles, many, render

TEXTS = [{"title": "Returns", "content": "Within 30 days.", "category": "policy"}]
SOURCES = {
    "list": list,
    "pandas": pd.DataFrame,
    "generator": lambda rows: lambda: (pd.DataFrame([row]) for row in rows),
}


@pytest.mark.promise("loads", "Rows of any list, dataframe or generator are created once, however often a load runs.")
@pytest.mark.parametrize("kind", SOURCES)
def test_any_dataframe_arrives_and_arrives_once(kind, service, connection):
    result = load(SOURCES[kind](ROWS))
    assert {name: result[name] for name in ("site_id", "rows", "created", "source", "findings")} == {
        "site_id": "acme-docs", "rows": 2, "created": 2, "source": "dag.load", "findings": None,
    }  # fmt: skip
    assert loaded(service) == ROWS
    assert counts(load(SOURCES[kind](ROWS), run_id="again")) == {"unchanged": 2}
    assert service.posts() == 2


def test_text_documents(service, connection, run_operator):
    run = run_operator(AssistantLoadTextOperator, source=TEXTS)
    assert run.state == "success"
    assert set(run.xcom()) == {
        "rows", *ENDS, "drafts", "changed", "possibly_duplicated", "stale", "activated", "deactivated", "deleted",
        "not_activated", "not_removed", "left_out", "requests", "throttled", "seconds", "rows_per_second", "site_id",
        "source", "findings",
    }  # fmt: skip
    (document,) = service.documents()
    assert (document["kind"], document["title"], document["content"], document["category"]) == (
        "text", "Returns", "Within 30 days.", "policy",
    )  # fmt: skip


@pytest.mark.promise("loads", "Rows that look like templates are loaded as they are.")
@pytest.mark.parametrize("how", ["given", "from another task", "mapped"])
def test_rows_that_look_like_templates_arrive_as_they_are(how, service, connection, run_operator):
    rows = [dict(ROWS[0], answer="Write {{ undefined }} for the day, {% raw %} to quote, {# note #} to remark.")]

    def build():
        @task
        def read():
            return rows

        if how == "mapped":
            AssistantLoadQAOperator.partial(task_id="task", **KEYED).expand(source=[rows, ROWS[1:]])
        else:
            AssistantLoadQAOperator(task_id="task", source=rows if how == "given" else read())

    run = run_operator(build)
    assert run.state == "success", run.errors
    assert loaded(service) == [*rows, *(ROWS[1:] if how == "mapped" else [])]


def test_mapped_tasks_share_the_ledger_and_judge_nothing_stale(service, connection, run_operator):
    def build():
        AssistantLoadQAOperator.partial(task_id="task", **KEYED).expand(source=[ROWS, ROWS[:1]])

    run = run_operator(build)
    results = [run.xcom(map_index=index) for index in (0, 1)]
    assert sum(result["created"] for result in results) == 2
    assert [result["stale"] for result in results] == [None, None]
    assert loaded(service) == ROWS


def test_another_site_is_another_place(service, connection):
    assert load(ROWS)["site_id"] == "acme-docs"
    assert counts(load(ROWS, site_id="acme-shop")) == {"created": 2}
    assert len(service.documents("acme-shop")) == 2


def test_columns_and_constants(service, connection):
    frame = pd.DataFrame({"topic": ["T"], "body": ["C"], "more": [1]})
    columns = {"title": "topic", "content": "body"}
    load(frame, AssistantLoadTextOperator, columns=columns, constants={"category": "faq"}, key_columns="more")
    (document,) = service.documents()
    assert (document["title"], document["content"], document["category"]) == ("T", "C", "faq")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"source": pd.DataFrame([dict(ROWS[0], answer=3)])}, ["answer is of type int64"]),
        ({"source": [{"title": "T", "question": "Q", "text": "A"}]}, ["no column answer", "title, question, text"]),
        ({"source": ROWS, "columns": {"answer": "reply"}}, ["no column reply"]),
        ({"source": ROWS, "key_columns": ["id"]}, ["no column id"]),
        ({"source": ROWS, "columns": {"content": "answer"}}, ["content", "set columns={'answer': 'content'}"]),
        ({"source": ROWS, "columns": {"content": "text"}}, ["content", "QADocument has title, question"]),
        ({"source": ROWS, "columns": {"title": "title"}, "constants": {"title": "T"}}, ["title", "constants"]),
        ({"source": ROWS, "constants": {"category": " "}}, ["category", "empty"]),
        ({"source": []}, ["no rows"]),
        ({"source": pd.DataFrame(columns=list(ROWS[0]), dtype=str)}, ["no rows"]),
        ({"source": [ROWS[0], "row"]}, ["row", "does not exist"]),
        ({"source": "rows.parquet"}, ["rows.parquet", "does not exist"]),
        ({"source": {"title": "T"}}, ["dataframe", "dict"]),
        ({"source": None}, ["source", "None"]),
        ({"source": [*ROWS, dict(ROWS[0], answer="other")], **KEYED}, ["1 key ", "row 1, row 3"]),
        ({"source": [ROWS[0] | {"id": 1}, ROWS[1] | {"id": "1.0"}], "key_columns": "id"}, ["'1' in row 1, row 2"]),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_named_before_any_request(options, parts, service, connection):
    with pytest.raises(AssistantInputError) as caught:
        load(**options)
    for part in parts:
        assert part in str(caught.value)
    assert service.journal() == []


@pytest.mark.promise("loads", "Rows that cannot be loaded are listed with the reason, and all others are loaded.")
def test_bad_rows_are_listed_and_the_rest_is_loaded(service, connection, run_operator, tmp_path):
    rows = [dict(ROWS[0], answer=" "), *ROWS, dict(ROWS[0], question=None), dict(ROWS[0], answer=3)]
    path = tmp_path / "deep" / "rejects.parquet"
    options = {"columns": {"title": "title"}, "findings_path": str(path)}
    run = run_operator(AssistantLoadQAOperator, source=rows, retries=3, **options)
    assert (kind_of(run.error), run.tries()) == (AssistantInputError, 1)
    assert str(path) in str(run.error)
    assert loaded(service) == ROWS
    findings = pq.read_table(path).to_pylist()
    assert [(row["kind"], row["row"]) for row in findings] == [("rejected", 1), ("rejected", 4), ("rejected", 5)]
    assert all(row["reason"] and row["document_ids"] == [] for row in findings)
    assert load(ROWS, findings_path=f"file://{path}", run_id="fine")["findings"] is None
    assert pq.read_table(path).num_rows == 0


@pytest.mark.parametrize(
    ("bad", "max_rejected", "passes"), [(2, 2, True), (3, 2, False), (2, 0.2, True), (3, 0.2, False)]
)
def test_how_many_rows_may_be_bad(bad, max_rejected, passes, service, connection):
    rows = [dict(row, answer="") if number < bad else row for number, row in enumerate(many(10))]
    if passes:
        assert load(rows, max_rejected=max_rejected)["rejected"] == bad
    else:
        with pytest.raises(AssistantInputError, match=f"{bad} rows"):
            load(rows, max_rejected=max_rejected)
    assert len(service.documents()) == 10 - bad


def test_many_bad_rows_flood_neither_the_log_nor_xcom(service, connection, caplog):
    with caplog.at_level(logging.WARNING, logger=engine.__name__):
        result = load([dict(row, answer="") for row in many(100)], max_rejected=100)
    assert result["rejected"] == 100
    assert sum("is rejected" in message for message in caplog.messages) == engine.LOGGED
    assert pq.read_metadata(result["findings"]).num_rows == 100
    assert len(json.dumps(result)) < 2048


def test_identical_rows_are_sent_once(service, connection):
    assert counts(load(ROWS * 3)) == {"created": 2, "unchanged": 4}
    assert loaded(service) == ROWS


STOPS = {401: AssistantAuthenticationError, 403: AssistantPermissionError, 404: AssistantNotFoundError}


@pytest.mark.parametrize("status", STOPS)
def test_a_refusal_of_the_whole_stops_at_once(status, service, connect, ledger_home):
    connect(retries=3)
    service.answer(f"status:{status}", method="POST", skip=10, times=None)
    with pytest.raises(STOPS[status]):
        load(many(200), max_concurrency=4)
    assert service.posts() <= 10 + 4
    assert len(service.documents()) == 10
    failed = [row for kind, row, _ in listed(ledger_home) if kind == "failed"]
    assert 1 <= len(failed) <= 190
    posts = service.posts()
    service.behave(rules=[])
    assert counts(load(many(200), run_id="again")) == {"unchanged": 10, "created": 190}
    assert service.posts() == posts + 190
    assert len(service.documents()) == 200


@pytest.mark.promise("loads", "A row whose reply was lost is listed, and sent again only if on_ambiguous allows it.")
@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
@pytest.mark.parametrize("fault", ["store-then-status:502", "drop", "truncate"])
def test_what_an_unclear_answer_becomes(fault, on_ambiguous, service, connect, ledger_home, quick):
    service.behave(allow_duplicates=True)
    connect(retries=2)
    stores = not fault.startswith(("status", "drop"))
    service.answer(fault, body='"T2"', times=1)
    options = {"on_ambiguous": on_ambiguous, "max_concurrency": 1, **KEYED}
    result = load(many(5), **options)
    retried = on_ambiguous == "retry"
    assert counts(result) == ({"created": 5} if retried else {"created": 4, "ambiguous": 1})
    assert result["possibly_duplicated"] == retried
    assert listed(ledger_home) == [("possibly_duplicated" if retried else "ambiguous", 3, "T2")]
    assert loaded_titles(service).count("T2") == stores + retried
    again = load(many(5), run_id="again", **options)
    assert counts(again) == ({"unchanged": 5} if retried else {"unchanged": 4, "ambiguous": 1})
    posts = service.posts()
    load(many(5), run_id="settled", **(options | {"on_ambiguous": "retry"}))
    assert set(loaded_titles(service)) == {row["title"] for row in many(5)}
    assert service.posts() - posts == {"retry": 0, "skip": 1}[on_ambiguous]


@pytest.mark.parametrize("on_change", ["create", "skip", "fail"])
def test_changed_content(on_change, service, connection, ledger_home):
    service.behave(allow_duplicates=True)
    load(ROWS, **KEYED)
    (old,) = (row["id"] for row in service.documents() if row["title"] == ROWS[0]["title"])
    changed = [dict(ROWS[0], answer="From 8."), ROWS[1]]
    if on_change == "fail":
        with pytest.raises(Exception, match=r"Opening hours.*has changed"):
            load(changed, on_change=on_change, run_id="changed", **KEYED)
        assert service.posts() == 2
    else:
        result = load(changed, on_change=on_change, run_id="changed", **KEYED)
        ends = {"unchanged": 1} | ({"created": 1} if on_change == "create" else {"skipped": 1})
        assert counts(result) == ends
        assert result["changed"] == (on_change == "create")
        (finding,) = pq.read_table(result["findings"]).to_pylist()
        assert finding["kind"] == ("superseded" if on_change == "create" else "skipped")
        assert finding["document_ids"] == [old]
        assert service.posts() == 2 + (on_change == "create")
    posts = service.posts()
    # The first document has the content again.
    assert counts(load(ROWS, run_id="reverted", **KEYED)) == {"unchanged": 2}
    assert service.posts() == posts
    assert len(service.documents()) == {"create": 3, "skip": 2, "fail": 2}[on_change]


def test_a_change_the_service_refuses_leaves_the_old_document_done(service, connection):
    load(ROWS, **KEYED)
    service.answer("status:400", method="POST")
    changed = [dict(ROWS[0], answer="From 8."), ROWS[1]]
    assert counts(load(changed, run_id="b", max_rejected=1, **KEYED)) == {"rejected": 1, "unchanged": 1}
    assert counts(load(ROWS, run_id="c", **KEYED)) == {"unchanged": 2}
    result = load(changed, run_id="d", **KEYED)
    assert (counts(result), result["changed"]) == ({"created": 1, "unchanged": 1}, 1)


def test_what_the_source_no_longer_has_is_stale(service, connection, ledger_home):
    assert load(many(4), **KEYED)["stale"] == 0
    result = load(many(2), run_id="less", **KEYED)
    assert (counts(result), result["stale"]) == ({"unchanged": 2}, 2)
    ids = {row["title"]: row["id"] for row in service.documents()}
    findings = pq.read_table(result["findings"]).to_pylist()
    assert sorted((row["kind"], row["row"], row["key"], tuple(row["document_ids"])) for row in findings) == [
        ("stale", None, "T2", (ids["T2"],)), ("stale", None, "T3", (ids["T3"],)),
    ]  # fmt: skip
    assert load(many(2), run_id="other", task_id="other", **KEYED)["stale"] == 0
    assert load(many(2), run_id="named", task_id="other", source_name="dag.load", **KEYED)["stale"] == 2
    assert load(many(4), run_id="back", **KEYED)["stale"] == 0


def test_a_configured_folder_replaces_airflow_home(service, connection, ledger_home, tmp_path, monkeypatch):
    """A worker whose AIRFLOW_HOME is deleted after the task would lose the findings."""
    folder = tmp_path / "findings"
    monkeypatch.setenv("AIRFLOW__ASSISTANT__FINDINGS_FOLDER", folder.as_uri())
    result = load([dict(ROWS[0], answer=""), ROWS[1]], max_rejected=1)
    assert result["findings"] == f"{folder.as_uri()}/dag/load/run.parquet"
    assert pq.read_table(folder / "dag" / "load" / "run.parquet")["kind"].to_pylist() == ["rejected"]
    assert not (ledger_home / "assistant_loads").exists()


def test_a_failed_load_tells_nothing(service, connection, run_operator):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run = run_operator(AssistantLoadQAOperator, source=[{**ROWS[0], "answer": " "}], stored=True)
    assert run.task_state() == "failed"
    with create_session() as session:
        assert session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all() == []


@pytest.mark.parametrize("base", ["", "/airflow"])
def test_findings_are_linked_also_if_the_task_failed(base, service, connection, run_operator, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://localhost:8080{base}")
    run = run_operator(AssistantLoadQAOperator, source=[ROWS[0], {**ROWS[0], "question": "x", "answer": " "}])
    assert run.task_state() == "failed"
    page = f"{base}/dags/{run.dag_id}/runs/{quote(run.run_id, safe='')}/tasks/task/plugin/assistant_task"
    assert run.xcom(key="_link_AssistantFindingsLink") == page
    good = run_operator(AssistantLoadQAOperator, source=ROWS)
    assert good.xcom(key="_link_AssistantFindingsLink") == ""


@pytest.fixture
def quick(monkeypatch):
    """Retries that do not wait."""
    from airflow_provider_assistant.client import retry, throttle

    monkeypatch.setattr(retry.RetryPolicy, "backoff", lambda *_: 0.0)
    monkeypatch.setattr(throttle, "LEAST_JITTER", 0.001)


def test_failed_rows_fail_the_task_and_a_retry_sends_only_those(service, connection, run_operator):
    service.answer("status:503", body='"T[12]"', times=2)
    run = run_operator(AssistantLoadQAOperator, source=many(5), retries=1)
    assert (run.state, run.tries()) == ("success", 2)
    assert isinstance(run.errors[0], AssistantIncompleteError)
    assert "3 created" in str(run.errors[0])
    result = run.xcom()
    assert (counts(result), result["possibly_duplicated"]) == ({"unchanged": 3, "created": 2}, 2)
    assert loaded_titles(service) == [f"T{number}" for number in range(5)]


@pytest.mark.promise("loads", "A retry lists again what an earlier try of the task found.")
def test_a_retry_lists_again_what_an_earlier_try_found(service, connect, ledger_home, quick):
    """The worker of the earlier try, and its file of findings, may be gone."""
    connect(retries=1)
    service.behave(document_status="draft", allow_duplicates=True)
    service.answer("store-then-status:502", body='"T1"')
    for created in (3, 0):
        result = load(many(3), **KEYED)
        assert (result["created"], result["drafts"], result["possibly_duplicated"]) == (created, 3, 1)
        found = sorted((kind, key) for kind, _, key in listed(ledger_home))
        assert found == [("draft", "T0"), ("draft", "T1"), ("draft", "T2"), ("possibly_duplicated", "T1")]


@pytest.mark.promise("loads", "A load that pauses in the triggerer calls its function again, and sends the rest.")
def test_a_long_pause_is_spent_in_the_triggerer(service, connect):
    calls = []

    def rows():
        calls.append(1)
        return many(10)

    service.answer("retry-after:3600", method="POST", skip=3, times=None)
    connect(retries=3, max_concurrency=2)
    operator = render(AssistantLoadQAOperator(task_id="load", source=rows, deferrable=True))
    before = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(task_context("load"))
    path, arguments = caught.value.trigger.serialize()
    assert path.endswith("DateTimeTrigger")
    assert timedelta(0) <= arguments["moment"] - before - timedelta(seconds=3600) < timedelta(minutes=1)
    assert caught.value.method_name == "execute_complete"
    service.behave(rules=[])
    posts = service.posts()
    assert counts(operator.execute_complete(task_context("load"), {})) == {"unchanged": 3, "created": 7}
    assert (service.posts(), len(calls)) == (posts + 7, 2)
    assert len(service.documents()) == 10


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "guides"
    (folder / "nested").mkdir(parents=True)
    (folder / "nested" / "below.txt").write_text("Below.")
    (folder / ".hidden.txt").write_text("not loaded")
    (folder / "_SUCCESS").write_text("not loaded")
    (folder / "b.txt").write_text("Bees make honey.")
    (folder / "a.txt").write_text("# Apples\n\nApples are red.")
    return folder


FILES = ["# Apples\n\nApples are red.", "Bees make honey.", "Below."]


def contents(service):
    return sorted(row["content"] for row in service.documents())


@pytest.mark.parametrize(
    "spelling",
    [
        str,
        lambda path: ObjectStoragePath(f"file://{path}"),
        lambda path: [path / "b.txt", f"{path}/**/*.txt"],
    ],
    ids=["folder", "object storage", "files and patterns"],
)
def test_a_folder_stands_for_all_files_below_it(spelling, folder, service, connection):
    assert counts(load(spelling(folder), AssistantUploadFilesOperator)) == {"created": 3}
    assert {row["kind"] for row in service.documents()} == {"file"}
    assert contents(service) == FILES
    assert counts(load(spelling(folder), AssistantUploadFilesOperator, run_id="again")) == {"unchanged": 3}
    assert service.posts() == 3


def test_a_folder_that_moved_is_the_same(folder, service, connection):
    load(str(folder), AssistantUploadFilesOperator)
    moved = folder.rename(folder.parent / "moved")
    (moved / "b.txt").write_text("Bees make wax.")
    (moved / "a.txt").unlink()
    result = load(str(moved), AssistantUploadFilesOperator, run_id="moved")
    assert (counts(result), result["changed"], result["stale"]) == ({"unchanged": 1, "created": 1}, 1, 1)
