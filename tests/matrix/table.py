"""Write the table of the last results into its page: ``python -m tests.matrix.table``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.matrix import PAIRS, result_file
from tests.matrix.pair import is_good

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
BEGIN, END = "<!-- results: `make matrix` writes this -->", "<!-- end of results -->"
BETWEEN = re.compile(rf"(?<={re.escape(BEGIN)}\n).*(?={re.escape(END)})", re.DOTALL)


def main() -> None:
    """Write the page."""
    PAGE.write_text(BETWEEN.sub(lambda _: table(), PAGE.read_text()))


def table() -> str:
    """Return a row for the pairs of an Airflow that have the same result, run or not."""
    pythons: dict[tuple[str, str, str], list[str]] = {}
    for pair in PAIRS:
        airflow, python, result, date = _cells(*pair)
        pythons.setdefault((airflow, result, date), []).append(python)
    head = ["Airflow", "Python", "Tests", "Run on"]
    rows = [[airflow, ", ".join(found), result, date] for (airflow, result, date), found in pythons.items()]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows]) + "\n"


def _cells(airflow: str, python: str) -> tuple[str, str, str, str]:
    file = result_file(airflow, python)
    if not file.exists():
        return airflow, python, "not run yet", ""
    result: dict[str, Any] = json.loads(file.read_text())
    verdict = f"{result['tests']['passed']} passed" if is_good(result) else "; ".join(_faults(result))
    return result["airflow"], result["python"], verdict, result["date"]


def _faults(result: dict[str, Any]) -> list[str]:
    tests = result["tests"]
    return [
        *(["dependencies do not fit"] if result["pip_check"] else []),
        *(["a module cannot be imported"] if result["imports"] else []),
        *(["tests fail"] if tests["failed"] else []),
        *([f"tests: {tests['ended']}"] if tests["ended"] != "complete" else []),
    ]


if __name__ == "__main__":
    main()
