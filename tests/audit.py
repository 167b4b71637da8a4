"""
Look up the tested dependencies in a vulnerability database: ``python -m tests.audit``, a part of ``make check``.

pip-audit looks up every version in constraints/airflow-3.3.txt. One package is looked up first: where the database
cannot be reached, the audit ends after this probe with NOT AUDITED and the check goes on, because nobody could run it
without a network. ``AUDIT=strict`` in the environment turns that into an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints" / "airflow-3.3.txt"
# Ids of vulnerabilities that do not affect this package, each with the reason.
IGNORED: dict[str, str] = {}
# Seconds for one package, and for all of them.
PROBE_TIMEOUT, TIMEOUT = 10, 300
CLEAN, VULNERABLE, UNKNOWN = 0, 1, 2
Run = Callable[..., subprocess.CompletedProcess[str]]


def audit(run: Run = subprocess.run) -> tuple[int, list[str]]:
    """
    Probe the database with one package, then look up all of them.

    :return: CLEAN, VULNERABLE or UNKNOWN, and lines that explain it.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as probe:
        probe.write(next(line for line in CONSTRAINTS.read_text().splitlines(keepends=True) if "==" in line))
        probe.flush()
        outcome, lines = _look_up(run, Path(probe.name), PROBE_TIMEOUT)
    return (outcome, lines) if outcome == UNKNOWN else _look_up(run, CONSTRAINTS, TIMEOUT)


def _look_up(run: Run, requirements: Path, timeout: int) -> tuple[int, list[str]]:
    """Look up every requirement of a file, within this many seconds."""
    command = (
        *(sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"),
        *("--format", "json", "--progress-spinner", "off", "--timeout", "5"),
        *(argument for name in IGNORED for argument in ("--ignore-vuln", name)),
    )
    try:
        done = run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return UNKNOWN, [f"no answer within {timeout} s"]
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN, [(done.stderr.strip() or "pip-audit printed nothing").splitlines()[-1]]
    skipped = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    if found:
        return VULNERABLE, found
    if skipped or not packages:
        # pip-audit exits with 0 even if it found none of the packages.
        example = f", such as {skipped[0]}" if skipped else ""
        return UNKNOWN, [f"{len(skipped)} of {len(packages)} packages could not be looked up{example}"]
    return CLEAN, [f"{len(packages)} packages, no known vulnerability"]


def main() -> int:
    """Print the result, and return an exit code."""
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
