"""
The reports of evaluations as pages of Airflow's API server, for users who may see the task's XComs.

A browser opens no file by a link of a web page, and Airflow's UI shows no such link. A path is never taken from a
request: it is what the task itself pushed to XCom. Since the author of a DAG can push anything, only files of that name
that this package made are shown, and their page can run nothing and load nothing.
"""

from __future__ import annotations

import logging
from inspect import signature
from typing import Annotated, Any
from uuid import UUID

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from airflow.providers.common.compat.sdk import ObjectStoragePath
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, Path, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from sqlalchemy import select

from airflow_provider_assistant.evaluation.history import REPORT
from airflow_provider_assistant.evaluation.report import GENERATOR

log = logging.getLogger(__name__)

# A report of 5,000 questions has less than one megabyte.
MAX_BYTES = 10_000_000
HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A cleared task has another report at the same address.
    "Cache-Control": "no-store",
}
# The result of an evaluation, with and without multiple outputs.
KEYS = ("report_path", "return_value")
may_see = requires_access_dag("GET", DagAccessEntity.XCOM)

app = FastAPI(title="Assistant", docs_url=None, redoc_url=None, openapi_url=None)


class _NotShown(Exception):
    """Why there is no report to show, as a sentence for its reader."""


@app.get("/reports/{dag_id}/{run_id}/{task_id}/{map_index}", dependencies=[Depends(may_see)])
def report(
    dag_id: str, run_id: str, task_id: str, map_index: Annotated[int, Path(ge=-1)], region: UUID | None = None
) -> Response:
    """
    Show the report of an evaluation.

    :param dag_id: Of the task that evaluated.
    :param run_id: The DAG run.
    :param task_id: The task.
    :param map_index: -1, the index of a mapped task, or in a region, the index in it.
    :param region: The region of the task in Airflow 3.4, where iterations of a loop differ by nothing else.
    """
    try:
        return HTMLResponse(_read(_place_of(dag_id, run_id, task_id, map_index, region)), headers=HEADERS)
    except _NotShown as reason:
        return PlainTextResponse(f"{reason}\n", status_code=404, headers=HEADERS)


def _place_of(dag_id: str, run_id: str, task_id: str, map_index: int, region: UUID | None) -> str:
    """Return the path of the report, as the task pushed it."""
    statement = _xcoms(dag_id, run_id, task_id, map_index, region)
    with create_session() as session:
        left = {row.key: XComModel.deserialize_value(row) for row in session.scalars(statement) if row.key in KEYS}
    result = left.get("return_value")
    place: Any = left.get("report_path") or (result.get("report_path") if isinstance(result, dict) else None)
    if not isinstance(place, str):
        raise _NotShown("This task has no report: it came to none, or it was cleared since.")
    return place


def _xcoms(dag_id: str, run_id: str, task_id: str, map_index: int, region: UUID | None) -> Any:
    """Return a query for the XComs of one task instance."""
    if "region_id" not in signature(XComModel.get_many).parameters:
        mine = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        return select(XComModel).filter_by(**mine)
    # Airflow 3.4 keeps XComs in two tables, and reads them by region.
    exactly: dict[str, Any] = {} if region is None else {"region_id": region}
    return XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=task_id, map_indexes=map_index, **exactly)


def _read(place: str) -> bytes:
    """Return a report; it was made by this package, or is not shown."""
    if not place.endswith(f"/{REPORT}") or place.startswith("http"):
        raise _NotShown(f"{place} is no report of an evaluation.")
    try:
        with ObjectStoragePath(place).open("rb") as file:
            content: bytes = file.read(MAX_BYTES + 1)
    except Exception as error:  # noqa: BLE001 (storages raise what they like)
        # Its text may say more about a storage than who reads this should know.
        log.warning("The report %s cannot be read: %s", place, type(error).__name__)
        raise _NotShown(
            f"The report is {place}, and this API server cannot read it ({type(error).__name__}). Is it on the disk of "
            "a worker? An output_path on storage that both can reach shows it here."
        ) from None
    if GENERATOR.encode() not in content[:1000] or len(content) > MAX_BYTES:
        raise _NotShown(f"{place} is no report of an evaluation.")
    return content
