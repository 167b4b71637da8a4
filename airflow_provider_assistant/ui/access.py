"""What a user may see and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select

from airflow_provider_assistant.ledger.schema import RUN_COLUMNS
from airflow_provider_assistant.operators.links import task_path
from airflow_provider_assistant.ui.models import Task

may_see_pages = requires_access_view(AccessView.PLUGINS)
# The results of tasks are XComs.
may_see_task = requires_access_dag("GET", DagAccessEntity.XCOM)


@dataclass(slots=True)
class Rights:
    """
    The rights of a user on DAGs.

    :param dags: All DAGs that Airflow knows.
    :param may_change: Returns whether the user may change task instances of a DAG, as for clearing a task.
    """

    dags: frozenset[str]
    readable: frozenset[str]
    may_change: Callable[[str], bool]
    may_change_all: Callable[[], bool]
    # Answers of ``may_settle``: each check asks the auth manager.
    _answer_by_dag: dict[str | None, bool] = field(default_factory=dict)

    @property
    def selected(self) -> frozenset[str] | None:
        """
        The DAGs whose entries the user sees; None for all entries.

        Only who may read every DAG sees entries of the command line and of DAGs that Airflow no longer knows.
        """
        may_read_all = bool(self.dags) and self.readable >= self.dags
        if may_read_all:
            return None
        return self.readable

    def may_settle(self, dag_id: str | None) -> bool:
        """
        Return whether the user may settle entries of a DAG: settling decides what its next run sends.

        :param dag_id: The DAG. Entries of DAGs that Airflow does not know need the right to change every DAG.
        """
        # None stands for all DAGs that Airflow does not know: they have the same answer.
        known_dag_id = dag_id if dag_id in self.dags else None
        if known_dag_id not in self._answer_by_dag:
            answer = self.may_change_all() if known_dag_id is None else self.may_change(known_dag_id)
            self._answer_by_dag[known_dag_id] = answer
        return self._answer_by_dag[known_dag_id]

    def task(self, row: Mapping[str, Any]) -> Task:
        """
        Return the task instance of a row of the ledger.

        :param row: With ``dag_id``, ``run_id``, ``task_id``, ``map_index`` and ``region``.
        """
        task_key = {name: row[name] for name in RUN_COLUMNS}
        path = None
        # Airflow has no page for a DAG that it no longer knows.
        if row["dag_id"] in self.dags:
            path = task_path(**task_key)
        return Task(**task_key, path=path)


def rights_of(request: Request, user: GetUserDep) -> Rights:
    """Return the rights of the user of a request."""

    def may_change(dag_id: str) -> bool:
        check = requires_access_dag("PUT", DagAccessEntity.TASK_INSTANCE, dag_id)
        try:
            check(request, user)
        except HTTPException:
            return False
        return True

    def may_change_all() -> bool:
        changeable = frozenset(manager.get_authorized_dag_ids(user=user, method="PUT"))
        return bool(dags) and changeable >= dags

    with create_session() as session:
        dags = frozenset(session.scalars(select(DagModel.dag_id)))
    manager = get_auth_manager()
    readable = frozenset(manager.get_authorized_dag_ids(user=user, method="GET"))
    return Rights(dags=dags, readable=readable, may_change=may_change, may_change_all=may_change_all)


RightsDep = Annotated[Rights, Depends(rights_of)]
