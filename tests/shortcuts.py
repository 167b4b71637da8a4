"""What Airflow, FastAPI and SQLAlchemy compute again for every task, request or ledger, and tests need only once."""

from __future__ import annotations

import functools
from typing import Any

import sqlalchemy as sa


def remember_validators() -> None:
    """Airflow builds a validator for every rendered field, which takes a fifth of the time of a small task."""
    from airflow.sdk.execution_time import task_runner

    task_runner.TypeAdapter = functools.cache(task_runner.TypeAdapter)


def remember_dependants() -> None:
    """Airflow's API inspects the signatures of its dependencies in every request."""
    from fastapi.dependencies import utils

    get_dependant, known = utils.get_dependant, {}

    def remembered(**arguments: Any) -> Any:
        key = repr(sorted(arguments.items()))
        if key not in known:
            known[key] = get_dependant(**arguments)
        return known[key]

    utils.get_dependant = remembered


def remember_tables() -> None:
    """SQLAlchemy compiles the statements that create a ledger, which takes half the time of a new one."""
    from airflow_provider_assistant.ledger.schema import metadata

    create_all, known = metadata.create_all, dict[str, list[str]]()

    def compiled(bind: sa.Connection) -> list[str]:
        statements: list[str] = []
        note = sa.create_mock_engine(
            bind.engine.url, lambda ddl, *_: statements.append(str(ddl.compile(dialect=bind.dialect)))
        )
        create_all(note, checkfirst=False)
        return statements

    def remembered(bind: Any, checkfirst: bool = True) -> None:
        if checkfirst or not isinstance(bind, sa.Connection):
            create_all(bind, checkfirst=checkfirst)
            return
        name = bind.dialect.name
        known[name] = known.get(name) or compiled(bind)
        for statement in known[name]:
            bind.exec_driver_sql(statement)

    metadata.create_all = remembered
