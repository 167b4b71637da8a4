"""The Airflow plugin: pages in Airflow's UI, and the routes of the API server behind them."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_assistant import __version__
from airflow_provider_assistant.operators.links import PAGES, TASK_TAB, base_path

# Label in the UI. Airflow also uses it as the name of a global variable, which holds the component to render.
PAGE = "Assistant"
# An absolute path: Airflow 3.1 imports it as it is. All pages share one module, because a browser evaluates a module
# once per URL. The version makes browsers load the module of a new release.
BUNDLE = f"{base_path()}{PAGES}/static/assistant.mjs?v={__version__}"
# Operators whose task instances have a tab. Airflow before 3.4 shows the tab for every task.
OPERATORS = [
    "AssistantLoadQAOperator",
    "AssistantLoadTextOperator",
    "AssistantUploadFilesOperator",
    "AssistantChatBatchOperator",
    "AssistantEvaluateOperator",
    "AssistantRateAnswersOperator",
    "AssistantStatisticsToParquetOperator",
    "AssistantLimitsToParquetOperator",
    "AssistantReadToParquetOperator",
    "AssistantFeedbackToParquetOperator",
    "AssistantRequestsToParquetOperator",
    "AssistantLoadsToParquetOperator",
    "AssistantParquetToWarehouseOperator",
    "AssistantRetentionOperator",
]


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """
    Serve the routes as an ASGI application.

    The application is imported on the first request, in a thread: every Airflow process imports the plugins, but only
    the API server serves pages, and it must answer other requests meanwhile.
    """
    module = await asyncio.to_thread(import_module, "airflow_provider_assistant.ui.app")
    await module.app(scope, receive, send)


class AssistantPlugin(AirflowPlugin):
    """The page, the tab of task instances, and the reports of evaluations."""

    name = "assistant"
    fastapi_apps = [{"app": pages, "name": "Assistant", "url_prefix": PAGES}]  # noqa: RUF012 (as Airflow declares it)
    react_apps = [  # noqa: RUF012 (as Airflow declares it)
        {
            "name": PAGE,
            "bundle_url": BUNDLE,
            "destination": "nav",
            "category": "browse",
            "url_route": "assistant",
        },
        {
            "name": PAGE,
            "bundle_url": BUNDLE,
            "destination": "task_instance",
            "url_route": TASK_TAB,
            "applies_to": {"operator": OPERATORS},
        },
    ]
