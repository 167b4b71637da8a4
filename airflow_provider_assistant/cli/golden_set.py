"""``airflow assistant golden-set check``: what a person should look at in a golden set."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from airflow_provider_assistant.cli.golden_input import read_gate, read_golden
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.golden_check import check_golden_set

# Most findings in the text output. The JSON output has all of them.
SHOWN = 50


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at. Exit code 1 if there is anything."""
    golden = read_golden(args.file, args)
    gate = read_gate(args.gate, has_baseline=True)
    findings = check_golden_set(golden.table, golden.key_columns, gate.criteria.rules)
    out.result([asdict(finding) for finding in findings])
    cells = []
    for finding in findings[:SHOWN]:
        rows = ", ".join(map(str, finding.rows))
        cells.append((finding.finding, rows, ", ".join(finding.keys), finding.reason))
    if cells:
        out.table(("finding", "rows", "keys", "reason"), cells)
    if len(findings) > SHOWN:
        out.line(f"… and {len(findings) - SHOWN} more")
    out.line(f"questions: {golden.table.num_rows}, findings: {len(findings)}", BAD if findings else GOOD)
    return WRONG if findings else OK
