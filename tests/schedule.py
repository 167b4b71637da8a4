"""Which tests run on one worker, and which of them start first, when pytest-xdist runs the tests in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

# Tests of the first group share one Airflow and one embedded service; those of the second start Airflows of their own.
LIVE_AIRFLOW, OTHER_AIRFLOWS = "live Airflow", "other Airflows"
OTHERS = (
    "tests/isolated/test_isolated_tasks.py",
    "tests/live/test_demo.py",
    "tests/live/test_live_airflow.py",
    "tests/system/test_otel.py",
)
# These tests share a browser.
BROWSER = "tests/integration/ui"
WITHOUT_AIRFLOW = ("tests/system/test_package.py", "tests/system/test_report.py")
FOLDERS = ("system", "cluster", "benchmarks", "integration", "docs", "live", "contract", "loaders", "adversary", "unit")


def group(nodeid: str) -> str:
    """Return the group of a test: its file, the name of a group of files that share an Airflow, or itself alone."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/adversary/"):
        return nodeid
    if file in OTHERS:
        return OTHER_AIRFLOWS
    if file.startswith("tests/system/") and file not in WITHOUT_AIRFLOW:
        return LIVE_AIRFLOW
    return BROWSER if file.startswith(f"{BROWSER}/") else file


def rank(group: str) -> int:
    """Return the place of a group in the order in which groups start, the long ones first."""
    first = (LIVE_AIRFLOW, OTHER_AIRFLOWS)
    return first.index(group) if group in first else len(first) + FOLDERS.index(group.split("/")[1])


def scheduler(config: pytest.Config, log: Any) -> Any:
    """
    Return a scheduler that gives each group to one worker.

    The scheduler ``loadgroup`` of pytest-xdist 3.8 does this by marks, but has no effect with pytest 9.2: it changes
    ids of tests, which pytest now computes.
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return GroupScheduling(config, log)
