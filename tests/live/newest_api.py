"""
Run Airflow's API server with only the newest version of the execution API, the one that every task asks for.

Airflow generates the routes of nine versions for the first task, which takes 6 s of processor time. Run as
``python -m tests.live.newest_api api-server …``.
"""

from __future__ import annotations

import sys

from airflow.__main__ import main
from airflow.api_fastapi.execution_api import versions
from airflow.api_fastapi.execution_api.routes import execution_api_router
from cadwyn import HeadVersion, Version, VersionBundle
from cadwyn.route_generation import _DELETED_ROUTE_TAG


def keep_newest() -> None:
    """Drop all older versions, and the routes that only they have."""
    versions.bundle = VersionBundle(HeadVersion(), Version(versions.bundle.versions[0].value))
    routes = execution_api_router.routes
    routes[:] = [route for route in routes if _DELETED_ROUTE_TAG not in getattr(route, "tags", ())]


if __name__ == "__main__":
    keep_newest()
    sys.exit(main())
