"""What has another place, or is missing, in some of the Airflow versions that the package supports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
import pytest
from airflow.providers.common.compat.module_loading import import_string

try:
    from airflow.sdk.serde import deserialize, serialize

    serialize_arguments = serialize
except ImportError:  # before 3.2
    from airflow.serialization.serde import deserialize, serialize
    from airflow.serialization.serialized_objects import BaseSerialization

    # The arguments with which a deferred task goes on had a format of their own.
    serialize_arguments = BaseSerialization.serialize

try:
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:  # before 3.2
    from airflow.serialization.serialized_objects import SerializedDAG

    DagSerialization = SerializedDAG

try:
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
except ImportError:  # before 3.2
    from airflow.providers_manager import ProvidersManager as ProvidersManagerTaskRuntime

try:
    from airflow.sdk.lineage import HookLineageCollector
except ImportError:  # before 3.2
    from airflow.lineage.hook import HookLineageCollector

__all__ = [
    "AIRFLOW",
    "SINCE",
    "DagSerialization",
    "HookLineageCollector",
    "ProvidersManagerTaskRuntime",
    "SerializedDAG",
    "airflow_httpx",
    "bag_of",
    "deserialize",
    "import_string",
    "measured_by",
    "needs",
    "read_back",
    "rendered_fields",
    "serialize",
    "serialize_arguments",
]

AIRFLOW = tuple(int(number) for number in airflow.__version__.split(".")[:2])
if TYPE_CHECKING or AIRFLOW < (3, 4):
    import httpx as airflow_httpx
else:
    import httpx2 as airflow_httpx  # the client of Airflow's own requests

# What the package uses where it is there; docs/reference/compatibility.md says what happens where it is not.
SINCE = {
    "declarative connection fields": (3, 2),
    "command line of providers": (3, 2),
    "async def tasks": (3, 2),
    "pandas 3 in XCom": (3, 3),
    "connection form without the hook": (3, 3),
    "retry policy": (3, 3),
    "task loops": (3, 4),
}


def bag_of(path: Path) -> Any:
    """Return the DAGs of a file, as Airflow parses it."""
    if AIRFLOW >= (3, 2):
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(path, bundle_name="tests")
    from airflow.models.dagbag import DagBag

    return DagBag(path)


def read_back(dag: Any) -> Any:
    """Return a DAG as Airflow's UI reads it: with its links, which clearing a task leaves switched off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DagSerialization, "_load_operator_extra_links", True)
        return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def rendered_fields(dag_id: str, run_id: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what the UI shows of the fields of each task of a run, by task id and map index."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    if hasattr(Rendered, "task_instance_id"):  # from 3.4 on, they belong to a try and name no task
        named = select(TaskInstance.task_id, TaskInstance.map_index, Rendered.rendered_fields)
        named = named.join(TaskInstance, TaskInstance.id == Rendered.task_instance_id)
        mine = named.where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    else:
        named = select(Rendered.task_id, Rendered.map_index, Rendered.rendered_fields)
        mine = named.where(Rendered.dag_id == dag_id, Rendered.run_id == run_id)
    with create_session() as session:
        return {(task_id, map_index): fields for task_id, map_index, fields in session.execute(mine)}


def needs(feature: str) -> pytest.MarkDecorator:
    """Skip a test where this Airflow does not have a feature."""
    since = SINCE[feature]
    return pytest.mark.skipif(since > AIRFLOW, reason=f"{feature}: from Airflow {'.'.join(map(str, since))} on")


@contextmanager
def measured_by(backend: Any) -> Iterator[None]:
    """Have Airflow hand its metrics to this backend."""
    if AIRFLOW >= (3, 3):
        from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
        from airflow.sdk.observability import stats

        stats.initialize(factory=lambda: backend, export_legacy_names=False)
        yield
        stats.initialize(factory=NoStatsLogger, export_legacy_names=True)
        return
    from airflow.providers.common.compat.sdk import Stats

    Stats.instance, Stats._instance_pid = backend, os.getpid()
    yield
    Stats.instance = None
