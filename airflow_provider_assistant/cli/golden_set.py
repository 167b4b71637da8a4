"""``airflow assistant golden-set``: check a golden set, draw a sample of it, and propose cases from feedback."""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.cli.ask import key_columns_of, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.golden_input import expectations_of
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.rows import csv_options
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.cells import as_texts
from airflow_provider_assistant.evaluation.golden_set import check_golden_set, golden_cases, losses_of
from airflow_provider_assistant.evaluation.proposals import COLUMNS, Answered, Rating
from airflow_provider_assistant.evaluation.proposals import propose as propose_cases
from airflow_provider_assistant.evaluation.sampling import stratified_sample
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.storage.private_files import create_private

if TYPE_CHECKING:
    import pyarrow as pa

TAGS = "tags"
BAD_RATING = "bad"
# Maximum number of findings in the text output. The JSON output has all of them.
SHOWN = 50


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at. Exit code 1 if there is anything."""
    golden = expectations_of(read_rows(args.file, args), args)
    gate = read_gate(args.gate, has_baseline=True)
    document_questions: list[str] = []
    if args.documents:
        document_questions = _texts(read_rows(args.documents, args), "question", f"--documents {args.documents}")
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
    if args.by not in golden.column_names and args.by != TAGS:
        raise AssistantInputError(f"{args.file}: there is no column {args.by}", field="--by")
    rows = golden.to_pylist()
    strata = []
    for row in rows:
        values = as_texts(str(row.get("key")), args.by, _cell(row.get(args.by)))
        strata.append(values[0] if values else "")
    try:
        drawn_indexes = stratified_sample(strata, args.size, seed=args.seed)
    except ValueError as error:
        raise AssistantInputError(f"--size: {error}", field="--size") from None
    drawn_rows = [rows[index] for index in drawn_indexes]
    _write_csv(args.to, golden.column_names, drawn_rows)
    rows_by_stratum = Counter(strata)
    drawn_by_stratum = Counter(strata[index] for index in drawn_indexes)
    out.result({"path": args.to, "rows": len(drawn_rows), "by": dict(drawn_by_stratum)})
    names = sorted(rows_by_stratum)
    cells = [(name, rows_by_stratum[name], drawn_by_stratum[name]) for name in names]
    out.table((args.by, "questions", "drawn"), cells)
    out.line(f"{args.to}: {len(drawn_rows)} of {len(rows)} questions", GOOD)
    return OK


@command
def propose(out: Console, args: argparse.Namespace) -> int:
    """Write questions whose answers were rated bad as CSV, for a person to fill in the expectations."""
    if args.limit < 1:
        raise AssistantInputError(f"--limit must be at least 1, not {args.limit}", field="--limit")
    if Path(args.to).exists():
        raise AssistantInputError(
            f"{args.to} exists, and may hold expectations that a person has filled in",
            todo="Give another file, and this one as --golden.",
            field="to",
        )
    golden_questions: list[str] = []
    for file in args.golden or ():
        golden = expectations_of(read_rows(file, args), args)
        golden_questions += _texts(golden, "message", f"--golden {file}", "Name it with --column message=….")
    ratings = [Rating(**row) for row in _rows_of(args.feedback, args, Rating._fields)]
    answers = _answers(args, {rating.request for rating in ratings})
    bad_ratings = args.rating or [BAD_RATING]
    proposals = propose_cases(ratings, answers, golden_questions, words=bad_ratings, limit=args.limit)
    path = None
    if proposals.rows:
        path = args.to
        _write_csv(path, COLUMNS, proposals.rows)
    count = len(proposals.rows)
    out.result({"path": path, "ratings": proposals.ratings, "proposed": count, **proposals.skipped})
    skipped = [(reason.replace("_", " "), ratings) for reason, ratings in proposals.skipped.items()]
    out.table(("skipped", "ratings"), skipped)
    out.line(f"{path or 'no file'}: {count} cases from {proposals.ratings} ratings", GOOD)
    return OK


def _texts(table: pa.Table, column: str, where: str, todo: str | None = None) -> list[str]:
    """
    Return the texts of a column that are not empty.

    :param where: Argument and file, for the message.
    """
    if column not in table.column_names:
        flag, _, _ = where.partition(" ")
        raise AssistantInputError(f"{where}: there is no column {column}", todo=todo, field=flag)
    return [str(text) for text in table[column].to_pylist() if text]


def _answers(args: argparse.Namespace, rated_requests: Collection[tuple[str, str]]) -> dict[tuple[str, str], Answered]:
    """Return the answers to rated chat requests, by session and chat request."""
    answers = {}
    columns = ("session_id", "request_id", "message", "answer", "turn")
    for row in _rows_of(args.answers, args, columns):
        request = row["session_id"], row["request_id"]
        if request in rated_requests and row["message"] and row["answer"] is not None:
            answers[request] = Answered(row["message"], row["answer"], _turn(row["turn"]))
    return answers


def _turn(value: Any) -> int:
    """Return the turn of an answer: 1 if the cell is empty."""
    if is_missing(value) or value == "":
        return 1
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AssistantInputError(f"answers: turn must be a whole number, not {value!r}", field="turn") from None


def _rows_of(file: str, args: argparse.Namespace, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield some columns of all rows of a file, folder or glob."""
    with open_source(file, ColumnSelection((), any=columns), csv_options=csv_options(args)) as source:
        for batch in source.batches():
            for position, problem in batch.problems_of(columns).items():
                raise AssistantInputError(f"{batch.place(position)} {problem}", field="file")
            cells_by_column = [batch.columns[name] for name in columns]
            for row_cells in zip(*cells_by_column, strict=True):
                yield dict(zip(columns, row_cells, strict=True))


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
