"""``airflow assistant golden-set``: check a golden set before it is asked, and draw a sample of it."""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_assistant.cli.ask import key_columns_of, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.golden_set import check_golden_set
from airflow_provider_assistant.evaluation.sampling import stratified_sample
from airflow_provider_assistant.exceptions import AssistantInputError

TAGS, SEPARATOR = "tags", "|"
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


@command
def sample(out: Console, args: argparse.Namespace) -> int:
    """Draw a stratified sample and write it as CSV. Exit code 2 if the arguments do not fit the file."""
    golden = read_rows(args.file, args)
    if args.by not in golden.column_names and args.by != TAGS:
        raise AssistantInputError(f"{args.file}: there is no column {args.by}", field="--by")
    rows = golden.to_pylist()
    strata = [_cell(row.get(args.by)).partition(SEPARATOR)[0] for row in rows]
    try:
        drawn = stratified_sample(strata, args.size, seed=args.seed)
    except ValueError as error:
        raise AssistantInputError(f"--size: {error}", field="--size") from None
    with Path(args.to).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, golden.column_names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in rows[row].items()} for row in drawn)
    counts, shares = Counter(strata), Counter(strata[row] for row in drawn)
    out.result({"path": args.to, "rows": len(drawn), "by": dict(shares)})
    out.table((args.by, "questions", "drawn"), [(name, counts[name], shares[name]) for name in sorted(counts)])
    out.line(f"{args.to}: {len(drawn)} of {len(rows)} questions", GOOD)
    return OK


def _cell(value: Any) -> str:
    """Return a cell as the evaluation reads it from CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return SEPARATOR.join(map(str, value)) if isinstance(value, list) else str(value)
