"""Fixtures shared by all system tests: one Airflow, one embedded service and one hostile service."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.service import AssistantService
from tests.proxies import NAME, RecordingProxy, certificate, server_context, tls_front
from tests.system.parrot import Parrot
from tests.system.statsd import StatsdReceiver

ROOT = Path(__file__).parents[2]
WRONG_KEY = "canary-wrong-8d1f6a72"
PROXY_PASSWORD = "canary-proxy/5e0d p@ss"
FAILING = "must fail"
# The demo runs all examples, and tests/integration/test_dags.py as well.
EXAMPLE = "assistant_approve_baseline"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for all files of these tests."""
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="session")
def service(home: Path) -> Iterator[AssistantService]:
    """The embedded service."""
    with AssistantService(home / "service", fail_messages=FAILING) as service:
        yield service


@pytest.fixture(scope="session")
def parrot() -> Iterator[Parrot]:
    """A service that repeats the API key in its replies."""
    with Parrot() as parrot:
        yield parrot


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of the parrot, and its key."""
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def proxy(parrot: Parrot, bundle: tuple[Path, Path]) -> Iterator[RecordingProxy]:
    """A proxy with credentials, through which alone the parrot can be reached."""
    with (
        tls_front(parrot.host, server_context(bundle)) as front,
        RecordingProxy(tls_service=front) as proxy,
    ):
        yield proxy


@pytest.fixture(scope="session")
def statsd() -> Iterator[StatsdReceiver]:
    """A server that receives what Airflow's components send to StatsD."""
    with StatsdReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def connections(service: AssistantService, parrot: Parrot, bundle: tuple[Path, Path]) -> dict[str, dict[str, Any]]:
    """The connections of the DAGs."""

    def changed(*, extra: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        return {**service.connection, **fields, "extra": {**service.connection["extra"], **(extra or {})}}

    globex = {"tenant_id": "globex", "site_id": "globex-help"}
    return {
        "assistant_default": service.connection,
        "assistant_globex": changed(password="dev-globex-full", extra=globex),
        "assistant_globex_readonly": changed(password="dev-globex-readonly", extra={**globex, "max_concurrency": 4}),
        "assistant_wrong_key": changed(password=WRONG_KEY),
        "assistant_manages": changed(extra={"manage_documents": True}),
        "assistant_no_retries": changed(extra={"max_concurrency": 1, "retries": 0}),
        "assistant_parrot": changed(
            host=f"https://{NAME}",
            password=parrot.key,
            extra={"retries": 1, "ca_bundle": str(bundle[0])},
        ),
    }


@pytest.fixture(scope="session")
def lake(home: Path) -> Path:
    """The folder of the exports."""
    return home / "lake"


@pytest.fixture(scope="session")
def lineage_log(home: Path) -> Path:
    """The file where OpenLineage's transport writes its events, if its provider is installed."""
    return home / "lineage.jsonl"


# Per package: a running Airflow would slow down the tests of other packages.
@pytest.fixture(scope="package")
def airflow(
    home: Path,
    lake: Path,
    lineage_log: Path,
    statsd: StatsdReceiver,
    connections: dict[str, dict[str, Any]],
    proxy: RecordingProxy,
) -> Iterator[LiveAirflow]:
    """A running Airflow with an example and the DAGs of these tests."""
    dags = home / "dags"
    shutil.copytree(Path(__file__).with_name("dags"), dags, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dags" / "golden_set", dags / "golden_set")
    shutil.copy(ROOT / "dags" / f"{EXAMPLE}.py", dags)
    env = {
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(fields) for name, fields in connections.items()},
        "HTTPS_PROXY": f"http://corp:{quote(PROXY_PASSWORD, safe='')}@{proxy.host}",
        "AIRFLOW_VAR_ASSISTANT_LAKE": lake.as_uri(),
        "AIRFLOW__ASSISTANT__LAKE_PATH": lake.as_uri(),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(lineage_log), "append": True}
        ),
        # The files do not change. Frequent parsing and scheduling would keep a core
        # busy that other tests need.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": statsd.host,
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
    }
    roles = {"viewer": "viewer", "editor": "user"}
    with LiveAirflow(home / "airflow", dags, env, roles) as airflow:
        yield airflow


@pytest.fixture(scope="package")
def parrots(airflow: LiveAirflow) -> str:
    """A finished run of every operator against the service that repeats the API key."""
    run_id = airflow.trigger("parrots")
    airflow.wait_run("parrots", run_id)
    return run_id
