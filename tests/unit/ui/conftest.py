"""Clients of several users, with Airflow's own checks, and a ledger to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.ui.app import app
from tests.ledgers import Filler
from tests.task_runs import BUNDLE

HOSTILE = "<script>alert(1)</script>\x07=cmd()"


@pytest.fixture
def _manager(_airflow_database, monkeypatch):
    from airflow.api_fastapi.app import create_auth_manager, purge_cached_app

    purge_cached_app()
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.unit.ui.managers.TeamAuthManager")
    monkeypatch.setenv(
        "AIRFLOW__API_AUTH__JWT_SECRET", "sixty-four-bytes-are-enough-for-every-algorithm-that-airflow-knows"
    )
    create_auth_manager()
    yield
    purge_cached_app()


@pytest.fixture
def as_user(_manager) -> Callable[..., TestClient]:
    """Return a client of a user with a role; without a name, an anonymous one."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def client(name: str | None = None, role: str | None = None) -> TestClient:
        if name is None:
            return TestClient(app)
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role=role or name.upper()))
        return TestClient(app, headers={"Authorization": f"Bearer {token}"})

    return client


@pytest.fixture
def admin(as_user) -> TestClient:
    return as_user("admin")


@pytest.fixture
def known_dags(_airflow_database) -> Iterator[tuple[str, ...]]:
    """Airflow knows two DAGs, and perhaps those of other tests."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    names = ("mine.kb", "other.kb")
    with create_session() as session:
        session.add_all([DagModel(dag_id=name, bundle_name=BUNDLE, fileloc="") for name in names])
    yield names
    with create_session() as session:
        session.execute(sa.delete(DagModel).where(DagModel.dag_id.in_(names)))


@pytest.fixture
def ledger(ledger_home) -> Iterator[Ledger]:
    """The default ledger of this test."""
    with Ledger(sqlite_engine(ledger_home / "assistant_ledger.db")) as opened:
        yield opened


@pytest.fixture
def fill(ledger) -> Filler:
    return Filler(ledger.engine)
