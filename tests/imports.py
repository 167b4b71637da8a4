"""Import this package in a fresh process, as Airflow does when it parses a DAG file that uses all of it."""

from __future__ import annotations

import os
import subprocess
import sys

MEASURE = """
import importlib, sys, time, airflow.sdk, airflow.triggers.base, airflow.dag_processing.processor
started = time.process_time()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(time.process_time() - started)
"""


def public_modules() -> list[str]:
    """Return every module that a DAG file may import: operators, sensors, hooks, triggers and assets."""
    from airflow_provider_assistant.provider_info import get_provider_info

    info = get_provider_info()
    listed = {
        module
        for kind in ("hooks", "operators", "sensors", "triggers")
        for entry in info[kind]
        for module in entry["python-modules"]
    }
    return sorted(listed | {"airflow_provider_assistant.assets"})


def import_seconds() -> float:
    """Return the seconds of processor time that importing all of this takes on top of Airflow."""
    # Airflow imports compiled modules: only the first run compiles them.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *public_modules()], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])
