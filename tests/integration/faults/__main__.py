"""Run all fault tests with many seeds, and print what they measured as a table."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from typing import Any

import pytest

SEEDS = "20"


class Figures:
    """Collect the measurements of the tests."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            file, _, test = report.nodeid.rpartition("/")[2].partition(".py::")
            # Group all seeds of one test.
            case = re.sub(r"\[\d+\]$", "", re.sub(r"-\d+\]$", "]", test))
            name = f"{file}: {case}"
            for figure, value in report.user_properties:
                self.found[name][figure].append(value)

    def print(self) -> None:
        print("\n| Test | Runs | Measured |\n|---|---|---|")
        for name, figures in self.found.items():
            runs = max(map(len, figures.values()))
            print(f"| `{name}` | {runs} | {', '.join(f'{figure} {spread(of)}' for figure, of in figures.items())} |")


def spread(values: list[Any]) -> str:
    texts = sorted(set(values), key=lambda value: (str(type(value)), value))
    return str(texts[0]) if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def main() -> int:
    os.environ.setdefault("ASSISTANT_FAULT_SEEDS", SEEDS)
    figures = Figures()
    code = pytest.main(["-q", "tests/integration/faults", "tests/integration/test_postgres_ledger.py"], [figures])
    figures.print()
    return code


if __name__ == "__main__":
    sys.exit(main())
