"""Processes that can be killed: a server that has everything imported forks one in a moment, Airflow takes seconds."""

from __future__ import annotations

import functools
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from unittest import mock

# Forked processes inherit the server's environment. Start the server without the variables that tests set.
_ENVIRONMENT = dict(os.environ)
# Airflow imports the modules of AWS for any asset and any path.
_preloaded = [
    "tests.processes.preloaded",
    "airflow.providers.amazon.aws.assets.s3",
    "airflow.providers.amazon.aws.fs.s3",
    "airflow.sdk.execution_time.supervisor",
]


@functools.cache
def _start_server() -> None:
    with mock.patch.dict(os.environ, _ENVIRONMENT, clear=True):
        forkserver.ensure_running()


class _Process(ForkServerProcess):
    def start(self) -> None:
        _start_server()
        super().start()


class _Context(ForkServerContext):
    Process = _Process


processes = _Context()


def preload(*modules: str) -> None:
    """Have the server import these as well, before it forks its first process."""
    _preloaded.extend(modules)
    processes.set_forkserver_preload(_preloaded)
