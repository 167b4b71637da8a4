"""
Are there known vulnerabilities in what the tests run with: ``python -m tests.audit``, a part of ``make check``.

pip-audit looks up every version of constraints/airflow-3.3.txt. Where it cannot ask, that is said, and the check goes
on: without a network nobody could run it. ``AUDIT=strict`` in the environment makes that an error, where there is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints" / "airflow-3.3.txt"
# Of vulnerabilities that do not concern this package, with the reason.
IGNORED: dict[str, str] = {}
TIMEOUT = 300
CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2
COMMAND = (
    *(sys.executable, "-m", "pip_audit", "--requirement", str(CONSTRAINTS), "--no-deps", "--disable-pip"),
    *("--format", "json", "--progress-spinner", "off", "--timeout", "15"),
    *(argument for name in IGNORED for argument in ("--ignore-vuln", name)),
)


def audit(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> tuple[int, list[str]]:
    """Return what came of it, CLEAN, VULNERABLE or UNKNOWN, and what to say."""
    try:
        done = run(COMMAND, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return UNKNOWN, [f"no answer within {TIMEOUT} s"]
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN, [(done.stderr.strip() or "pip-audit said nothing").splitlines()[-1]]
    skipped = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, "
        f"mended in {', '.join(flaw['fix_versions']) or 'no version'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    if found:
        return VULNERABLE, found
    if skipped or not packages:
        # pip-audit itself ends well even where it has found none of the packages.
        example = f", such as {skipped[0]}" if skipped else ""
        return UNKNOWN, [f"{len(skipped)} of {len(packages)} packages could not be looked up{example}"]
    return CLEAN, [f"{len(packages)} packages, no known vulnerability"]


def main() -> int:
    """Say it, and return an exit code."""
    outcome, lines = audit()
    title = {CLEAN: "Audited", VULNERABLE: "VULNERABLE", UNKNOWN: "NOT AUDITED"}[outcome]
    for line in lines:
        print(f"{title}: {line}", file=sys.stderr if outcome else sys.stdout)
    if outcome == UNKNOWN and os.environ.get("AUDIT") != "strict":
        print("The check goes on; AUDIT=strict makes this an error.", file=sys.stderr)
        return 0
    return outcome


if __name__ == "__main__":
    sys.exit(main())
