"""Every operator works in an installation without pandas, which is not a dependency."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.operators.without_pandas import EVERY

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # runs forty tasks in a process of their own; tests/unit/test_imports.py has the imports
def test_no_task_needs_pandas(service, connection, ledger_home, tmp_path):
    service.behave(processing_seconds=0.01)
    pq.write_table(pa.Table.from_pylist(EVERY), tmp_path / "questions.parquet")
    lines = "".join(json.dumps(row, default=str) + "\n" for row in EVERY)
    (tmp_path / "questions.jsonl").write_text(lines)
    (tmp_path / "questions.csv").write_text("key,message,expected\nq1,Question?,Answer\n")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.operators.without_pandas", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW_HOME": str(ledger_home)},
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert len(json.loads(ended.stdout.splitlines()[-1])) > 40
