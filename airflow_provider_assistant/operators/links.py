"""Links of the operators in the UI. Airflow calls ``get_link`` when a task ends or defers, in any state."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, ObjectStoragePath

from airflow_provider_assistant.observability.lineage import dataset_name

# URL prefix of this package's pages on Airflow's API server.
PAGES = "/assistant"
# Route of this package's tab on the page of a task instance.
TASK_TAB = "assistant_task"
# Airflow 3.3 shows only links to web pages, so object storage URLs become links to the provider's console.
CONSOLES = {
    "s3": "https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={key}",
    "gs": "https://console.cloud.google.com/storage/browser/{bucket}/{key}",
}


def base_path() -> str:
    """Return the path of Airflow's base URL without a final slash: empty, or a prefix such as ``/airflow``."""
    from airflow.providers.common.compat.sdk import conf

    base_url = conf.get("api", "base_url", fallback="") or ""
    # Without the host, which may have several names.
    return urlsplit(base_url).path.rstrip("/")


def task_path(
    dag_id: str, run_id: str | None, task_id: str | None, map_index: int | None, region: str | None = None
) -> str:
    """
    Return the path of a task instance's page for the router of Airflow's UI.

    :param dag_id: The DAG.
    :param run_id: The DAG run.
    :param task_id: The task.
    :param map_index: Index of a mapped task, or -1.
    :param region: Region of an iteration of a loop (Airflow 3.4), whose path is that of the DAG run. Default: None.
    """
    run_path = f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id or '', safe='')}"
    if region:
        return run_path
    path = f"{run_path}/tasks/{quote(task_id or '', safe='')}"
    if map_index is None or map_index < 0:
        return path
    return f"{path}/mapped/{map_index}"


class AssistantReportLink(BaseOperatorLink):
    """Link to the report of an evaluation, a page of Airflow's API server."""

    name = "Evaluation report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        Return the URL of the report.

        :param operator: The operator.
        :param ti_key: Key of the task instance.
        :return: A path on the host of Airflow's UI, or an empty string if the task wrote no report.
        """
        if getattr(operator, "report", None) is None:
            return ""
        index = ti_key.map_index
        if index is None:
            index = -1
        # Airflow 3.4: all iterations of a loop have map index -1 and differ in the index in their region.
        # The region of a task outside of loops is the UUID zero.
        region = getattr(ti_key, "region_id", None)
        is_iteration = region is not None and region.int != 0
        if is_iteration:
            index = ti_key.region_index
        ids = (ti_key.dag_id, ti_key.run_id, ti_key.task_id, str(index))
        path = "/".join(quote(id_, safe="") for id_ in ids)
        url = f"{base_path()}{PAGES}/reports/{path}"
        if is_iteration:
            url += f"?region={region}"
        return url


class AssistantFindingsLink(BaseOperatorLink):
    """Link to the findings of a load, on the tab of its task instance."""

    name = "Findings"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        Return the URL of the tab, also if the task failed.

        :param operator: The operator.
        :param ti_key: Key of the task instance.
        :return: A path on the host of Airflow's UI, or an empty string if the load has no findings.
        """
        if not getattr(operator, "listed_findings", None):
            return ""
        page = task_path(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)
        return f"{base_path()}{page}/plugin/{TASK_TAB}"


class AssistantDataLink(BaseOperatorLink):
    """Link to the data that a task wrote: the folder of a dataset, or the file with the answers."""

    name = "Data"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """
        Return the URL of the data.

        :param operator: The operator.
        :param ti_key: Key of the task instance.
        :return: A URL, or an empty string if the task wrote nothing.
        """
        outputs = getattr(operator, "lineage_outputs", ())
        if not outputs:
            return ""
        return browser_url(outputs[-1].uri)


class AssistantRequestLink(BaseOperatorLink):
    """Link to the chat request that a task submitted. The service requires the API key to show it."""

    name = "Chat request"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        """
        Return the URL of the chat request (``…/chat/requests/{request_id}``).

        :param operator: The operator.
        :param ti_key: Key of the task instance.
        :return: A URL, or an empty string if the task submitted nothing.
        """
        request_id = getattr(operator, "request_id", None)
        if not request_id:
            return ""
        return f"{operator.hook.site().url}/chat/requests/{quote(request_id, safe='')}"


def browser_url(uri: str) -> str:
    """
    Return a URL that a browser can open, or the URI itself if there is none.

    :param uri: URI of a file or a folder.
    """
    path = ObjectStoragePath(uri)
    if path.protocol in {"file", ""}:
        return Path(path.path).absolute().as_uri()
    namespace, key = dataset_name(uri)
    scheme, _, bucket = namespace.partition("://")
    if scheme not in CONSOLES:
        return str(path)
    return CONSOLES[scheme].format(bucket=bucket, key=quote(key))
