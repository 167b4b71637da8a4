"""
Import Airflow once, and fork its commands from this process.

The execution API of these processes has only its newest version.
"""

from __future__ import annotations

import gc
import importlib
import sys

from airflow.__main__ import main as airflow
from airflow.models import import_all_models
from setproctitle import setproctitle
from sqlalchemy.orm import configure_mappers

from tests.live.fork_server import serve
from tests.task_runs.execution_api import keep_newest_version

# What at least two components import. An import must not start threads, because they do not survive a fork.
PRELOADED = (
    "airflow.api_fastapi.app",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.db_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
    "alembic.command",
)


def preload() -> None:
    """Import and set up what the components share."""
    for module in PRELOADED:
        importlib.import_module(module)
    import_all_models()
    configure_mappers()
    keep_newest_version()
    # Airflow makes a million long-lived objects, among which no component needs to look for garbage.
    gc.freeze()
    gc.set_threshold(50_000)


def run(arguments: list[str]) -> None:
    """Run a command of Airflow, and show it as the command line of this process."""
    sys.argv = ["airflow", *arguments]
    setproctitle(" ".join(sys.argv))
    airflow()


if __name__ == "__main__":
    gc.set_threshold(50_000)
    preload()
    serve(sys.argv[1], run)
