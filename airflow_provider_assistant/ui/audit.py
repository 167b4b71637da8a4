"""Lines in Airflow's audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session


def write_audit_log(event: str, user: str, dag_id: str | None, facts: Mapping[str, Any]) -> None:
    """
    Write a line to Airflow's audit log.

    :param event: Name of the event.
    :param user: Name of the user.
    :param dag_id: DAG of the line, or None.
    :param facts: What the extra of the line says.
    """
    with create_session() as session:
        session.add(Log(event=event, owner=user, owner_display_name=user, extra=json.dumps(facts), dag_id=dag_id))
