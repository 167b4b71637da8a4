"""
Find tests that fail by chance: ``make flaky``.

Runs the tests without live Airflows 10 times and the whole suite 3 times, in random order, while two busy loops
compete for the cores. Prints the seed of each run, and every test that ever failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LOOPS = 2
# More workers than make test has: each test waits longer for a core, and less time goes to the busy loops.
WORKERS = ("-n", "8", "--no-loadscope-reorder")


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep this many processes busy; they end with this process at the latest."""
    processes = [multiprocessing.Process(target=_spin, args=(os.getpid(),), daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _spin(parent: int) -> None:
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


def run(seed: int, arguments: Sequence[str], folder: Path) -> tuple[int, list[str], float]:
    """Run the tests once; return pytest's exit code, the tests that failed, and the seconds it took."""
    report, log = folder / f"{seed}.xml", folder / f"{seed}.log"
    started = time.monotonic()
    with log.open("w") as output:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", *WORKERS, "-p", "randomly", f"--randomly-seed={seed}"),
                *(f"--junitxml={report}", *arguments),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, failures(report) if report.exists() else [], time.monotonic() - started


def failures(report: Path) -> list[str]:
    """Return the tests of a JUnit report that failed or had an error."""
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main() -> int:
    """Run all rounds, and return 1 if a run or a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="runs without live Airflows (default: 10)")
    parser.add_argument("--whole", type=int, default=3, help="runs of the whole suite (default: 3)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6), help="the first seed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flaky-"))
    plans = [("without live Airflows", ("-m", "not system and not slow"))] * options.rounds
    plans += [("whole suite", ("-m", "not slow"))] * options.whole
    failed: dict[str, list[int]] = defaultdict(list)
    codes = []
    print(f"{len(plans)} runs beside {LOOPS} busy loops; logs in {folder}", flush=True)
    with busy(LOOPS):
        for seed, (name, arguments) in enumerate(plans, options.seed):
            code, tests, seconds = run(seed, arguments, folder)
            codes.append(code)
            for test in tests:
                failed[test].append(seed)
            print(f"seed {seed}, {name}: exit code {code}, {len(tests)} failed, {seconds:.0f} s", flush=True)
    for test, seeds in sorted(failed.items()):
        print(f"FAILED {len(seeds)} of {len(plans)}: {test} (seeds {', '.join(map(str, seeds))})")
    print(f"{codes.count(0)} of {len(plans)} runs are green, {len(failed)} tests ever failed")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
