"""A plugin of pytest: fixtures that run operators and DAGs in this process."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.task_runs import BUNDLE
from tests.task_runs.run import Run

# Airflow is imported inside functions: the process that distributes the tests runs none of them.
if TYPE_CHECKING:
    from airflow.sdk import DAG


@pytest.fixture(scope="session")
def _cheap_tasks() -> None:
    """Airflow builds a validator for every rendered field, which takes a fifth of the time of a small task."""
    from airflow.sdk.execution_time import task_runner

    task_runner.TypeAdapter = functools.cache(task_runner.TypeAdapter)


@pytest.fixture(scope="session")
def _airflow_database(_cheap_tasks: None) -> None:
    from airflow import settings
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.sdk.execution_time import supervisor
    from airflow.utils.db import initdb

    from tests.task_runs.execution_api import in_process_api_server, remember_dependants

    settings.initialize()
    initdb()
    DagBundlesManager().sync_bundles_to_db()
    # Without this, dag.test() creates Airflow's API for every task, which takes longer than most of these tests.
    supervisor.in_process_api_server = in_process_api_server
    remember_dependants()


@contextmanager
def _errors_of_tasks() -> Iterator[list[BaseException]]:
    """Collect the errors of tasks; before Airflow 3.3, dag.test() does not pass them to failure callbacks."""
    from airflow.sdk.execution_time import supervisor

    errors: list[BaseException] = []

    def run_and_note(**arguments: Any) -> Any:
        result = run(**arguments)
        if result.error:
            errors.append(result.error)
        return result

    with pytest.MonkeyPatch.context() as patch:
        run = supervisor.run_task_in_process
        patch.setattr(supervisor, "run_task_in_process", run_and_note)
        yield errors


@pytest.fixture
def run_dag(_cheap_tasks: None) -> Callable[..., Run]:
    """Run a DAG with Airflow's API in memory, each task after the others."""
    from tests.task_runs.in_memory import run_in_memory

    return run_in_memory


@pytest.fixture
def run_stored_dag(_airflow_database: None) -> Callable[..., Run]:
    """Run a DAG with Airflow's own ``dag.test()``, for tests that look into Airflow's database or its scheduling."""

    def run(dag: DAG, **options: Any) -> Run:
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from airflow.utils.session import create_session

        from tests.versions import DagSerialization, SerializedDAG

        with create_session() as session:
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [dag], session=session)
            serialized = LazyDeserializedDAG(data=DagSerialization.to_dict(dag))
            SerializedDagModel.write_dag(serialized, BUNDLE, session=session)
        with _errors_of_tasks() as errors:
            ran = dag.test(**options)
        instances = {(ti.task_id, ti.map_index): (str(ti.state), ti.try_number) for ti in ran.get_task_instances()}
        return Run(dag.dag_id, ran.run_id, str(ran.state), instances, errors)

    return run


@pytest.fixture
def run_operator(run_dag: Callable[..., Run], request: pytest.FixtureRequest) -> Callable[..., Run]:
    """
    Run one operator, or the tasks that a function builds, with Airflow's API in memory.

    Each runs in a DAG of its own. Airflow's retries do not wait.
    """
    counter = itertools.count(1)

    def run(operator: Any, **arguments: Any) -> Run:
        return _run_dag_of(run_dag, operator, _dag_id(request, next(counter)), **arguments)

    return run


@pytest.fixture
def run_stored(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """The same with ``dag.test()``, for tests that look into Airflow's database."""
    counter = itertools.count(1)

    def run(operator: Any, **arguments: Any) -> Run:
        run_stored_dag = request.getfixturevalue("run_stored_dag")
        return _run_dag_of(run_stored_dag, operator, _dag_id(request, f"stored_{next(counter)}"), **arguments)

    return run


def _dag_id(request: pytest.FixtureRequest, count: int | str) -> str:
    name = request.node.name.translate(str.maketrans("[]", "__"))[:200]
    # Without dots, which would give the files of exports other names.
    return "".join(char if char.isalnum() or char in "_-" else "_" for char in f"{name}_{count}")


def _run_dag_of(
    run: Callable[..., Run],
    operator: Any,
    dag_id: str,
    *,
    dag_options: dict[str, Any] | None = None,
    run_options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Run:
    from airflow.sdk import DAG

    with DAG(dag_id, schedule=None, **{"default_args": {"retry_delay": timedelta(0)}, **(dag_options or {})}) as dag:
        if isinstance(operator, type):
            # Airflow stores every key of a result separately, which takes 20 ms of processor time per key.
            operator(task_id="task", **{"multiple_outputs": False, **arguments})
        else:
            operator()
    return run(dag, **(run_options or {}))


@pytest.fixture
def ran(run_operator: Callable[..., Run]) -> Callable[..., tuple[Run, Any]]:
    """Run an operator that succeeds; return the run and the final state of the task."""

    def run(kind: type, **arguments: Any) -> tuple[Run, Any]:
        ended: list[Any] = []
        done = run_operator(kind, on_success_callback=lambda context: ended.append(context["task"]), **arguments)
        assert done.state == "success", done.errors
        return done, ended[0]

    return run
