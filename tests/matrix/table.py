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
    """Return a row for every pair, run or not."""
    rows = [_row(*pair) for pair in PAIRS]
    head = ["Airflow", "Python", "", "Passed", "Failed", "Skipped", "pandas", "pyarrow", "Run on"]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows]) + "\n"


def _row(airflow: str, python: str) -> list[str]:
    file = result_file(airflow, python)
    if not file.exists():
        return [airflow, python, "not run yet", *[""] * 6]
    result: dict[str, Any] = json.loads(file.read_text())
    tests, versions = result["tests"], result["versions"]
    return [
        result["airflow"],
        result["python"],
        "good" if is_good(result) else "; ".join(_faults(result)),
        *(str(count) for count in (tests["passed"], len(tests["failed"]), sum(tests["skipped"].values()))),
        versions["pandas"],
        versions["pyarrow"],
        result["date"],
    ]


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
