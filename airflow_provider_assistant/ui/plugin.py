"""The Airflow plugin: pages of Airflow's API server."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_assistant.operators.links import PAGES


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """
    Serve the pages, an ASGI application.

    Every process of Airflow imports its plugins, and only the API server needs what is behind this.
    """
    from airflow_provider_assistant.ui.reports import app

    await app(scope, receive, send)


class AssistantPlugin(AirflowPlugin):
    """Shows the reports of evaluations; the button at their task leads there."""

    name = "assistant"
    fastapi_apps = [{"app": pages, "name": "Assistant", "url_prefix": PAGES}]  # noqa: RUF012 (as Airflow declares it)
