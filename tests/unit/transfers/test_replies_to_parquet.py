"""Exports of the statistics, of the limits and of any other reply."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake.datasets import LIMITS, STATISTICS
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.live.clients import local_request
from tests.task_runs.context import execute_operator
from tests.wire import Answer, ScriptedService

USAGE = "/m2m/tenants/acme-inc/usage"
KINDS = {
    AssistantStatisticsToParquetOperator: {},
    AssistantLimitsToParquetOperator: {},
    AssistantReadToParquetOperator: {"path": USAGE, "dataset": "usage"},
}
NIGHT = datetime(2024, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def export(lake):
    """Run an export of a DAG run of a moment."""

    def exported(kind, moment=NIGHT, task_id="export", **arguments):
        operator = kind(task_id=task_id, output_path=str(lake), **KINDS[kind], **arguments)
        return execute_operator(operator, moment=moment)

    return exported


@pytest.fixture
def reply(monkeypatch):
    """Let a service answer every request with a reply."""
    with ScriptedService() as replies:
        fields = {"conn_type": "assistant", "host": replies.url, "password": "key-of-a-test"}
        fields["extra"] = {"tenant_id": "acme-inc", "site_id": "acme-docs"}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))

        def answer(body):
            replies.answers = [Answer(200, json.dumps(body).encode())] * 4

        yield answer


def rows_of(path):
    return pq.ParquetFile(path).read().to_pylist()


def test_limits(service, connection, run_operator):
    limits = run_operator(AssistantLimitsOperator).xcom()
    assert set(limits) == {"tenant_id", "raw"}
    assert limits["tenant_id"] == limits["raw"]["tenant_id"] == "acme-inc"
    assert service.seen() == [("GET", "/m2m/tenants/acme-inc/limits")]


def test_statistics_are_exported_as_rows_and_as_the_reply(service, connection, run_operator, tmp_path):
    texts = [{"title": title, "content": "C", "category": "policy"} for title in "abc"]
    run_operator(AssistantLoadTextOperator, source=texts)
    now = local_request(
        "GET", f"{service.url}/m2m/sites/acme-docs/statistics", headers={"X-API-Key": "dev-acme-full"}
    ).json()
    sent = now | {"top_categories": [{"category": "größen"}]}
    service.answer("status:200", path="statistics$", reply=sent)
    before = datetime.now(UTC)
    run = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path), date="2026-11-21")
    result = run.xcom()
    for name, path in (("statistics", result["path"]), ("statistics_raw", result["raw_path"])):
        assert path.startswith(f"{tmp_path}/{name}/date=2026-11-21/")
        assert "~acme-docs" in path
    assert (result["site_id"], result["date"], result["gaps"]) == ("acme-docs", "2026-11-21", 0)
    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(STATISTICS.schema())
    assert read.num_rows == result["rows"]
    rows = {row["metric"]: row for row in read.to_pylist()}
    assert rows["documents.by_kind.text"]["value"] == 3
    assert rows["top_categories.0.category"]["text"] == "größen"
    assert before <= rows["documents.total"]["captured_at"] <= datetime.now(UTC)
    assert {(row["site_id"], row["tenant_id"]) for row in rows.values()} == {("acme-docs", "acme-inc")}
    assert result["bytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    metadata = pq.read_schema(result["path"]).metadata
    assert metadata[b"assistant.version"] == __version__.encode()
    made_by = [metadata[f"assistant.{name}".encode()].decode() for name in ("dag_id", "run_id", "task_id")]
    assert made_by == [run.dag_id, run.run_id, "task"]
    (raw,) = rows_of(result["raw_path"])
    assert json.loads(raw["raw"]) == sent


def test_limits_are_exported(service, connection, run_operator, tmp_path):
    result = run_operator(AssistantLimitsToParquetOperator, output_path=str(tmp_path), date="2026-11-21").xcom()
    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(LIMITS.schema())
    rows = {row["metric"]: row for row in read.to_pylist()}
    assert rows["limits.documents.limit"]["value"] == 1_000_000
    assert {(row["tenant_id"], row["site_id"]) for row in rows.values()} == {("acme-inc", None)}
    assert (result["tenant_id"], result["rows"], result["date"]) == ("acme-inc", read.num_rows, "2026-11-21")


def test_any_other_reply_is_exported_without_e_mail_addresses(reply, export, lake):
    reply({"users": [{"email": "jane@acme.com", "jane@acme.com": {"chats": 1, "words": 2}}], "chats": 1.10})
    result = export(AssistantReadToParquetOperator)
    assert result["path"].startswith(f"{lake}/usage/date=2024-05-01/")
    rows = {row["metric"]: row["text"] for row in rows_of(result["path"])}
    assert rows["chats"] == "1.1"
    label = user_label("jane@acme.com")
    assert rows["users.0.email"] == label
    assert {name for name in rows if label in name} == {f"users.0.{label}.chats", f"users.0.{label}.words"}
    assert "jane" not in str(rows)
    other = AssistantReadToParquetOperator(
        task_id="t", output_path=str(lake), path="/m2m/users/jane%40acme.com/usage", dataset="usage"
    )
    path = execute_operator(other, moment=NIGHT)["path"]
    assert "jane" not in path
    assert path != result["path"]


@pytest.mark.parametrize("name", ["", "Usage", "a b", "statistics", "partitions", "feedback_daily", "../x", "1a"])
def test_the_name_of_a_dataset_is_checked_when_the_dag_is_read(name):
    with pytest.raises(AssistantInputError, match="task 't': dataset "):
        AssistantReadToParquetOperator(task_id="t", output_path="lake", path=USAGE, dataset=name)


@pytest.mark.promise("lake and warehouse", "A day is in a dataset once, whatever task exports it and however often.")
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_of_a_day_replaces_it(kind, reply, export, lake):
    for number, task_id in enumerate(("export", "export", "renamed")):
        reply({"n": number, f"only_{number}": 1})
        result = export(kind, task_id=task_id)
        assert result["rows"] == 2
    dataset = KINDS[kind].get("dataset") or kind.__name__.removeprefix("Assistant").partition("To")[0].lower()
    read = ds.dataset(lake / dataset, partitioning="hive").to_table().to_pylist()
    assert [(row["metric"], row["date"]) for row in read] == [("n", "2024-05-01"), ("only_2", "2024-05-01")]


def test_sites_do_not_replace_each_other(reply, export, lake):
    reply({"n": 1})
    for site_id in ("one", "two", "one"):
        export(AssistantStatisticsToParquetOperator, site_id=site_id)
    read = ds.dataset(lake / "statistics").to_table()
    assert sorted(read["site_id"].to_pylist()) == ["one", "two"]


def test_an_empty_reply_is_a_row_too(service, connection, export):
    service.answer("empty", path="statistics")
    (row,) = rows_of(export(AssistantStatisticsToParquetOperator)["path"])
    assert (row["metric"], row["type"], row["text"]) == ("$", "null", "null")


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_read_leaves_the_old_day(kind, service, connection, export):
    service.answer("status:200", path="usage$", reply={"n": 1})
    path = export(kind)["path"]
    before = rows_of(path)
    service.answer("truncate", path="statistics|limits|usage", times=None)
    with pytest.raises(Exception, match="Nothing was written: the partition is unchanged"):
        export(kind)
    assert rows_of(path) == before


# -- days ------------------------------------------------------------------------------------------


def test_the_day_is_utc_and_a_backfill_is_told_by_two_columns(service, connection, run_operator, tmp_path):
    berlin = timezone(timedelta(hours=2))
    logical = datetime(2025, 10, 26, 0, 30, tzinfo=berlin)  # the night of the change to winter time
    run = run_operator(
        AssistantStatisticsToParquetOperator, output_path=str(tmp_path), run_options={"logical_date": logical}
    )
    assert run.xcom()["date"] == "2025-10-25"
    rows = rows_of(run.xcom()["path"])
    assert {row["logical_date"] for row in rows} == {logical.astimezone(UTC)}
    assert all(datetime.now(UTC) - row["captured_at"] < timedelta(minutes=5) for row in rows)


@pytest.mark.parametrize("kind", [AssistantStatisticsToParquetOperator, AssistantLimitsToParquetOperator])
def test_days_without_a_capture_are_gaps(kind, connection, export, capsys):
    def gaps(moment, **arguments):
        result = export(kind, moment, **arguments)
        return result["gaps"], result["gap_days"]

    assert gaps(NIGHT) == gaps(NIGHT) == gaps(NIGHT + DAY) == (0, [])
    assert "has no rows for" not in capsys.readouterr().out
    for _ in range(2):
        assert gaps(NIGHT + DAY * 4) == (2, ["2024-05-03", "2024-05-04"])
    assert "has no rows for 2 days (2024-05-03, 2024-05-04): no run" in capsys.readouterr().out
    assert gaps(NIGHT) == gaps(None, date="2024-05-06") == (0, [])
    count, named = gaps(NIGHT + DAY * 104)
    assert (count, len(named), named[-1]) == (98, 31, "2024-06-06")


@pytest.mark.parametrize("day", ["999-12-31", "2025-02-29", "2026-11-21T00:00:00", "21.11.2026", "", "None"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_date_that_is_none_is_refused_before_anything_is_asked(kind, service, connection, run_operator, lake, day):
    arguments = {"output_path": str(lake), "params": {"day": day}, **KINDS[kind]}
    run = run_operator(kind, date="{{ params.day }}", **arguments)
    with pytest.raises(AssistantInputError, match="task 'task': date must be YYYY-MM-DD"):
        raise run.error
    with pytest.raises(AssistantInputError, match="task 'task': date must be YYYY-MM-DD"):
        kind(task_id="task", output_path="lake", date=day, **KINDS[kind])
    assert not service.seen()
    assert not lake.exists()


def test_a_day_of_any_year_has_four_digits(reply, export):
    reply({"n": 1})
    path = export(AssistantLimitsToParquetOperator, date=date(1, 1, 1).isoformat())["path"]
    assert "/date=0001-01-01/" in path
