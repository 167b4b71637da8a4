"""Processes that can be killed: a server that has everything imported forks one in a moment, Airflow takes seconds."""

from __future__ import annotations

import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from unittest import mock

# All processes have the environment of the server, so it must not have what the first test that forks has set.
_ENVIRONMENT = dict(os.environ)
# Airflow imports the modules of AWS for any asset and any path.
_preloaded = [
    "tests.forked",
    "airflow.providers.amazon.aws.assets.s3",
    "airflow.providers.amazon.aws.fs.s3",
    "airflow.sdk.execution_time.supervisor",
]


class _Process(ForkServerProcess):
    def start(self) -> None:
        with mock.patch.dict(os.environ, _ENVIRONMENT, clear=True):
            forkserver.ensure_running()
        super().start()


class _Context(ForkServerContext):
    Process = _Process


processes = _Context()


def preload(*modules: str) -> None:
    """Have the server import these as well, before it forks its first process."""
    _preloaded.extend(modules)
    processes.set_forkserver_preload(_preloaded)
