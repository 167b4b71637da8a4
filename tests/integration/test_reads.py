"""Reads of the embedded service: usage, sessions in pages, users and a history, as Airflow runs the exports."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator

USER = "Ada+1@example.com"


@pytest.fixture
def hook(connection):
    hook = AssistantHook()
    yield hook
    hook.client.close()


@pytest.fixture
def busy(hook):
    """A site with seven conversations, three of them with a user's address."""
    for number in range(7):
        email = USER if number < 3 else None
        hook.chat(f"session-{number}", "When are refunds paid?", email=email)
    hook.close_session("session-0")
    return hook


def rows(path):
    return pq.ParquetFile(path).read().to_pylist()


@pytest.mark.parametrize("paging", ["none", "cursor"])
def test_sessions_in_pages(paging, busy, service, run_operator, tmp_path):
    service.behave(page_size={"none": None, "cursor": 3}[paging])
    run = run_operator(AssistantReadToParquetOperator, path="/m2m/sites/acme-docs/sessions", output_path=str(tmp_path))
    result = run.xcom()
    sessions = [json.loads(row["raw"]) for row in rows(result["raw_path"]) if row["item"] is not None]
    # Pages by number are not followed: the reply does not show a next one.
    assert [session["session_id"] for session in sessions] == [f"session-{n}" for n in range(7)]
    assert result["items"] == len(sessions)
    assert result["unread"] == 0
    assert {session["email"] for session in sessions} <= {user_label(USER), None}
    assert "ada" not in json.dumps(rows(result["path"]), default=str).casefold()


def test_a_user_is_only_a_label(busy, service, run_operator, tmp_path):
    run = run_operator(
        AssistantReadToParquetOperator, path=f"/m2m/sites/acme-docs/users/{USER}/statistics", output_path=str(tmp_path)
    )
    result = run.xcom()
    (raw,) = rows(result["raw_path"])
    assert json.loads(raw["raw"])["email"] == raw["user_label"] == user_label(USER)
    assert service.seen()[-1][1].endswith("/statistics")


@pytest.mark.parametrize(("query", "outside"), [(None, 20), ({"days": "10"}, 0)])
def test_a_history_fills_its_days(query, outside, same_day, busy, run_operator, tmp_path):
    """Without a query that the service knows, its reply has the last 30 days."""
    today = datetime.now(UTC).date()
    options = {"path": "/m2m/tenants/acme-inc/usage/history", "date_field": "date", "days": 10}
    options |= {"date": today.isoformat(), "output_path": str(tmp_path)}
    result = run_operator(AssistantReadToParquetOperator, query=query, **options).xcom()
    assert (len(result["paths"]), result["missing"], result["outside"]) == (10, 0, outside)
    values = {row["metric"]: row["value"] for row in rows(result["path"])}
    assert values["sessions"] == 7
