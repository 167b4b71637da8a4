"""Limits and statistics: XCom values and Parquet datasets."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant import __version__, lake
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantIncompleteExportError,
    AssistantInputError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.live.clients import local_request
from tests.task_runs.finals import kind_of
from tests.wire import Answer, ScriptedService


def test_limits(service, connection, run_operator):
    limits = run_operator(AssistantLimitsOperator).xcom()
    assert set(limits) == {"tenant_id", "raw"}
    assert limits["tenant_id"] == limits["raw"]["tenant_id"] == "acme-inc"
    assert service.seen() == [("GET", "/m2m/tenants/acme-inc/limits")]


def test_statistics_to_parquet(service, connection, run_operator, tmp_path):
    texts = [{"title": title, "content": "C", "category": "policy"} for title in "abc"]
    run_operator(AssistantLoadTextOperator, source=texts)
    now = local_request(
        "GET", f"{service.url}/m2m/sites/acme-docs/statistics", headers={"X-API-Key": "dev-acme-full"}
    ).json()
    reply = now | {"top_categories": [{"category": "größen"}]}
    service.answer("status:200", path="statistics$", reply=reply)
    before = datetime.now(UTC)
    run = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path), date="2026-11-21")
    result = run.xcom()
    name = f"date=2026-11-21/{run.dag_id}.task.parquet"
    assert result["path"] == str(tmp_path / "statistics" / name)
    assert result["raw_path"] == str(tmp_path / "statistics_raw" / name)
    assert (result["site_id"], result["date"]) == ("acme-docs", "2026-11-21")

    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(lake.STATISTICS.schema())
    assert read.num_rows == result["rows"]
    metrics = {row["metric"]: row for row in read.to_pylist()}
    assert metrics["documents.by_kind.text"]["value"] == 3
    assert metrics["top_categories.0.category"]["text"] == "größen"
    assert metrics["chats.sync.answer_rate"]["type"] == "null"
    assert before <= metrics["documents.total"]["captured_at"] <= datetime.now(UTC)
    assert {row["site_id"] for row in metrics.values()} == {"acme-docs"}
    assert {row["tenant_id"] for row in metrics.values()} == {"acme-inc"}
    assert (result["sites"], result["failed"], result["failed_sites"]) == (1, 0, [])
    assert result["bytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    metadata = pq.read_schema(result["path"]).metadata
    assert metadata[b"assistant.version"] == __version__.encode()
    assert [metadata[f"assistant.{name}".encode()].decode() for name in ("dag_id", "run_id", "task_id")] == [
        run.dag_id, run.run_id, "task",
    ]  # fmt: skip

    (raw,) = pq.ParquetFile(result["raw_path"]).read().to_pylist()
    assert json.loads(raw["raw"]) == reply


def test_a_second_run_of_a_day_replaces_it(service, connection, run_dag, tmp_path):
    for _ in range(2):
        with DAG("statistics_twice", schedule=None) as dag:
            AssistantStatisticsToParquetOperator(task_id="task", output_path=str(tmp_path), date="2026-11-21")
        result = run_dag(dag).xcom()
    read = ds.dataset(tmp_path / "statistics", partitioning="hive").to_table()
    assert read.num_rows == result["rows"]
    assert set(read["date"].to_pylist()) == {"2026-11-21"}


def test_an_empty_reply_is_a_row_too(service, connection, run_operator, tmp_path):
    service.answer("empty", path="statistics")
    result = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path)).xcom()
    (row,) = pq.ParquetFile(result["path"]).read().to_pylist()
    assert (row["metric"], row["type"], row["text"]) == ("$", "null", "null")


def test_a_failed_read_leaves_the_old_day(service, connection, run_dag, tmp_path):
    def run():
        with DAG("statistics_failed", schedule=None) as dag:
            AssistantStatisticsToParquetOperator(task_id="task", output_path=str(tmp_path), date="2026-11-21")
        return run_dag(dag)

    path = run().xcom()["path"]
    before = pq.ParquetFile(path).read()
    service.answer("truncate", path="statistics")
    assert run().state == "failed"
    assert pq.ParquetFile(path).read().equals(before)


# -- days ------------------------------------------------------------------------------------------


def test_the_day_is_utc_and_a_backfill_is_told_by_two_columns(service, connection, run_operator, tmp_path):
    berlin = timezone(timedelta(hours=2))
    logical = datetime(2025, 10, 26, 0, 30, tzinfo=berlin)  # the night of the change to winter time
    run = run_operator(
        AssistantStatisticsToParquetOperator, output_path=str(tmp_path), run_options={"logical_date": logical}
    )
    assert run.xcom()["date"] == "2025-10-25"
    rows = pq.ParquetFile(run.xcom()["path"]).read().to_pylist()
    assert {row["logical_date"] for row in rows} == {logical.astimezone(UTC)}
    assert all(datetime.now(UTC) - row["captured_at"] < timedelta(minutes=5) for row in rows)


def test_a_reply_that_comes_after_midnight_stays_in_the_day_of_its_run(
    service, connection, run_operator, tmp_path, monkeypatch
):
    class AfterMidnight(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 11, 22, 0, 0, 0, 1, tzinfo=tz)

    monkeypatch.setattr("airflow_provider_assistant.transfers.statistics_to_parquet.datetime", AfterMidnight)
    logical = datetime(2026, 11, 21, 23, 59, 59, 999999, tzinfo=UTC)
    run = run_operator(
        AssistantStatisticsToParquetOperator, output_path=str(tmp_path), run_options={"logical_date": logical}
    )
    assert run.xcom()["date"] == "2026-11-21"
    for path in (run.xcom()["path"], run.xcom()["raw_path"]):
        assert "date=2026-11-21" in path
        moments = pq.ParquetFile(path).read(["captured_at", "logical_date"]).to_pylist()
        assert {tuple(row.values()) for row in moments} == {(AfterMidnight.now(UTC), logical)}


@pytest.mark.parametrize("day", ["0999-12-31", "0001-01-01", "9999-12-31", "2024-02-29"])
def test_a_day_of_any_year_has_four_digits(day, tmp_path):
    path = lake.publish(
        lake.metrics_table(lake.LIMITS, []), str(tmp_path), "limits", date.fromisoformat(day), "part"
    ).path
    assert f"/date={day}/" in path
    assert ds.dataset(tmp_path / "limits", partitioning="hive").to_table(columns=["date"]).num_rows == 0


@pytest.mark.parametrize("day", ["999-12-31", "2025-02-29", "2026-11-21T00:00:00", "21.11.2026", "", "None"])
def test_a_date_that_is_none_is_refused_before_anything_is_asked(service, connection, run_operator, tmp_path, day):
    arguments = {"output_path": str(tmp_path / "lake"), "params": {"day": day}}
    run = run_operator(AssistantStatisticsToParquetOperator, date="{{ params.day }}", **arguments)
    with pytest.raises(AssistantInputError, match="task 'task': date must be YYYY-MM-DD"):
        raise run.error
    with pytest.raises(AssistantInputError, match="task 'task': date must be YYYY-MM-DD"):
        AssistantStatisticsToParquetOperator(task_id="task", output_path="lake", date=day)
    assert not service.seen()
    assert not (tmp_path / "lake").exists()


# -- limits as a dataset -----------------------------------------------------------------------------


def test_limits_to_parquet(service, connection, run_operator, tmp_path):
    run = run_operator(AssistantLimitsToParquetOperator, output_path=str(tmp_path), date="2026-11-21")
    result = run.xcom()
    path = tmp_path / "limits" / "date=2026-11-21" / f"{run.dag_id}.task.parquet"
    read = pq.ParquetFile(path).read()
    assert result == {
        "rows": read.num_rows,
        "path": str(path),
        "bytes": path.stat().st_size,
        "tenant_id": "acme-inc",
        "gaps": 0,
        "gap_days": [],
        "date": "2026-11-21",
    }
    assert read.schema.equals(lake.LIMITS.schema())
    rows = {row["metric"]: row for row in read.to_pylist()}
    assert rows["limits.documents.used"]["value"] == 0
    assert rows["limits.documents.limit"]["value"] == 1_000_000
    assert rows["plan"]["text"] == "business"
    assert {row["tenant_id"] for row in rows.values()} == {"acme-inc"}


# -- many sites --------------------------------------------------------------------------------------


class Sites(ScriptedService):
    """A service that knows every site. Untemplated sites return the given replies in turn."""

    def __init__(self, **answers):
        super().__init__()
        self.told = {name.replace("_", "-"): list(found) for name, found in answers.items()}
        self.asked = []

    def next(self, request):
        with self._lock:
            *_, site, _statistics = request.path.split("/")
            self.asked.append(site)
            told = self.told.get(site)
            if told:
                return told.pop(0) if len(told) > 1 else told[0]
            return Answer(body={"site_id": site, "top": [{"kind": "qa", "n": 1}], "period": "today"})


@pytest.fixture
def export(ledger_home, monkeypatch, run_operator, tmp_path):
    def exported(sites, site_ids, *, retries=0, run=run_operator, **arguments):
        extra = {"tenant_id": "acme-inc", "site_id": "unused", "retries": retries}
        connection = {"conn_type": "assistant", "host": sites.url, "password": "key-0123456789", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
        options = {"output_path": str(tmp_path / "lake"), "date": "2026-11-21", "site_ids": site_ids, **arguments}
        return run(AssistantStatisticsToParquetOperator, **options)

    return exported


def written(tmp_path, dataset="statistics"):
    return ds.dataset(tmp_path / "lake" / dataset, partitioning="hive").to_table().to_pylist()


NOT_FOUND = Answer(404, {"error": "no such site"})
BROKEN = Answer(503, {"error": "out of order"})
NAMES = [f"site-{number:03}" for number in range(40)]


def test_many_sites_are_one_file(export, tmp_path):
    with Sites() as sites:
        run = export(sites, [*NAMES, NAMES[0]])
    result = run.xcom()
    assert sorted(sites.asked) == NAMES
    assert (result["sites"], result["failed"], result["failed_sites"], result["site_id"]) == (40, 0, [], None)
    assert (result["rows"], result["date"]) == (160, "2026-11-21")
    rows = written(tmp_path)
    assert [row["site_id"] for row in rows] == sorted(NAMES * 4)
    assert {(row["tenant_id"], row["period"]) for row in rows} == {("acme-inc", "today")}
    assert [row["site_id"] for row in written(tmp_path, "statistics_raw")] == NAMES
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_items_of_lists_go_by_name(export, tmp_path):
    with Sites() as sites:
        export(sites, ["a"], list_keys={"top": "kind"})
    assert [row["metric"] for row in written(tmp_path)] == ["period", "site_id", "top.qa.kind", "top.qa.n"]


@pytest.mark.promise("lake and warehouse", "A site that cannot be read does not lose the statistics of other sites.")
@pytest.mark.parametrize("gone", [NOT_FOUND, Answer(403, {}), BROKEN, Answer(body=b"<html>"), Answer(drop=True)])
def test_a_site_that_cannot_be_read_does_not_lose_the_others(export, tmp_path, gone):
    with Sites(site_001=[gone]) as sites:
        run = export(sites, NAMES[:3], max_failed_sites=1)
    assert run.state == "success"
    result = run.xcom()
    assert (result["sites"], result["failed"]) == (3, 1)
    (failed,) = result["failed_sites"]
    assert failed["site_id"] == "site-001"
    assert "site-001" in failed["error"]
    assert {row["site_id"] for row in written(tmp_path)} == {"site-000", "site-002"}


@pytest.mark.parametrize(
    ("allowed", "state"), [(2, "success"), (1, "failed"), (0.5, "success"), (0.49, "failed"), (0, "failed")]
)
def test_how_many_may_fail(export, tmp_path, allowed, state):
    with Sites(site_001=[NOT_FOUND], site_002=[BROKEN]) as sites:
        assert export(sites, NAMES[:4], max_failed_sites=allowed).state == state
    assert {row["site_id"] for row in written(tmp_path)} == {"site-000", "site-003"}


def test_too_many_failures_name_the_sites_and_what_a_retry_does(export, tmp_path):
    with Sites(site_001=[NOT_FOUND], site_002=[BROKEN]) as sites:
        run = export(sites, NAMES[:4], max_failed_sites=1)
    assert kind_of(run.error) is AssistantIncompleteExportError
    for said in ("2 of 4 sites", "max_failed_sites=1", "'site-001'", "'site-002'", "404", "503", "The other 2 are in",
                 "A retry reads all sites again and replaces the day"):  # fmt: skip
        assert said in str(run.error)
    assert str(tmp_path / "lake/statistics/date=2026-11-21") in str(run.error)


def test_what_the_service_refuses_is_not_retried(export):
    with Sites(site_001=[NOT_FOUND], site_002=[Answer(403, {})]) as sites:
        run = export(sites, NAMES[:4])
    assert isinstance(run.error, AssistantIncompleteExportError)
    assert "The service would refuse them again" in str(run.error)


@pytest.mark.promise("lake and warehouse", "An export that reads nothing leaves the day as it was.")
def test_none_that_can_be_read_leaves_the_old_day(export, tmp_path):
    with Sites() as sites:
        export(sites, ["a", "b"])
    before = written(tmp_path)
    with Sites(a=[BROKEN], b=[BROKEN]) as sites:
        run = export(sites, ["a", "b"], max_failed_sites=5)
    assert run.state == "failed"
    assert "the partition is unchanged" in str(run.error)
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(401, {}), AssistantAuthenticationError),
        (Answer(429, {}, {"Retry-After": "3600"}), AssistantRateLimitError),
    ],
)
def test_what_concerns_all_sites_fails_at_once(export, tmp_path, answer, error):
    with Sites(site_000=[answer]) as sites:
        run = export(sites, NAMES, retries=4, max_failed_sites=40, max_concurrency=1)
    assert kind_of(run.error) is error
    assert sites.asked == ["site-000"]
    assert not (tmp_path / "lake").exists()


def test_no_sites_are_an_empty_day(export, tmp_path):
    with Sites() as sites:
        assert export(sites, []).xcom()["rows"] == 0
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


@pytest.mark.parametrize("site_ids", ["a,b", {"a": 1}, ["a", None], ["a", ""], 7, [7.5]])
def test_sites_that_are_no_list_of_names_are_refused(export, site_ids):
    with Sites() as sites:
        with pytest.raises(AssistantInputError) as caught:
            export(sites, site_ids)
        assert caught.value.field == "site_ids"
        run = export(sites, "{{ params.sites }}", params={"sites": site_ids})
    assert isinstance(run.error, AssistantInputError)
    assert run.error.field == "site_ids"
    assert not sites.asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"site_id": "a", "site_ids": ["b"]}, "not both"),
        ({"max_failed_sites": -1}, "max_failed_sites"),
        ({"max_concurrency": 0}, "max_concurrency"),
    ],
)
def test_arguments_are_checked_when_the_dag_is_read(arguments, said):
    with pytest.raises(AssistantInputError, match=said):
        AssistantStatisticsToParquetOperator(task_id="task", output_path="lake", **arguments)


def test_xcom_stays_small_however_many_sites_fail(export):
    names = [f"größe-{number:04}" for number in range(300)]
    with Sites() as sites:
        sites.told = {"gr%C3%B6%C3%9Fe" + name[5:]: [Answer(404, {"error": "ö" * 500})] for name in names}
        result = export(sites, ["good", *names], max_failed_sites=300).xcom()
    assert len(json.dumps(result)) < 8192
    assert result["failed"] == 300
    assert 1 < len(result["failed_sites"]) < 300


def test_the_error_names_some_sites_and_counts_the_others(export):
    with Sites(**{name: [NOT_FOUND] for name in NAMES}) as sites:
        run = export(sites, NAMES, max_failed_sites=0.9)
    assert "and 30 more" in str(run.error)
    assert len(str(run.error)) < 1200
