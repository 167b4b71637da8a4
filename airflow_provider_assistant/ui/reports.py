"""
Serve the reports of evaluations on Airflow's API server, to users with access to the task's XComs.

The pages are needed because browsers do not open ``file:`` links of a web page, and Airflow's UI does not show such
links. The path of a report never comes from the request; it is the path that the task pushed to XCom. DAG authors can
push any value, so only files with the name of a report and the tags of one of this DAG are served, with headers that
block scripts and external resources.
"""

from __future__ import annotations

import logging

from fastapi import APIRouter, Depends, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from airflow_provider_assistant.evaluation.report import GENERATOR, owner_tag
from airflow_provider_assistant.evaluation.runs import REPORT
from airflow_provider_assistant.operators.links import base_path
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.files import OpenFile, UnreadableError, shown, within
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


@router.get(f"/reports{TASK_PATH}")
def report(key: TaskKeyDep) -> Response:
    """Return the report of an evaluation as an HTML page, or 404 with the reason as plain text."""
    try:
        path = _report_path(key)
        page = within(key.dag_id, lambda: _read(path, key.dag_id), what=shown(path))
        back = f'<p><a href="{base_path()}{key.path}">Back to the task</a></p>'
        return HTMLResponse(page.replace(b"<body>\n", f"<body>\n{back}\n".encode(), 1), headers=HEADERS)
    except UnreadableError as reason:
        return PlainTextResponse(f"{reason}\n", status_code=404, headers=HEADERS)


def _report_path(key: TaskKey) -> str:
    """Return the path of the report that the task pushed to XCom."""
    result = result_of(key)
    if result.problem:
        raise UnreadableError(f"This task has no report. {result.problem.text}")
    path = result.items.get("report_path")
    if not isinstance(path, str):
        raise UnreadableError("This task has no report. Its result in XCom has no report_path.")
    return path


def _read(path: str, dag_id: str) -> bytes:
    """
    Return the content of a report.

    :raises UnreadableError: It cannot be read, or a task of this DAG did not write it.
    """
    refused = UnreadableError(f"{shown(path)} is not a report of an evaluation of this DAG.")
    if not path.endswith(f"/{REPORT}"):
        raise refused
    try:
        with OpenFile(path, "reports") as file:
            content = file.read(0, MAX_BYTES + 1)
    except UnreadableError:
        raise
    except Exception as error:  # noqa: BLE001 (storages raise any exception)
        # Log only the type: the message may contain details of the storage that the user must not see.
        log.warning("The report %s cannot be read: %s", shown(path), type(error).__name__)
        raise UnreadableError(
            f"The report is {shown(path)}, but this API server cannot read it ({type(error).__name__}). If it is on "
            "the disk of a worker, set output_path to a storage that both can reach."
        ) from None
    start = content[:1000]
    if len(content) > MAX_BYTES or GENERATOR.encode() not in start or owner_tag(dag_id).encode() not in start:
        raise refused
    return content
