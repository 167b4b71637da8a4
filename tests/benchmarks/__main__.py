"""Run the benchmarks, print their figures, and keep them as JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> None:
    """Run the benchmarks that the command line selects."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a key of tests.benchmarks.cases.CASES; default: all")
    parser.add_argument("--quick", action="store_true", help="few rows: proves that the cases run, measures nothing")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to keep the figures")
    parser.add_argument("--table", action="store_true", help="print the figures that were kept, as Markdown")
    options = parser.parse_args()
    if options.table:
        _print_table(json.loads(options.json.read_text())["figures"])
        return
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as home:
        # Set before the first import of Airflow.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        logging.disable(logging.INFO)
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    from tests.benchmarks.cases import CASES
    from tests.benchmarks.measure import QUICK, Size, machine
    from tests.benchmarks.service import served

    size = QUICK if options.quick else Size()
    started = time.monotonic()
    # The figures of cases that do not run stay.
    results = json.loads(options.json.read_text())["figures"] if options.cases and options.json.exists() else {}
    facts = machine()
    print("  ".join(f"{name}: {value}" for name, value in facts.items()))
    with served() as service:
        for name in options.cases or CASES:
            print(f"\n{name}: {CASES[name].__doc__}")
            figures = CASES[name](service, size)
            for figure in figures:
                print(figure)
            load = round(os.getloadavg()[0], 2)
            results[name] = {"machine": facts, "load": load, "figures": [figure.as_dict() for figure in figures]}
    if not options.quick:
        options.json.parent.mkdir(exist_ok=True)
        options.json.write_text(json.dumps({"figures": results}, indent=1) + "\n")
    print(f"\n{time.monotonic() - started:.0f} s")


def _print_table(results: dict[str, Any]) -> None:
    print("| Benchmark | Figure | Measured | Goal | |\n|---|---|---|---|---|")
    machines: dict[str, list[str]] = {}
    for name, case in results.items():
        words = ", ".join(f"{part} {value}" for part, value in case["machine"].items() if part != "load")
        machines.setdefault(words, []).append(f"`{name}`")
        for figure in case["figures"]:
            unit = f" {figure['unit']}".rstrip()
            value = f"{figure['value']:,.0f}" if figure["value"] >= 100 else f"{figure['value']:.2f}"
            sign = "≤" if figure["at_most"] else "≥"
            goal = "" if figure["goal"] is None else f"{sign} {figure['goal']:,g}{unit}"
            verdict = {None: "", True: "reached", False: "missed"}[figure["reached"]]
            print(f"| `{name}` | {figure['of']} | {value}{unit} | {goal} | {verdict} |")
    for words, names in machines.items():
        print(f"\n{', '.join(names)}: {words}")


if __name__ == "__main__":
    main()
