"""A plugin of pytest: which tests run on one worker of pytest-xdist, and which of them start first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

# Tests of the first group share one Airflow and one embedded service; those of the second start Airflows of their own.
LIVE_AIRFLOW, OTHER_AIRFLOWS = "live Airflow", "other Airflows"
OTHERS = (
    "tests/isolated/test_isolated_tasks.py",
    "tests/live/test_demo.py",
    "tests/system/test_otel.py",
)
# These tests share a browser.
BROWSER = "tests/integration/ui"
# These fork their processes from one server for each group, whose imports take seconds. They mostly wait.
FORKED = {
    "tests/integration/faults/test_chat_batch": "forked processes of batches",
    "tests/integration/faults/test_lake": "forked processes of batches",
    "tests/integration/test_judging.py": "forked processes of batches",
    "tests/integration/faults/": "forked processes",
    "tests/integration/test_command_line.py": "forked processes",
    "tests/integration/test_large_files.py": "forked processes",
}
WITHOUT_AIRFLOW = ("tests/system/test_package.py", "tests/system/test_report.py")
# These mostly wait for processes, servers and browsers. They are spread among the others, which need the cores, up to
# this part of the run.
WAITING, UNTIL = "tests/integration", 0.8
FOLDERS = (
    "system",
    "cluster",
    "benchmarks",
    "docs",
    "live",
    "modes",
    "contract",
    "dbt",
    "loaders",
    "openapi",
    "adversary",
    "unit",
)


def group(nodeid: str) -> str:
    """Return the group of a test: its file, the name of a group of files that share something, or itself alone."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/adversary/"):
        return nodeid
    if file in OTHERS:
        return OTHER_AIRFLOWS
    for beginning, forked in FORKED.items():
        if file.startswith(beginning):
            return forked
    if file.startswith("tests/system/") and file not in WITHOUT_AIRFLOW:
        return LIVE_AIRFLOW
    return BROWSER if file.startswith(f"{BROWSER}/") else file


def places(groups: Iterable[str]) -> dict[str, float]:
    """Return the place of each group in the order in which groups start: first those that mostly wait for long."""
    first = {LIVE_AIRFLOW: -3.0, **dict.fromkeys(FORKED.values(), -2.0), OTHER_AIRFLOWS: -1.0}
    others = [group for group in dict.fromkeys(groups) if group not in first]
    waiting = [group for group in others if group.startswith(WAITING)]
    computing = [group for group in others if not group.startswith(WAITING)]
    computing.sort(key=lambda group: FOLDERS.index(group.split("/")[1]))
    return {
        **first,
        **{group: UNTIL * number / len(waiting) for number, group in enumerate(waiting)},
        **{group: number / len(computing) for number, group in enumerate(computing)},
    }


@pytest.hookimpl(trylast=True)  # after the order is shuffled, if it is
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the groups of tests, so that several workers use the cores all the time."""
    place_of = places([group(item.nodeid) for item in items])
    items.sort(key=lambda item: place_of[group(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
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
