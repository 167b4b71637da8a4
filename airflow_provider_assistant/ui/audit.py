"""Lines in Airflow's audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session


def write_audit_log(event: str, user: str, facts_by_dag: Mapping[str | None, Mapping[str, Any]]) -> None:
    """
    Write a line per DAG to Airflow's audit log.

    :param event: Name of the event.
    :param user: Name of the user.
    :param facts_by_dag: What the extra of each line says, by the id of its DAG; None for a line without a DAG.
    """
    with create_session() as session:
        for dag_id, facts in facts_by_dag.items():
            line = Log(event=event, owner=user, owner_display_name=user, extra=json.dumps(facts), dag_id=dag_id)
            session.add(line)
