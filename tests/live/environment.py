"""The environment variables of the Airflows that tests start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What only Airflow's own components know. Tasks get connections and variables from the API server.
SECRET = (
    "AIRFLOW_CONN_",
    "AIRFLOW_VAR_",
    "AIRFLOW__API__SECRET_KEY",
    "AIRFLOW__API_AUTH__",
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER",
    "AIRFLOW__DATABASE__",
)
# Port 9 of the loopback interface refuses connections.
NO_DATABASE = "postgresql+psycopg2://nobody@127.0.0.1:9/none"


def environment(home: Path, settings: Mapping[str, object]) -> dict[str, str]:
    """
    Return the environment of this process, with one Airflow instead of any other that it names.

    :param home: Folder that becomes AIRFLOW_HOME.
    :param settings: Airflow's configuration, such as ``{"CORE__LOAD_EXAMPLES": False}``.
    """
    foreign = ("AIRFLOW", "_AIRFLOW")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    configured = {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
    return {**inherited, **configured, "AIRFLOW_HOME": str(home)}


def isolated(env: Mapping[str, str], home: Path, temporary: Path) -> dict[str, str]:
    """
    Return the environment of a task that has an empty home, and neither Airflow's secrets nor its database.

    :param env: Environment of Airflow's components.
    :param home: Becomes the home and AIRFLOW_HOME.
    :param temporary: Folder for temporary files.
    """
    public = {name: value for name, value in env.items() if not name.startswith(SECRET)}
    return {
        **public,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": NO_DATABASE,
        "AIRFLOW_HOME": str(home),
        "HOME": str(home),
        "TMPDIR": str(temporary),
    }


def machine() -> str:
    """Return the name of the simulated machine of this process, for Airflow's ``[core] hostname_callable``."""
    return os.environ["ASSISTANT_TEST_MACHINE"]
