"""The name of the simulated machine on which a process runs. Airflow's processes import this, so it imports little."""

from __future__ import annotations

import os

VARIABLE = "ASSISTANT_TEST_MACHINE"


def name() -> str:
    """Return the name of this machine, for Airflow's ``[core] hostname_callable``."""
    return os.environ[VARIABLE]
