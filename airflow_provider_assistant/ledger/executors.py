"""Whether Airflow runs tasks on one machine, so that they can share a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

from airflow.providers.common.compat.sdk import conf

# Executors on the machine of their scheduler. Airflow 3 has removed all but the first; a laptop's configuration may
# still name the others, because 'airflow dags test' does not use the executor.
LOCAL = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})
# Executors set these variables in a container that they start for one task. The pod template of Airflow's Helm chart
# sets [core] executor to LocalExecutor there.
CONTAINER_VARIABLES = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")


def distribution() -> str | None:
    """
    Return why two tasks may run on different machines, as a clause for messages.

    None if all executors run their tasks on one machine.
    """
    for variable in CONTAINER_VARIABLES:
        if os.environ.get(variable):
            return f"this task runs in a separate container ({variable} is set)"
    setting = conf.get("core", "executor", fallback="LocalExecutor")
    for path in _class_paths(setting):
        reason = _distribution_by(path)
        if reason is not None:
            return f"[core] executor is {setting!r}, and {reason}"
    return None


def _class_paths(setting: str) -> Iterator[str]:
    """
    Yield the executor classes of ``[core] executor``.

    :param setting: Executors separated by commas, each with an optional alias: ``LocalExecutor,edge:module.Class``.
        Executors of teams follow: ``LocalExecutor;team1=CeleryExecutor``. Airflow ignores them without multi_team.
    :return: Names of Airflow's own executors, and paths of other classes.
    """
    has_teams = conf.getboolean("core", "multi_team", fallback=False)
    for team_setting in setting.split(";"):
        # Without "=", rpartition returns an empty team.
        team, _, executors = team_setting.rpartition("=")
        if team.strip() and not has_teams:
            continue
        for executor in executors.split(","):
            _, _, path = executor.rpartition(":")
            path = path.strip()
            if path:
                yield path


def _distribution_by(path: str) -> str | None:
    """Return why an executor counts as distributed, or None if it runs tasks on the machine of its scheduler."""
    module, _, name = path.rpartition(".")
    distributed = f"{name} runs tasks on more than one machine"
    # Airflow and its providers are judged by name: importing an executor of theirs costs a second or more.
    if not module or module.startswith("airflow."):
        if name in LOCAL:
            return None
        return distributed
    try:
        executor = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 (the module of another package may fail in any way)
        return f"{path} counts as distributed, because it cannot be imported here ({type(error).__name__})"
    # Airflow defines this attribute of executors.
    if getattr(executor, "is_local", False):
        return None
    return distributed
