"""dbt/ with the real dbt. `make dbt` installs it and runs this; nothing else collects it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pytest
import sqlalchemy as sa
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake import warehouse
from tests.dbt import nights
from tests.dbt.generate import PROJECT
from tests.docs.pages import blocks_of
from tests.live.postgres import PostgresServer

DBT = Path(os.environ.get("DBT", PROJECT.parent / ".dbt-venv" / "bin" / "dbt"))


class Database(Protocol):
    """A warehouse, and how dbt reaches it."""

    target: str
    environment: dict[str, str]

    def load(self, root: Path) -> None:
        """Load all nights of a lake."""

    def run(self, sql: str) -> list[dict[str, Any]]:
        """Run a statement, and return its rows."""


class DuckDB:
    target = "duckdb"

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.environment = {"ASSISTANT_DUCKDB": self._path}

    def load(self, root):
        with warehouse.duckdb_transaction(self._path) as store:
            warehouse.load(store, str(root), lake.DATASETS)

    def run(self, sql):
        with duckdb.connect(self._path) as connection:
            return connection.sql(sql).to_arrow_table().to_pylist()


class Postgres:
    target = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._url = server.url
        self.environment = {"ASSISTANT_PG_HOST": "127.0.0.1", "ASSISTANT_PG_PORT": str(server.port)}
        self.environment["ASSISTANT_PG_USER"] = "airflow"

    def load(self, root):
        with warehouse.postgres_transaction(self.engine) as store:
            warehouse.load(store, str(root), lake.DATASETS)

    def run(self, sql):
        with self.engine.begin() as connection:
            result = connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
            return [dict(row._mapping) for row in result] if result.returns_rows else []

    @property
    def engine(self) -> sa.Engine:
        return sa.create_engine(self._url, poolclass=sa.NullPool)


@pytest.fixture(params=["duckdb", "postgres"])
def database(request, tmp_path) -> Iterator[Database]:
    if request.param == "duckdb":
        yield DuckDB(tmp_path / "warehouse.duckdb")
    else:
        with PostgresServer() as server:
            yield Postgres(server)


@pytest.fixture
def root(tmp_path) -> Path:
    nights.write(tmp_path / "lake")
    return tmp_path / "lake"


class Project:
    """A copy of a dbt project, with the profile of its example."""

    def __init__(self, source: Path, folder: Path, database: Database) -> None:
        self.folder = shutil.copytree(source, folder)
        self._database = database
        shutil.copy(PROJECT / "profiles.example.yml", folder / "profiles.yml")

    def dbt(self, *command: str, code: int = 0) -> str:
        """Run dbt, check its exit code, and return its output."""
        done = subprocess.run(
            [DBT, "--no-use-colors", *command, "--target", self._database.target],
            cwd=self.folder,
            env={**os.environ, **self._database.environment, "DBT_PROFILES_DIR": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout[-9000:] + done.stderr
        return done.stdout

    def artifact(self, name: str) -> Any:
        return json.loads((self.folder / "target" / f"{name}.json").read_text("utf-8"))

    def results(self) -> dict[str, str]:
        return {result["unique_id"]: result["status"] for result in self.artifact("run_results")["results"]}


@pytest.fixture
def project(database, tmp_path) -> Project:
    return Project(PROJECT, tmp_path / "project", database)


def in_order(rows):
    # Times of views and tables differ in their zone, and NaN is not equal to itself.
    return sorted(repr({name: _plain(value) for name, value in sorted(row.items())}) for row in rows)


def _plain(value):
    return value.timestamp() if hasattr(value, "timestamp") else value


def rows_of_views(database, schema="assistant", prefix=""):
    return {view: in_order(database.run(f"SELECT * FROM {schema}.{prefix}{view}")) for view in warehouse.VIEWS}


def test_the_marts_are_the_views(database, project, root):
    database.load(root)
    project.dbt("parse")
    project.dbt("source", "freshness")
    project.dbt("build", "--warn-error")
    assert set(project.results().values()) <= {"success", "pass", "no-op"}
    views = rows_of_views(database)
    assert all(views.values())
    assert rows_of_views(database, "analytics", "assistant__") == views
    for dataset in lake.DATASETS:
        rows = database.run(f"SELECT * FROM assistant.{dataset}")
        assert in_order(database.run(f"SELECT * FROM analytics.stg_assistant__{dataset}")) == in_order(rows)

    project.dbt("docs", "generate")
    catalog = project.artifact("catalog")
    assert len(catalog["sources"]) == len(lake.DATASETS) + 2
    view = database.run("SELECT * FROM assistant.statistics_daily")[0]
    assert list(catalog["nodes"]["model.assistant_warehouse.assistant__statistics_daily"]["columns"]) == list(view)


def test_faults_are_found(database, project, root):
    database.load(root)
    database.run("INSERT INTO assistant.feedback SELECT * FROM assistant.feedback")
    database.run("UPDATE assistant.requests SET state = 'gone' WHERE site_id = 'docs'")
    database.run("UPDATE assistant.loads SET created = created + 1")
    database.run("DELETE FROM assistant.statistics_raw WHERE site_id = 'shop'")
    database.run("UPDATE assistant.partitions SET loaded_at = loaded_at - INTERVAL '73 hours' WHERE dataset = 'limits'")
    project.dbt("source", "freshness", code=1)
    late = [result["unique_id"] for result in project.artifact("sources")["results"] if result["status"] != "pass"]
    assert late == ["source.assistant_warehouse.assistant.limits"]
    project.dbt("build", code=1)
    failed = {name.split(".")[2] for name, status in project.results().items() if status == "fail"}
    assert {re.sub("_assistant__.*", "", name) for name in failed} == {
        "unique_combination_stg",
        "accepted_values_stg",
        "always_stg",
        "in_parent_stg",
    }


USERS = {
    "dbt_project.yml": """
name: mine
profile: assistant_warehouse
flags: {send_anonymous_usage_stats: false}
models:
  assistant_warehouse: {+schema: assistant, marts: {+materialized: view}}
sources:
  assistant_warehouse: {staging: {assistant: {evaluations: {+freshness: {error_after: {count: 15, period: day}}}}}}
""",
    "packages.yml": f"""
packages: [local: {PROJECT}]
""",
    "models/nightly.sql": """
select "date", site_id, "documents.total", "answered%"
from {{ ref('assistant__statistics_daily') }}
""",
    "models/everything.sql": """
select * from {{ ref('assistant__statistics_daily') }}
""",
}


def test_a_project_of_a_user(database, tmp_path, root):
    """Its marts are views, which depend on the views of the operator."""
    for name, text in USERS.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project = Project(tmp_path / "mine", tmp_path / "project", database)
    database.load(root)
    project.dbt("deps")
    project.dbt("build")
    columns = list(database.run("SELECT * FROM analytics.everything")[0])
    source = project.artifact("manifest")["sources"]["source.assistant_warehouse.assistant.evaluations"]
    assert source["freshness"]["error_after"] == {"count": 15, "period": "day"}
    assert list(database.run("SELECT * FROM analytics.nightly")[0])[2:] == ["documents.total", "answered%"]

    nights.write(root, nights=nights.NIGHTS[-1:], more={"a new metric": 7})
    database.load(root)
    project.dbt("build")
    assert list(database.run("SELECT * FROM analytics.everything")[0]) == [*columns, "a new metric"]


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_loads_go_on_beside_builds(database, project, tmp_path):
    lakes = [tmp_path / "one", tmp_path / "two"]
    states = []
    for seed, root in enumerate(lakes):
        nights.write(root, seed=seed)
        database.load(root)
        states.append(rows_of_views(database))
    loads = 0
    is_over = threading.Event()

    def load():
        nonlocal loads
        while not is_over.is_set():
            database.load(lakes[loads % 2])
            loads += 1

    with ThreadPoolExecutor() as executor:
        loading = executor.submit(load)
        try:
            for _ in range(3):
                project.dbt("build", "--full-refresh", "--threads", "4")
                project.dbt("source", "freshness")
                marts = rows_of_views(database, "analytics", "assistant__")
                for view, rows in marts.items():
                    assert rows in [state[view] for state in states], view
        finally:
            is_over.set()
        loading.result()
    assert loads > 10


@pytest.mark.parametrize("database", ["duckdb"], indirect=True)
def test_the_dag_of_the_page(database, project, root, run_stored_dag, monkeypatch, tmp_path):
    database.load(root)
    settings = {"AIRFLOW_VAR_DBT_VENV": str(DBT.parents[1]), "AIRFLOW_VAR_DBT_PROJECT": str(project.folder)}
    for name, value in {**settings, **database.environment}.items():
        monkeypatch.setenv(name, value)
    (page_dag,) = (block.code for block in blocks_of(PROJECT.parent / "docs/export/dbt.md") if block.language == "text")
    (tmp_path / "dbt_dag.py").write_text(page_dag)
    (dag,) = DagBag(tmp_path / "dbt_dag.py").dags.values()
    run = run_stored_dag(dag)
    assert run.state == "success", run.errors
    assert database.run("SELECT * FROM analytics.assistant__latency_daily")
