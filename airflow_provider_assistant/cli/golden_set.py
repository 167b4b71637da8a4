"""``airflow assistant golden-set``: check a golden set, and draw a sample of it."""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_assistant.cli.ask import key_columns_of, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.golden_input import expectations_of
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.cells import as_texts
from airflow_provider_assistant.evaluation.golden_set import check_golden_set, golden_cases, losses_of
from airflow_provider_assistant.evaluation.sampling import stratified_sample
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.private_files import create_private
from airflow_provider_assistant.texts import counted

TAGS = "tags"
# Maximum number of findings in the text output. The JSON output has all of them.
SHOWN = 50


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at. Exit code 1 if there is anything."""
    golden = expectations_of(read_rows(args.file, args), args)
    gate = read_gate(args.gate, has_baseline=True)
    document_questions: list[str] = []
    if args.documents:
        documents = read_rows(args.documents, args)
        check_column("question", documents.column_names, f"--documents {args.documents}", "--documents")
        document_questions = [str(text) for text in documents["question"].to_pylist() if text]
    findings = check_golden_set(
        golden,
        key_columns=key_columns_of(golden, args),
        rules=gate.criteria.rules,
        documents=document_questions,
    )
    out.result([asdict(finding) for finding in findings])
    losses = losses_of(golden_cases(golden), gate.criteria.rules)
    shown = [(loss.rule, loss.questions, f"{loss.noticed:.3f}" if loss.noticed else "none") for loss in losses]
    if shown:
        out.table(("rule", "questions", "noticed loss"), shown)
    summary = f"questions: {golden.num_rows}, findings: {len(findings)}"
    if not findings:
        out.line(summary, GOOD)
        return OK
    cells = []
    for finding in findings[:SHOWN]:
        rows = ", ".join(map(str, finding.rows))
        cells.append((finding.finding, rows, ", ".join(finding.keys), finding.reason))
    out.table(("finding", "rows", "keys", "reason"), cells)
    if len(findings) > SHOWN:
        out.line(f"… and {len(findings) - SHOWN} more")
    out.line(summary, BAD)
    return WRONG


@command
def sample(out: Console, args: argparse.Namespace) -> int:
    """Draw a stratified sample and write it as CSV. Exit code 2 if the arguments do not fit the file."""
    golden = read_rows(args.file, args)
    check_column(args.by, (*golden.column_names, TAGS), args.file, "--by")
    rows = golden.to_pylist()
    strata = []
    for row in rows:
        values = as_texts(str(row.get("key")), args.by, _cell(row.get(args.by)))
        strata.append(values[0] if values else "")
    drawn_indexes = drawn(strata, args)
    drawn_rows = [rows[index] for index in drawn_indexes]
    _write_csv(args.to, golden.column_names, drawn_rows)
    rows_by_stratum = Counter(strata)
    drawn_by_stratum = Counter(strata[index] for index in drawn_indexes)
    out.result({"path": args.to, "rows": len(drawn_rows), "by": dict(drawn_by_stratum)})
    names = sorted(rows_by_stratum)
    cells = [(name, rows_by_stratum[name], drawn_by_stratum[name]) for name in names]
    out.table((args.by, "questions", "drawn"), cells)
    out.line(f"{args.to}: {len(drawn_rows)} of {counted(len(rows), 'question')}", GOOD)
    return OK


def check_column(name: str, columns: Iterable[str], where: str, field: str) -> None:
    """Check that a table has a column."""
    if name not in columns:
        raise AssistantInputError(f"{where}: there is no column {name}", field=field)


def drawn(strata: Sequence[str], args: argparse.Namespace) -> Sequence[int]:
    """Return the positions of a stratified sample of ``--size`` rows, by the group of each row."""
    try:
        return stratified_sample(strata, args.size, seed=args.seed)
    except ValueError as error:
        raise AssistantInputError(f"--size: {error}", field="--size") from None


def _write_csv(file: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    create_private(Path(file))
    with Path(file).open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = {name: _cell(value) for name, value in row.items()}
            writer.writerow(cells)


def _cell(value: Any) -> str:
    """Return a cell as the evaluation reads it from CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        # A bar between the items would not separate accepted answers, and items may contain one.
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
