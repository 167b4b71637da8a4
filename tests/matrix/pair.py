"""Try the package in the environment this runs in: one pair of the matrix."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.matrix import result_file

ROOT = Path(__file__).parents[2]
# What Airflow and Python can change: tasks in every mode, pages, contexts, the example DAGs, and one real Airflow. What
# the package computes by itself is left to `make test`, with other library versions to `make lowest`.
SUITES = (
    "tests/contract",
    "tests/integration/test_dags.py",
    "tests/modes",
    "tests/system/test_deferral.py",
    "tests/unit/hooks",
    *(f"tests/unit/operators/test_{name}.py" for name in ("lineage", "outlets", "submit_chat")),
    "tests/unit/loads/test_rendered_sources.py",
    "tests/unit/observability",
    "tests/unit/sensors",
    "tests/unit/storage/test_opening.py",
    "tests/unit/triggers",
    "tests/unit/ui",
    *(f"tests/unit/test_{name}.py" for name in ("assets", "imports", "provider_info", "retry_policy")),
)
# Seconds for all tests, and for one; then the rest counts as not run. A busy machine takes four times as long.
LIMIT, LIMIT_OF_ONE = 3600, 600
SHOWN = ("aiohttp", "fastapi", "httpx", "pandas", "pyarrow", "pydantic", "sqlalchemy", "universal-pathlib")
# Those that are run and not imported are left out: a parser that wants arguments ends the process.
IMPORTS = """
import importlib, pkgutil, airflow_provider_assistant as package
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def main() -> int:
    """Try everything, keep what came of it, and return whether all is well."""
    result = {
        "airflow": version("apache-airflow-core"),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in SHOWN},
        "pip_check": _complaint([sys.executable, "-m", "uv", "pip", "check", "--python", sys.executable]),
        "imports": _complaint([sys.executable, "-c", IMPORTS]),
        "tests": _tests(),
    }
    file = result_file(_line(result["airflow"]), _line(result["python"]))
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{file.relative_to(ROOT)}: {json.dumps(result, indent=1)}")
    return 0 if is_good(result) else 1


def is_good(result: dict[str, Any]) -> bool:
    """Whether nothing is wrong with this pair."""
    tests = result["tests"]
    return not (result["pip_check"] or result["imports"] or tests["failed"] or tests["ended"] != "complete")


def _line(full: str) -> str:
    return ".".join(full.split(".")[:2])


def _complaint(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()[-2000:]


def _tests() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not nightly", "-p", "no:cacheprovider"]
        command += ["-n", "2", "--no-loadscope-reorder"]
        command += [f"--timeout={LIMIT_OF_ONE}", f"--junit-xml={report}", *(sys.argv[1:] or SUITES)]
        ended = _end_of(command)
        if not report.exists():
            return {"ended": f"{ended}, and left no report", "passed": 0, "failed": [], "skipped": {}, "seconds": 0}
        return {"ended": ended, **_counts(ET.parse(report).getroot())}


def _end_of(command: list[str]) -> str:
    """Run pytest; interrupt it when its time is up, so that it reports what it has got."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as running:
        try:
            code = running.wait(LIMIT)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
            return f"stopped after {LIMIT} s"
    return "complete" if code in {0, 1} else f"exit code {code}"


def _counts(report: ET.Element) -> dict[str, Any]:
    passed, failed, skipped = 0, [], Counter[str]()
    for case in report.iter("testcase"):
        if (skip := case.find("skipped")) is not None:
            skipped[skip.get("message", "")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        else:
            passed += 1
    seconds = sum(float(suite.get("time", 0)) for suite in report.iter("testsuite"))
    return {"passed": passed, "failed": failed, "skipped": dict(sorted(skipped.items())), "seconds": round(seconds)}


if __name__ == "__main__":
    sys.exit(main())
