"""
Serve the reports of evaluations on Airflow's API server, to users with access to the task's XComs.

The pages are needed because browsers do not open ``file:`` links of a web page, and Airflow's UI does not show such
links. The path of a report never comes from the request; it is the path that the task pushed to XCom. DAG authors can
push any value, so only files with the name and the generator tag of a report are served, with headers that block
scripts and external resources.
"""

from __future__ import annotations

import logging

from airflow.providers.common.compat.sdk import ObjectStoragePath
from fastapi import APIRouter, Depends, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from airflow_provider_assistant.evaluation.report import GENERATOR
from airflow_provider_assistant.evaluation.run_directory import REPORT
from airflow_provider_assistant.operators.links import base_path
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.task_results import TASK_PATH, TaskKey, TaskKeyDep, result_of

log = logging.getLogger(__name__)

# Bytes. A report of 5,000 questions has less than one megabyte.
MAX_BYTES = 10_000_000
HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # After a task is cleared, the same URL shows another report.
    "Cache-Control": "no-store",
}

router = APIRouter(dependencies=[Depends(may_see_task)])


class _NotShown(Exception):
    """The report cannot be shown. The message explains why to the user."""


@router.get(f"/reports{TASK_PATH}")
def report(key: TaskKeyDep) -> Response:
    """Return the report of an evaluation as an HTML page, or 404 with the reason as plain text."""
    try:
        page = _read(_report_path(key))
        back = f'<p><a href="{base_path()}{key.path}">Back to the task</a></p>'
        return HTMLResponse(page.replace(b"<body>\n", f"<body>\n{back}\n".encode(), 1), headers=HEADERS)
    except _NotShown as reason:
        return PlainTextResponse(f"{reason}\n", status_code=404, headers=HEADERS)


def _report_path(key: TaskKey) -> str:
    """Return the path of the report that the task pushed to XCom."""
    path = result_of(key).get("report_path")
    if not isinstance(path, str):
        raise _NotShown("This task has no report. It wrote none, or it was cleared since.")
    return path


def _read(path: str) -> bytes:
    """Return the content of a report. Raise if this package did not write it."""
    if not path.endswith(f"/{REPORT}") or path.startswith("http"):
        raise _NotShown(f"{path} is not a report of an evaluation.")
    try:
        with ObjectStoragePath(path).open("rb") as file:
            content: bytes = file.read(MAX_BYTES + 1)
    except Exception as error:  # noqa: BLE001 (storages raise any exception)
        # Log only the type: the message may contain details of the storage that the user must not see.
        log.warning("The report %s cannot be read: %s", path, type(error).__name__)
        raise _NotShown(
            f"The report is {path}, but this API server cannot read it ({type(error).__name__}). If it is on the disk "
            "of a worker, set output_path to a storage that both can reach."
        ) from None
    if GENERATOR.encode() not in content[:1000] or len(content) > MAX_BYTES:
        raise _NotShown(f"{path} is not a report of an evaluation.")
    return content
