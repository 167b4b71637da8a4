"""
Serve the reports of evaluations on Airflow's API server, to users with access to the task's XComs.

The pages are needed because browsers do not open ``file:`` links of a web page, and Airflow's UI does not show such
links. The path of a report never comes from the request; it is the path that the task pushed to XCom. DAG authors can
push any value, so only files with the name and the generator tag of a report are served, with headers that block
scripts and external resources.
"""

from __future__ import annotations

import logging
from inspect import signature
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from airflow.providers.common.compat.sdk import ObjectStoragePath
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Path, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from sqlalchemy import select

from airflow_provider_assistant.evaluation.report import GENERATOR
from airflow_provider_assistant.evaluation.run_directory import REPORT
from airflow_provider_assistant.operators.links import base_path

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
# XCom keys with the result of an evaluation, with and without multiple_outputs.
KEYS = ("report_path", "return_value")
may_see = requires_access_dag("GET", DagAccessEntity.XCOM)

router = APIRouter(dependencies=[Depends(may_see)])


class _NotShown(Exception):
    """The report cannot be shown. The message explains why to the user."""


@router.get("/reports/{dag_id}/{run_id}/{task_id}/{map_index}")
def report(
    dag_id: str, run_id: str, task_id: str, map_index: Annotated[int, Path(ge=-1)], region: UUID | None = None
) -> Response:
    """
    Return the report of an evaluation as an HTML page, or 404 with the reason as plain text.

    :param dag_id: The DAG.
    :param run_id: The DAG run.
    :param task_id: The task that evaluated.
    :param map_index: Index of a mapped task, or -1; with ``region``, the index in the region.
    :param region: Region of the task (Airflow 3.4). Iterations of a loop differ only in their region.
    """
    try:
        page = _read(_place_of(dag_id, run_id, task_id, map_index, region))
        back = f'<p><a href="{_task_page(dag_id, run_id, task_id, map_index, region)}">Back to the task</a></p>'
        return HTMLResponse(page.replace(b"<body>\n", f"<body>\n{back}\n".encode(), 1), headers=HEADERS)
    except _NotShown as reason:
        return PlainTextResponse(f"{reason}\n", status_code=404, headers=HEADERS)


def _task_page(dag_id: str, run_id: str, task_id: str, map_index: int, region: UUID | None) -> str:
    """Return the path of the task's page in Airflow's UI; of its DAG run for an iteration of a loop."""
    run = f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
    mapped = "" if map_index < 0 else f"/mapped/{map_index}"
    base = base_path()
    return f"{base}{run}" if region else f"{base}{run}/tasks/{quote(task_id, safe='')}{mapped}"


def _place_of(dag_id: str, run_id: str, task_id: str, map_index: int, region: UUID | None) -> str:
    """Return the path of the report that the task pushed to XCom."""
    statement = _xcoms(dag_id, run_id, task_id, map_index, region)
    with create_session() as session:
        pushed = {row.key: XComModel.deserialize_value(row) for row in session.scalars(statement) if row.key in KEYS}
    result = pushed.get("return_value")
    place: Any = pushed.get("report_path") or (result.get("report_path") if isinstance(result, dict) else None)
    if not isinstance(place, str):
        raise _NotShown("This task has no report. It wrote none, or it was cleared since.")
    return place


def _xcoms(dag_id: str, run_id: str, task_id: str, map_index: int, region: UUID | None) -> Any:
    """Return a query for the XComs of one task instance."""
    if "region_id" not in signature(XComModel.get_many).parameters:
        mine = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        return select(XComModel).filter_by(**mine)
    # Airflow 3.4 stores XComs in two tables and reads them by region.
    exactly: dict[str, Any] = {} if region is None else {"region_id": region}
    return XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=task_id, map_indexes=map_index, **exactly)


def _read(place: str) -> bytes:
    """Return the content of a report. Raise if this package did not write it."""
    if not place.endswith(f"/{REPORT}") or place.startswith("http"):
        raise _NotShown(f"{place} is not a report of an evaluation.")
    try:
        with ObjectStoragePath(place).open("rb") as file:
            content: bytes = file.read(MAX_BYTES + 1)
    except Exception as error:  # noqa: BLE001 (storages raise any exception)
        # Log only the type: the message may contain details of the storage that the user must not see.
        log.warning("The report %s cannot be read: %s", place, type(error).__name__)
        raise _NotShown(
            f"The report is {place}, but this API server cannot read it ({type(error).__name__}). If it is on the disk "
            "of a worker, set output_path to a storage that both can reach."
        ) from None
    if GENERATOR.encode() not in content[:1000] or len(content) > MAX_BYTES:
        raise _NotShown(f"{place} is not a report of an evaluation.")
    return content
