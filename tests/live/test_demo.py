"""The demo stops all processes that it started, and reports failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.process import WAIT, processes_in, wait_for

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]

LEAKING = """
import os
from airflow.sdk import dag, task

@dag(schedule=None)
def assistant_knowledge_base():
    @task
    def load():
        raise ValueError(f"out of cheese: {os.environ['AIRFLOW_CONN_ASSISTANT_DEFAULT']}")
    load()

assistant_knowledge_base()
"""


def start(home: Path, dags: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.live.demo", "--home", str(home), "--dags", str(dags)]
    return subprocess.Popen(
        [*command, *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_nothing_is_left_after_a_signal(tmp_path: Path, end: signal.Signals, code: int) -> None:
    home = tmp_path / "home"
    demo = start(home, tmp_path)
    scheduler = home / "airflow" / "components" / "scheduler.log"
    wait_for("a scheduler", lambda: scheduler.exists() and scheduler.read_text(), timeout=WAIT)
    assert len(processes_in(home)) > 5

    demo.send_signal(end)
    demo.communicate(timeout=WAIT)

    assert demo.returncode == code
    wait_for("the end of all", lambda: not processes_in(home), timeout=WAIT)


def test_a_failed_task_and_a_leaked_key_are_failures(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "leaking.py").write_text(LEAKING)
    home = tmp_path / "home"
    demo = start(home, tmp_path / "dags")
    output, _ = demo.communicate(timeout=WAIT)

    assert demo.returncode == 1
    assert "assistant_knowledge_base.load: failed" in output
    assert "out of cheese" in output
    assert "the API key is in" in output
    assert str(home / "airflow" / "components" / "scheduler.log") in output
    assert '"password":"dev-' not in output
    assert processes_in(home) == []
