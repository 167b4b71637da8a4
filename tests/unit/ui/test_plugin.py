"""What the plugin registers."""

from __future__ import annotations

import importlib

import pytest

from airflow_provider_assistant import __version__
from airflow_provider_assistant.operators import chat_batch, documents, evaluation, feedback_batch, retention
from airflow_provider_assistant.transfers import (
    ledger_to_parquet,
    limits_to_parquet,
    parquet_to_warehouse,
    read_to_parquet,
    statistics_to_parquet,
)
from airflow_provider_assistant.ui import plugin


@pytest.mark.parametrize(
    ("base", "prefix"), [("", ""), ("http://localhost:8080", ""), ("https://example.com/airflow/", "/airflow")]
)
def test_the_module_has_an_absolute_path_below_the_base_url(base, prefix, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    try:
        apps = importlib.reload(plugin).AssistantPlugin.react_apps
    finally:
        monkeypatch.undo()
        importlib.reload(plugin)
    assert {app["bundle_url"] for app in apps} == {f"{prefix}/assistant/static/assistant.mjs?v={__version__}"}


def test_pages_are_registered_as_airflow_accepts_them():
    # The name of a class differs between versions of Airflow, its fields do not.
    from airflow.api_fastapi.core_api.datamodels.plugins import ReactAppResponse

    apps = [ReactAppResponse.model_validate(app) for app in plugin.AssistantPlugin.react_apps]
    assert [(app.name, app.destination, app.url_route) for app in apps] == [
        ("Assistant", "nav", "assistant"),
        ("Assistant", "task_instance", "assistant_task"),
    ]


def test_the_tab_is_for_every_operator_that_has_something_to_show():
    modules = (chat_batch, documents, evaluation, feedback_batch, retention)
    modules += (
        ledger_to_parquet,
        limits_to_parquet,
        parquet_to_warehouse,
        read_to_parquet,
        statistics_to_parquet,
    )
    concrete = {
        name
        for module in modules
        for name, found in vars(module).items()
        if isinstance(found, type) and found.__module__ == module.__name__ and name.endswith("Operator")
    }
    # The bases of others.
    assert concrete - {"AssistantLoadRowsOperator", "LedgerExportOperator"} == set(plugin.OPERATORS)
