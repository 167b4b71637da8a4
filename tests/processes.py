"""Processes that can be killed: a server that has everything imported forks one in a moment, Airflow takes seconds."""

from __future__ import annotations

import multiprocessing

processes = multiprocessing.get_context("forkserver")
_preloaded: list[str] = []


def preload(*modules: str) -> None:
    """Have the server import these as well, before it forks its first process."""
    _preloaded.extend(modules)
    processes.set_forkserver_preload(_preloaded)
