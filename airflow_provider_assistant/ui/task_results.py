"""What Airflow's database has about a task instance: its state, its result, and its rendered arguments."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from dataclasses import dataclass
from inspect import signature
from types import SimpleNamespace
from typing import Annotated, Any
from uuid import UUID

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
from airflow.providers.common.compat.sdk import ObjectStoragePath, conf
from airflow.sdk.bases.xcom import BaseXCom
from airflow.utils.session import create_session
from fastapi import Depends, Path
from fsspec.compression import compr
from fsspec.utils import infer_compression
from sqlalchemy import Text, case, cast, func, select

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.links import task_path
from airflow_provider_assistant.storage.opening import check_inside
from airflow_provider_assistant.ui.files import OpenFile, UnreadableError, within
from airflow_provider_assistant.ui.models import Problem

log = logging.getLogger(__name__)

TASK_PATH = "/{dag_id}/{run_id}/{task_id}/{map_index}"
# Largest result that is read, in characters. Those of this package have some thousand.
LARGEST_RESULT = 1_000_000
NO_RESULT = (
    "This task has no result in XCom: it failed, it was cleared since, it has do_xcom_push=False, or its XComs were "
    "deleted."
)


@dataclass(frozen=True, slots=True)
class TaskKey:
    """
    Identify a task instance.

    :param map_index: Index of a mapped task, or -1; with ``region``, the index in the region.
    :param region: Region of the task (Airflow 3.4). Iterations of a loop differ only in their region.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    region: UUID | None = None

    @property
    def path(self) -> str:
        """Path of its page for the router of Airflow's UI."""
        region = str(self.region) if self.region else None
        return task_path(self.dag_id, self.run_id, self.task_id, self.map_index, region)


def task_key(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: Annotated[int, Path(ge=-1, le=2**31 - 1)],
    region: UUID | None = None,
) -> TaskKey:
    """Return the task instance that a request names."""
    return TaskKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, region=region)


TaskKeyDep = Annotated[TaskKey, Depends(task_key)]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """
    Facts about a task instance.

    :param operator: Class name of its operator; None if Airflow does not know the task instance.
    :param rendered: Its rendered template fields.
    :param is_mapped: Whether the task is mapped, and the key names no mapped task instance.
    """

    operator: str | None = None
    state: str | None = None
    ended_at: Any = None
    rendered: dict[str, Any] | None = None
    is_mapped: bool = False


def facts_of(key: TaskKey) -> TaskFacts:
    """Return the facts about a task instance."""
    with create_session() as session:
        query = select(TaskInstance)
        query = query.filter_by(dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id)
        if key.region and hasattr(TaskInstance, "region_id"):
            query = query.filter_by(region_id=key.region)
        instance = session.scalars(query.filter_by(map_index=key.map_index).limit(1)).first()
        if instance is None:
            # Without an index, the key of a mapped task names none of its task instances.
            mapped_instance = session.scalars(query.limit(1)).first()
            if mapped_instance and key.map_index < 0:
                return TaskFacts(operator=mapped_instance.operator, is_mapped=True)
            return TaskFacts()
        rendered = None
        # Airflow deletes the fields of old runs.
        with contextlib.suppress(Exception):
            rendered = RenderedTaskInstanceFields.get_templated_fields(instance, session=session)
        if not isinstance(rendered, dict):
            rendered = None
        return TaskFacts(
            operator=instance.operator,
            state=instance.state,
            ended_at=instance.end_date,
            rendered=rendered,
        )


@dataclass(frozen=True, slots=True)
class TaskResult:
    """
    What a task instance returned.

    :param items: Empty without a result.
    :param problem: Why there is none, or None.
    """

    items: dict[str, Any]
    problem: Problem | None = None


def result_of(key: TaskKey) -> TaskResult:
    """Return what a task instance returned, as Airflow's XCom backend reads it."""
    try:
        return TaskResult(_read_result(key))
    except UnreadableError as error:
        return TaskResult({}, error.problem)
    except Exception as error:  # noqa: BLE001 (backends and storages raise any exception)
        # Log only the type: the message may contain details of the storage that the user must not see.
        log.warning("The result of %s cannot be read from XCom: %s", key.task_id, type(error).__name__)
        text = f"The result of this task cannot be read from XCom by this API server ({type(error).__name__})."
        return TaskResult({}, Problem(code="unreadable", text=text))


def _read_result(key: TaskKey) -> dict[str, Any]:
    with create_session() as session:
        xcoms = _xcoms(key).subquery()
        # As text: Airflow's own reader would build whatever the text describes.
        text = cast(xcoms.c.value, Text)
        query = select(func.length(text), case((func.length(text) <= LARGEST_RESULT, text)))
        row = session.execute(query.where(xcoms.c.key == XCOM_RETURN_KEY).limit(1)).first()
    if row is None:
        raise UnreadableError(NO_RESULT)
    length, stored = row
    if stored is None:
        raise UnreadableError(f"The result of this task in XCom is too large to be shown: {length or 0} characters.")
    value = strict_json.read(stored.encode("utf-8", "replace")).value
    backend = conf.getimport("core", "xcom_backend") or BaseXCom
    if backend is not BaseXCom:
        # It may wait for a storage, or do anything.
        value = within(key.dag_id, lambda: _from_backend(backend, value), what="The result of this task in XCom")
    elif isinstance(value, str):
        # Airflow's REST API stores JSON as a text.
        with contextlib.suppress(ValueError):
            value = strict_json.read(value.encode("utf-8", "replace")).value
    return value if isinstance(value, dict) else {}


def _from_backend(backend: Any, stored: Any) -> Any:
    """
    Return the value of an XCom, as plain JSON.

    :param stored: What Airflow's database has: the value, or where it is.
    """
    reader = backend.deserialize_value
    if reader.__module__ == "airflow.providers.common.io.xcom.backend":
        return _from_object_storage(stored)
    value = reader(SimpleNamespace(key=XCOM_RETURN_KEY, value=stored))
    text = json.dumps(value, default=str)
    if len(text) > LARGEST_RESULT:
        raise UnreadableError(f"The result of this task in XCom is too large to be shown: {len(text)} characters.")
    return strict_json.read(text.encode("utf-8", "replace")).value


def _from_object_storage(stored: Any) -> Any:
    """Return the value of an XCom of Airflow's backend for object storage, which itself reads a file of any size."""
    folder = conf.get("common.io", "xcom_objectstorage_path", fallback="")
    if not isinstance(stored, str) or "://" not in stored or not folder:
        return stored
    try:
        check_inside(ObjectStoragePath(stored), ObjectStoragePath(folder))
    except AssistantInputError:
        # A task may return any URL.
        return stored
    with OpenFile(stored, "XCom") as file:
        content = file.read(0, LARGEST_RESULT + 1)
    compression = infer_compression(stored)
    if compression:
        with compr[compression](io.BytesIO(content), mode="rb") as unpacked:
            content = unpacked.read(LARGEST_RESULT + 1)
    if len(content) > LARGEST_RESULT:
        raise UnreadableError("The result of this task in XCom is too large to be shown.")
    return strict_json.read(content).value


def _xcoms(key: TaskKey) -> Any:
    """Return a query for the XComs of one task instance."""
    if "region_id" not in signature(XComModel.get_many).parameters:
        return select(XComModel).filter_by(
            dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id, map_index=key.map_index
        )
    # Airflow 3.4 stores XComs in two tables and reads them by region.
    region_filter: dict[str, Any] = {}
    if key.region is not None:
        region_filter["region_id"] = key.region
    return XComModel.get_many(
        run_id=key.run_id,
        dag_ids=key.dag_id,
        task_ids=key.task_id,
        map_indexes=key.map_index,
        **region_filter,
    )
