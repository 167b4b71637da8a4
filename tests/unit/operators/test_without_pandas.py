"""Every operator works in an installation without pandas, which is not a dependency."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODES = "tests/modes/test_modes.py::test_a_task_does_the_same_in_many_modes"


@pytest.mark.nightly  # runs tests/modes in a separate process; tests/unit/test_imports.py has the imports
def test_no_task_needs_pandas():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.modes.without_pandas", MODES]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stdout[-4000:]
