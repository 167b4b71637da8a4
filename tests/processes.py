"""Processes that can be killed: a server that has everything imported forks one in a moment, Airflow takes seconds."""

from __future__ import annotations

import multiprocessing

processes = multiprocessing.get_context("forkserver")
# Airflow imports the modules of AWS for any asset and any path.
_preloaded = [
    "tests.forked",
    "airflow.providers.amazon.aws.assets.s3",
    "airflow.providers.amazon.aws.fs.s3",
    "airflow.sdk.execution_time.supervisor",
]


def preload(*modules: str) -> None:
    """Have the server import these as well, before it forks its first process."""
    _preloaded.extend(modules)
    processes.set_forkserver_preload(_preloaded)
