"""The service as a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.__main__ import main
from airflow_provider_assistant.sandbox.tenants import GLOBEX_FULL_KEY
from tests.live.clients import local_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-m", "airflow_provider_assistant.sandbox"]


def start(*arguments: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ASSISTANT_SANDBOX_PORT": "0", **environ},
    )


@pytest.fixture
def flags() -> list[str]:
    return []


@pytest.fixture
def process(tmp_path: Path, flags: list[str]) -> Iterator[subprocess.Popen[str]]:
    running = start("--data", str(tmp_path), *flags)
    yield running
    running.kill()
    running.communicate()


@pytest.mark.parametrize(
    ("number", "flags"), [(signal.SIGTERM, []), (signal.SIGINT, ["--history", "30", "--host", "0.0.0.0"])]
)
def test_it_says_where_it_is_serves_and_ends(
    process: subprocess.Popen[str], number: signal.Signals, flags: list[str]
) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline().rstrip("\n")
    name, _, value = shlex.split(line)[0].partition("=")
    assert name == "AIRFLOW_CONN_ASSISTANT_DEFAULT"
    connection = json.loads(value)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api/v1", connection["host"])
    assert connection["conn_type"] == "assistant"
    extra = connection["extra"]
    headers = {"X-API-Key": connection["password"]}
    limits = local_request("GET", f"{connection['host']}/m2m/tenants/{extra['tenant_id']}/limits", headers=headers)
    assert extra["site_id"] in limits.json()["sites"]
    process.send_signal(number)
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == ""
    assert connection["password"] not in said
    assert ("those before a site stored anything are generated" in said) is bool(flags)
    assert ("its keys are public" in said) is bool(flags)


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Return the message with which the command ends in this process; Python prints it and exits with status 1."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("ASSISTANT_SANDBOX_PORT", "0")

    def refused(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["sandbox", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    return refused


def test_one_service_for_one_directory(
    process: subprocess.Popen[str], refusal: Callable[..., object], tmp_path: Path
) -> None:
    assert process.stdout is not None
    process.stdout.readline()
    assert str(refusal("--data", str(tmp_path))).startswith("Cannot use the data")


def test_a_port_in_use(refusal: Callable[..., object]) -> None:
    with SandboxServer() as server:
        port = str(httpx.URL(server.url).port)
        assert str(refusal("--port", port)).startswith(f"Cannot listen on 127.0.0.1 port {port}")


def test_nothing_acknowledged_is_lost_to_sigkill(process: subprocess.Popen[str], tmp_path: Path) -> None:
    assert process.stdout is not None
    port = re.findall(r":(\d+)/", process.stdout.readline())[0]
    url = f"http://127.0.0.1:{port}/api/v1/m2m/sites/globex-labs/documents/text"
    headers = {"X-API-Key": GLOBEX_FULL_KEY}
    for number in range(20):
        body = {"title": f"T{number}", "content": "Text."}
        assert local_request("POST", url, json=body, headers=headers).status_code == 201
    process.kill()
    process.wait()
    with SandboxServer(data=tmp_path) as server:
        titles = [row["title"] for row in server.service.documents.listed("globex-labs")]
    assert titles == [f"T{number}" for number in range(20)]


def test_the_sandbox_imports_nothing_else_of_the_package() -> None:
    script = (
        "import sys, airflow_provider_assistant.sandbox.__main__;"
        "print(*[m for m in sys.modules if m.startswith('airflow_provider_assistant.')"
        " and not m.startswith('airflow_provider_assistant.sandbox')],"
        " *[m for m in ('airflow', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_the_connection_of_another_tenant() -> None:
    with SandboxServer() as server:
        text = server.conn_json(key=GLOBEX_FULL_KEY, site_id="globex-labs", timeout=5)
        service_name = f"sandbox-{server.port}"
    assert json.loads(text)["extra"] == {
        "tenant_id": "globex",
        "site_id": "globex-labs",
        "service_name": service_name,
        "timeout": 5,
    }
