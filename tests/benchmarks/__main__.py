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

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run the benchmarks that the command line selects."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help="local, latency, hosted, limits, rerun, memory, ledger, batch, thousand, ask, resume, lake, "
        "evaluate, judge, handbook, metrics, pages",
    )
    parser.add_argument("--quick", action="store_true", help="tiny runs: they prove that it works, and measure nothing")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json", help="where to keep the figures")
    parser.add_argument("--table", action="store_true", help="print the figures that were kept, as Markdown")
    wanted = parser.parse_args()
    if wanted.table:
        _print_table(json.loads(wanted.json.read_text()))
        return
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as home:
        # Set before the first import of Airflow.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        logging.disable(logging.INFO)
        _measure(wanted)


def _measure(wanted: argparse.Namespace) -> None:
    from tests.benchmarks.cases import CASES
    from tests.benchmarks.measure import Size, machine
    from tests.benchmarks.service import served

    names = wanted.cases or list(CASES)
    size = Size(rounds=1, share=0.005, seconds=2.0) if wanted.quick else Size()
    started = time.monotonic()
    results = json.loads(wanted.json.read_text())["figures"] if wanted.json.exists() and wanted.cases else {}
    where = machine()
    print("  ".join(f"{name}: {value}" for name, value in where.items()))
    with served() as service:
        for name in names:
            print(f"\n{name}: {CASES[name].__doc__}")
            figures = CASES[name](service, size)
            for figure in figures:
                print(figure)
            load = round(os.getloadavg()[0], 2)
            results[name] = {"machine": where, "load": load, "figures": [figure.as_dict() for figure in figures]}
    if not wanted.quick:
        wanted.json.parent.mkdir(exist_ok=True)
        wanted.json.write_text(json.dumps({"figures": results}, indent=1) + "\n")
    print(f"\n{time.monotonic() - started:.0f} s")


def _print_table(kept: dict[str, Any]) -> None:
    print("| Benchmark | Figure | Measured | Goal | |\n|---|---|---|---|---|")
    for name, case in kept["figures"].items():
        for figure in case["figures"]:
            unit = f" {figure['unit']}".rstrip()
            value = f"{figure['value']:,.0f}" if figure["value"] >= 100 else f"{figure['value']:.2f}"
            sign = "≤" if figure["at_most"] else "≥"
            goal = "" if figure["goal"] is None else f"{sign} {figure['goal']:,g}{unit}"
            verdict = {None: "", True: "reached", False: "missed"}[figure["reached"]]
            print(f"| `{name}` | {figure['of']} | {value}{unit} | {goal} | {verdict} |")
    machines: dict[str, list[str]] = {}
    for name, case in kept["figures"].items():
        words = ", ".join(f"{part} {value}" for part, value in case["machine"].items() if part != "load")
        machines.setdefault(words, []).append(f"`{name}`")
    for words, names in machines.items():
        print(f"\n{', '.join(names)}: {words}")


if __name__ == "__main__":
    main()
