"""The Airflow plugin: pages of Airflow's API server."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_assistant.operators.links import PAGES


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """
    Serve the pages as an ASGI application.

    The application is imported on the first request: every Airflow process imports the plugins, but only the API server
    serves pages.
    """
    from airflow_provider_assistant.ui.reports import app

    await app(scope, receive, send)


class AssistantPlugin(AirflowPlugin):
    """Serve the reports of evaluations. The link ``Evaluation report`` of the task opens them."""

    name = "assistant"
    fastapi_apps = [{"app": pages, "name": "Assistant", "url_prefix": PAGES}]  # noqa: RUF012 (as Airflow declares it)
