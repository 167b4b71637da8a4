"""``airflow assistant golden-set check``: what a person should look at in a golden set."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.golden_input import check_gate, read_gate, read_golden
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.golden_check import check_golden_set


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at; exit code 1 if there is anything, 2 for what ``evaluate`` would refuse."""
    golden = read_golden(args.file, args)
    gate = read_gate(args.gate, has_baseline=True)
    cases = golden.cases()
    check_gate(gate, cases, golden)
    findings = [finding._asdict() for finding in check_golden_set(cases)]
    text = f"questions: {len(cases)}, findings: {len(findings)}"
    out.result(findings, findings, text=text, style=BAD if findings else GOOD)
    return WRONG if findings else OK
