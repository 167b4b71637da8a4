"""``airflow assistant findings``: show the findings of a load."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import OK, command
from airflow_provider_assistant.loading.findings import read_findings
from airflow_provider_assistant.storage.opening import usable_path


@command
def findings(out: Console, args: argparse.Namespace) -> int:
    """Show the rows of a findings file."""
    rows = [row for row in read_findings(usable_path(args.file)) if not args.finding or row["kind"] in args.finding]
    out.result(rows, rows, text=None if rows else "No findings.")
    return OK
