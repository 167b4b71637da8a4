"""The API key is only in the environment: in no log, console output, database, Parquet file or command line."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.airflow import LiveAirflow
from tests.proxies import NAME, RecordingProxy
from tests.system.conftest import PROXY_PASSWORD
from tests.system.parrot import MARKER, Parrot
from tests.system.search import places, spellings

pytestmark = pytest.mark.system

TOKEN = base64.b64encode(f"corp:{PROXY_PASSWORD}".encode()).decode()
WHO_FAILS = {"wrong_key", "use_the_hook", "chat", "rate", "close", "wait", "ask"}


def test_everything_ran(airflow: LiveAirflow, parrots: str) -> None:
    states = airflow.task_states("parrots", parrots)
    assert {task for task, state in states.items() if state == "failed"} == WHO_FAILS
    assert set(states.values()) == {"failed", "success"}


@pytest.mark.usefixtures("parrots")
def test_the_search_finds_what_is_there(home: Path, airflow: LiveAirflow, lake: Path) -> None:
    """The marker of the service reaches all these places, so an unmasked key would too."""
    found = places(home, MARKER, database=airflow.database.url)

    ledger = airflow.home / "assistant_ledger.db"
    console = str(airflow.log_path("scheduler"))
    assert console in found
    cells = {"postgres: xcom", f"{ledger}: assistant_attempts"}
    assert cells <= found
    logs = {where for where in found if where.startswith(str(airflow.home / "logs"))}
    assert any(where.endswith(".log") for where in logs)
    assert any(".trigger." in where for where in logs)
    assert any(where.startswith(str(lake)) and where.endswith(": text") for where in found)
    assert {f"{lake}/asked/parrots.parquet: {column}" for column in ("request_id", "error", "raw")} <= found


@pytest.mark.promise("security", "No API key and no password of a proxy is in a file, a log or a database.")
@pytest.mark.usefixtures("parrots")
def test_no_key_is_in_any_file(home: Path, airflow: LiveAirflow, connections: dict[str, dict[str, Any]]) -> None:
    keys = {connection["password"] for connection in connections.values()}
    # Three connections to the same service share its key: one of them does not retry, one manages documents.
    assert len(keys) == len(connections) - 2

    secrets = {*keys, PROXY_PASSWORD, TOKEN}
    assert places(home, *secrets, database=airflow.database.url) == set()


@pytest.mark.promise("security", "A proxy sees no API key.")
@pytest.mark.usefixtures("parrots")
def test_the_proxy_gets_no_key(proxy: RecordingProxy, parrot: Parrot) -> None:
    """All components reach the parrot through the proxy, and only there are its own credentials."""
    assert len(proxy.heads) >= len(WHO_FAILS)
    for head in proxy.heads:
        assert head.startswith(f"CONNECT {NAME}:443 ")
        assert f"Proxy-Authorization: Basic {TOKEN}\n" in head
        assert not any(spelling.decode() in head for spelling in spellings(parrot.key))


@pytest.mark.usefixtures("parrots")
def test_no_key_is_in_a_command_line(airflow: LiveAirflow, connections: dict[str, dict[str, Any]]) -> None:
    processes = [process for component in airflow.components.values() for process in component.tree()]
    lines = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            lines += [" ".join(process.cmdline())]

    assert any("scheduler" in line for line in lines)
    keys = {PROXY_PASSWORD, TOKEN, *(connection["password"] for connection in connections.values())}
    assert [line for line in lines if any(key in line for key in keys)] == []


def test_no_answer_of_airflow_has_a_key(
    airflow: LiveAirflow, connections: dict[str, dict[str, Any]], parrots: str
) -> None:
    """Check logs, XCom and rendered fields as the UI and the API show them."""
    keys = {PROXY_PASSWORD, TOKEN, *(connection["password"] for connection in connections.values())}
    seen = []
    for task in airflow.task_instances("parrots", parrots):
        seen += [json.dumps(task), airflow.task_log("parrots", parrots, task["task_id"])]
        seen += [json.dumps(airflow.xcom("parrots", parrots, task["task_id"]))]

    assert any(MARKER in text for text in seen)
    assert [text for text in seen if any(key in text for key in keys)] == []
