"""
Serve the reports of evaluations on Airflow's API server, to users with access to the task's XComs.

The pages are needed because browsers do not open ``file:`` links of a web page. The path of a report never comes from
the request: the task recorded it in the ledger. DAG authors can write any path there, so only files with the name of a
report and the tags of one of this DAG are served, with headers that block scripts and external resources.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from concurrent.futures import Future
from pathlib import Path

from airflow.providers.common.compat.sdk import ObjectStoragePath
from fastapi import APIRouter, Depends, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from airflow_provider_assistant.evaluation.report import GENERATOR, owner_tag
from airflow_provider_assistant.evaluation.runs import REPORT
from airflow_provider_assistant.storage.opening import local_path
from airflow_provider_assistant.texts import escaped, shortened
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.ledger import read
from airflow_provider_assistant.ui.models import UnavailableError
from airflow_provider_assistant.ui.tasks import TASK_PATH, TaskKey, TaskKeyDep, tries_of_task

log = logging.getLogger(__name__)

# Bytes. A report of 5,000 questions has less than one megabyte.
MAX_BYTES = 10_000_000
# Seconds that a page waits for a report, and reports that are read at the same time: a storage that hangs keeps a
# thread.
SECONDS, MOST_READS = 10.0, 4
HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # After a task is cleared, the same URL shows another report.
    "Cache-Control": "no-store",
}

router = APIRouter(dependencies=[Depends(may_see_task)])
_reads = threading.BoundedSemaphore(MOST_READS)


@router.get(f"/reports{TASK_PATH}")
def report(key: TaskKeyDep) -> Response:
    """Return the report of an evaluation as an HTML page, or 404 with the reason as plain text."""
    try:
        path = _path(key)
        return HTMLResponse(_within_seconds(path, key.dag_id), headers=HEADERS)
    except UnavailableError as reason:
        return PlainTextResponse(f"{reason}\n", status_code=404, headers=HEADERS)


def _path(key: TaskKey) -> str:
    """Return the path of the report of the latest try that has one."""
    rows, problem = read(lambda connection: tries_of_task(connection, key))
    paths = [row["report"] for row in rows or () if row["report"]]
    if not paths:
        raise UnavailableError(problem or "This task has no report: it has not evaluated anything, or it was pruned.")
    path: str = paths[-1]
    return path


def _within_seconds(path: str, dag_id: str) -> bytes:
    """Read a report in a thread, for which the page does not wait long: the server's threads are for all requests."""
    if not _reads.acquire(blocking=False):
        raise UnavailableError("The API server is reading too many other reports. Try again in a minute.")
    future: Future[bytes] = Future()

    def run() -> None:
        try:
            future.set_result(_read(path, dag_id))
        except BaseException as error:  # noqa: BLE001 (it is raised again below)
            future.set_exception(error)
        finally:
            _reads.release()

    threading.Thread(target=run, name="assistant-report", daemon=True).start()
    try:
        return future.result(SECONDS)
    except UnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 (storages raise any exception)
        # Log only the type: the message may contain details of the storage that the user must not see.
        cause = type(error).__name__
        log.warning("The report %s cannot be read: %s", _shown(path), cause)
        raise UnavailableError(
            f"The report is {_shown(path)}, but this API server cannot read it ({cause}). If it is on the disk of a "
            "worker, set output_path to a storage that both can reach."
        ) from None


def _read(path: str, dag_id: str) -> bytes:
    """
    Return the content of a report.

    :raises UnavailableError: A task of this DAG did not write it.
    """
    content = b""
    # Requests to web servers from the API server's network are not for DAG authors to choose.
    if path.endswith(f"/{REPORT}") and not path.lower().startswith(("http:", "https:")):
        storage_path = ObjectStoragePath(path)
        local = local_path(storage_path)
        if local is not None:
            content = _read_regular(local)
        else:
            with storage_path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    start = content[:1000]
    if len(content) > MAX_BYTES or GENERATOR.encode() not in start or owner_tag(dag_id).encode() not in start:
        raise UnavailableError(f"{_shown(path)} is not a report of an evaluation of this DAG.")
    return content


def _read_regular(path: Path) -> bytes:
    """Read a file; nothing if it is a folder, a pipe or a device."""
    # If it is a pipe, this does not wait for the other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _shown(path: str) -> str:
    return shortened(escaped(path), 300)
