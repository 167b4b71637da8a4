"""``airflow assistant findings``: show the findings of a load."""

from __future__ import annotations

import argparse

from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.runner import OK, command
from airflow_provider_assistant.loading.findings import read_findings
from airflow_provider_assistant.storage.opening import usable_path


@command
def findings(out: Console, args: argparse.Namespace) -> int:
    """Show the rows of a findings file."""
    rows = read_findings(usable_path(args.file))
    if args.finding:
        rows = [row for row in rows if row["kind"] in args.finding]
    out.result(rows)
    if not rows:
        out.line("No findings.", GOOD)
        return OK
    cells = []
    for row in rows:
        document_ids = " ".join(row["document_ids"])
        cells.append((row["kind"], row["row"], row["key"], row["reason"], document_ids, row["group"]))
    out.table(("finding", "row", "key", "reason", "documents", "group"), cells)
    return OK
