"""Measure figures: alternating repetitions, medians, and facts about the machine."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

LIBRARIES = ("apache-airflow", "aiohttp", "httpx", "pyarrow", "pydantic", "requests", "sqlalchemy", "uvicorn")


@dataclass(frozen=True)
class Size:
    """
    Size of a benchmark. The smallest size only tests that it runs.

    :param rounds: Number of alternating repetitions.
    :param share: Share of the rows of a full run.
    :param seconds: Duration in seconds of a load into a rate-limited service.
    """

    rounds: int = 5
    share: float = 1.0
    seconds: float = 30.0

    def rows(self, full: int) -> int:
        """Return the number of rows for this size."""
        return max(50, int(full * self.share))


QUICK = Size(rounds=1, share=0.002, seconds=0.2)


@dataclass(frozen=True)
class Figure:
    """
    A measured number with its goal.

    :param of: Name of the figure.
    :param value: The number.
    :param goal: Minimum to reach; with ``at_most``, the maximum.
    :param samples: The samples behind the number.
    """

    of: str
    value: float
    goal: float | None = None
    at_most: bool = False
    unit: str = "x"
    samples: Mapping[str, Any] | None = None

    @property
    def is_reached(self) -> bool | None:
        """Whether the goal is reached, or None without a goal."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def as_dict(self) -> dict[str, Any]:
        """Return the figure as JSON types."""
        return {**asdict(self), "reached": self.is_reached}

    def __str__(self) -> str:
        verdict = {None: "", True: "reached", False: "MISSED"}[self.is_reached]
        sign = "≤" if self.at_most else "≥"
        goal = "" if self.goal is None else f"{sign} {self.goal:g} {self.unit}"
        return f"  {self.of:<74} {_number(self.value):>9} {self.unit:<7} {goal:<14} {verdict}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def alternated(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """
    Measure each contestant in every round, so that all run under the same load of the machine.

    :param contestants: Functions that return a rate, by name.
    :param rounds: Number of rounds. Every second round reverses the order.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        names = list(contestants) if number % 2 == 0 else list(reversed(contestants))
        for name in names:
            rates[name].append(contestants[name]())
    return rates


def ratio(rates: Mapping[str, list[float]], of: str, to: str) -> float:
    """Return the median of the ratios within each round."""
    return median(one / other for one, other in zip(rates[of], rates[to], strict=True))


def rounded(rates: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return rounded rates."""
    return {name: [round(rate, 1) for rate in some] for name, some in rates.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that the given share of values does not exceed."""
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]


def worked(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a separate process with its own AIRFLOW_HOME."""
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as home:
        said = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "AIRFLOW_HOME": home, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/a.db"},
            check=False,
            capture_output=True,
            text=True,
        )
    if said.returncode:
        raise RuntimeError(f"{module} {arguments[0]}: {said.stderr[-2000:]}")
    return json.loads(said.stdout.splitlines()[-1])


def reset_peak() -> float:
    """Reset the peak memory of this process, and return its current memory in MB."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def status(name: str) -> float:
    """Return a memory figure of this process from the kernel, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def pin(core: int) -> None:
    """Pin this process to one core if it may use several."""
    with contextlib.suppress(AttributeError, OSError):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(0, {cores[core % len(cores)]})


def machine() -> dict[str, Any]:
    """Return facts about the machine and the libraries."""
    cpu = platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in LIBRARIES},
    }
