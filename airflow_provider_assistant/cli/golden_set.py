"""``airflow assistant golden-set``: check a golden set before it is asked."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from airflow_provider_assistant.cli.ask import key_columns_of, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.golden_set import check_golden_set
from airflow_provider_assistant.exceptions import AssistantInputError

# Maximum number of findings in the text output. The JSON output has all of them.
SHOWN = 50


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at. Exit code 1 if there is anything."""
    golden = read_rows(args.file, args)
    if (column := pairs("--column", args.column).get("message")) and column in golden.column_names:
        golden = golden.rename_columns(["message" if name == column else name for name in golden.column_names])
    gate = read_gate(args.gate, has_baseline=True)
    documents = []
    if args.documents:
        rows = read_rows(args.documents, args)
        if "question" not in rows.column_names:
            raise AssistantInputError(f"--documents {args.documents}: there is no column question", field="--documents")
        documents = [str(text) for text in rows["question"].to_pylist() if text]
    found = check_golden_set(
        golden,
        key_columns=key_columns_of(golden, args),
        tags=[rule.tag for rule in gate.criteria.rules if rule.tag],
        documents=documents,
    )
    out.result([asdict(finding) for finding in found])
    if found:
        shown = [(one.finding, ", ".join(map(str, one.rows)), ", ".join(one.keys), one.reason) for one in found[:SHOWN]]
        out.table(("finding", "rows", "keys", "reason"), shown)
    if len(found) > SHOWN:
        out.line(f"… and {len(found) - SHOWN} more")
    out.line(f"questions: {golden.num_rows}, findings: {len(found)}", BAD if found else GOOD)
    return WRONG if found else OK
