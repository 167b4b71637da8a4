"""
The cheap form of ``run_operator``: execute an operator once, without Airflow's task runner.

It takes 13 ms of processor time instead of 25 for a chat. Retries, deferrals, XCom and
mapping need ``run_operator`` or ``run_dag``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk.execution_time.context import OutletEventAccessors


def task_context(
    task_id: str = "task",
    *,
    dag_id: str = "dag",
    run_id: str = "run",
    map_index: int = -1,
    max_tries: int = 0,
    moment: datetime | None = None,
    dag: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    """
    Return the context of a task instance.

    :param moment: Logical date of the run. Default: None, a run that is due now.
    :param dag: The DAG, whose schedule has a zone. Default: None, a run whose days are in UTC.
    :param fields: More fields of the task instance.
    """
    instance = SimpleNamespace(
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        max_tries=max_tries,
        try_number=1,
        xcom_push=lambda *_, **__: None,
        **fields,
    )
    run = SimpleNamespace(run_id=run_id, logical_date=moment, run_after=moment or datetime.now(UTC))
    return {"ti": instance, "dag_run": run, "dag": dag, "outlet_events": OutletEventAccessors()}


def execute_operator(operator: Any, **context: Any) -> Any:
    """Execute an operator, with its context changed by these arguments of :func:`task_context`."""
    operator.render_template_fields({})
    return operator.execute(task_context(operator.task_id, **context))
