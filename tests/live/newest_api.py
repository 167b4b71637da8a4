"""
Run Airflow's API server with only the newest version of the execution API.

``python -m tests.live.newest_api api-server …`` does what ``airflow api-server …`` does.
"""

from __future__ import annotations

import sys

from airflow.__main__ import main

from tests.execution_api import keep_newest_version

if __name__ == "__main__":
    keep_newest_version()
    sys.exit(main())
