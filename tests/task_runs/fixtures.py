"""
A plugin of pytest: two ways to run a task in this process, ``run_operator`` and ``run_dag``.

By default, Airflow's own task runner runs each task, with Airflow's API for workers in memory. With ``stored=True``,
Airflow's ``dag.test()`` does, for tests that look into Airflow's database or its scheduling.
"""

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
    """Airflow builds a validator for every rendered field, which takes 8 of the 33 ms of a small task."""
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


@pytest.fixture
def run_dag(_cheap_tasks: None, request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Run a DAG, each task after the others."""

    def run(dag: DAG, *, stored: bool = False, **options: Any) -> Run:
        from tests.task_runs.in_memory import run_in_memory

        if not stored:
            return run_in_memory(dag, **options)
        request.getfixturevalue("_airflow_database")
        return _run_stored(dag, **options)

    return run


def _run_stored(dag: DAG, **options: Any) -> Run:
    """Run a DAG with ``dag.test()``."""
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


@contextmanager
def _errors_of_tasks() -> Iterator[list[BaseException]]:
    """Collect the errors of tasks; before Airflow 3.3, dag.test() does not pass them to failure callbacks."""
    from airflow.sdk.execution_time import supervisor

    errors: list[BaseException] = []
    run = supervisor.run_task_in_process

    def run_and_note(**arguments: Any) -> Any:
        result = run(**arguments)
        if result.error:
            errors.append(result.error)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "run_task_in_process", run_and_note)
        yield errors


@pytest.fixture
def run_operator(run_dag: Callable[..., Run], request: pytest.FixtureRequest) -> Callable[..., Run]:
    """
    Run one operator, or the tasks that a function builds.

    Each runs in a DAG of its own. Airflow's retries do not wait.
    """
    counter = itertools.count(1)

    def run(
        operator: Any,
        *,
        dag_options: dict[str, Any] | None = None,
        run_options: dict[str, Any] | None = None,
        stored: bool = False,
        **arguments: Any,
    ) -> Run:
        from airflow.sdk import DAG

        name = f"{request.node.name[:200]}_{'stored_' if stored else ''}{next(counter)}"
        # Without dots, which would give the files of exports other names.
        dag_id = "".join(char if char.isalnum() or char in "_-" else "_" for char in name)
        options = {"default_args": {"retry_delay": timedelta(0)}, **(dag_options or {})}
        with DAG(dag_id, schedule=None, **options) as dag:
            if isinstance(operator, type):
                # Airflow stores every key of a result separately, which takes 20 ms of processor time per key.
                operator(task_id="task", **{"multiple_outputs": False, **arguments})
            else:
                operator()
        return run_dag(dag, stored=stored, **(run_options or {}))

    return run


# Names of these fixtures with ``stored=True``.


@pytest.fixture
def run_stored_dag(run_dag: Callable[..., Run]) -> Callable[..., Run]:
    return functools.partial(run_dag, stored=True)


@pytest.fixture
def run_stored(run_operator: Callable[..., Run]) -> Callable[..., Run]:
    return functools.partial(run_operator, stored=True)


@pytest.fixture
def ran(run_operator: Callable[..., Run]) -> Callable[..., tuple[Run, Any]]:
    """Run an operator that succeeds; return the run and the final state of the task."""

    def run(kind: type, **arguments: Any) -> tuple[Run, Any]:
        ended: list[Any] = []
        done = run_operator(kind, on_success_callback=lambda context: ended.append(context["task"]), **arguments)
        assert done.state == "success", done.errors
        return done, ended[0]

    return run
