"""``airflow assistant golden-set``: check a golden set, draw a sample of it, and propose cases from feedback."""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.cli.ask import key_columns_of, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.rows import csv_options, pairs
from airflow_provider_assistant.cli.runner import OK, WRONG, command
from airflow_provider_assistant.evaluation.golden_set import GoldenSetFinding, check_golden_set
from airflow_provider_assistant.evaluation.proposals import COLUMNS, Answered, Rating
from airflow_provider_assistant.evaluation.proposals import propose as propose_cases
from airflow_provider_assistant.evaluation.sampling import stratified_sample
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

TAGS, SEPARATOR = "tags", "|"
BAD_RATING = "bad"
# Maximum number of findings in the text output. The JSON output has all of them.
SHOWN = 50


@command
def check(out: Console, args: argparse.Namespace) -> int:
    """Write what a person should look at. Exit code 1 if there is anything."""
    golden = _golden_set(args.file, args)
    gate = read_gate(args.gate, has_baseline=True)
    found = check_golden_set(
        golden,
        key_columns=key_columns_of(golden, args),
        tags=[rule.tag for rule in gate.criteria.rules if rule.tag],
        documents=_questions(args.documents, args) if args.documents else (),
    )
    out.result([asdict(finding) for finding in found])
    if found:
        out.table(("finding", "rows", "keys", "reason"), [_finding_cells(one) for one in found[:SHOWN]])
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
    _write_csv(args.to, golden.column_names, (rows[row] for row in drawn))
    counts = Counter(strata)
    shares = Counter(strata[row] for row in drawn)
    out.result({"path": args.to, "rows": len(drawn), "by": dict(shares)})
    cells = [(name, counts[name], shares[name]) for name in sorted(counts)]
    out.table((args.by, "questions", "drawn"), cells)
    out.line(f"{args.to}: {len(drawn)} of {len(rows)} questions", GOOD)
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
    known = [message for file in args.golden or () for message in _messages(file, args)]
    ratings = [Rating(**row) for row in _rows_of(args.feedback, args, Rating._fields)]
    answers = _answers(args, {rating.request for rating in ratings})
    found = propose_cases(ratings, answers, known, words=args.rating or [BAD_RATING], limit=args.limit)
    if found.rows:
        _write_csv(args.to, COLUMNS, found.rows)
    path = args.to if found.rows else None
    out.result({"path": path, "ratings": found.ratings, "proposed": len(found.rows), **found.skipped})
    out.table(("skipped", "ratings"), [(reason.replace("_", " "), count) for reason, count in found.skipped.items()])
    out.line(f"{args.to if path else 'no file'}: {len(found.rows)} cases from {found.ratings} ratings", GOOD)
    return OK


def _questions(file: str, args: argparse.Namespace) -> list[str]:
    """Return the questions of the loaded Q&A documents."""
    rows = read_rows(file, args)
    if "question" not in rows.column_names:
        raise AssistantInputError(f"--documents {file}: there is no column question", field="--documents")
    return [str(text) for text in rows["question"].to_pylist() if text]


def _finding_cells(found: GoldenSetFinding) -> tuple[str, str, str, str]:
    rows = ", ".join(map(str, found.rows))
    return found.finding, rows, ", ".join(found.keys), found.reason


def _golden_set(file: str, args: argparse.Namespace) -> pa.Table:
    """Return a golden set; ``--column`` may name the column of the questions."""
    golden = read_rows(file, args)
    column = pairs("--column", args.column).get("message")
    if not column or column not in golden.column_names:
        return golden
    names = list(golden.column_names)
    names[names.index(column)] = "message"
    return golden.rename_columns(names)


def _messages(file: str, args: argparse.Namespace) -> list[str]:
    golden = _golden_set(file, args)
    if "message" not in golden.column_names:
        raise AssistantInputError(
            f"--golden {file}: there is no column message",
            todo="Name it with --column message=….",
            field="--golden",
        )
    return [str(text) for text in golden["message"].to_pylist() if text]


def _answers(args: argparse.Namespace, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Answered]:
    """Return the wanted answers by session and chat request."""
    found = {}
    for row in _rows_of(args.answers, args, ("session_id", "request_id", "message", "answer", "turn")):
        request = row["session_id"], row["request_id"]
        if request in wanted and row["message"] and row["answer"] is not None:
            found[request] = Answered(row["message"], row["answer"], _turn(row["turn"]))
    return found


def _turn(value: Any) -> int:
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
            if batch.problems:
                position, problem = next(iter(batch.problems.items()))
                raise AssistantInputError(f"{batch.place(position)} {problem}", field="file")
            cells = [batch.columns[name] for name in columns]
            for values in zip(*cells, strict=True):
                yield dict(zip(columns, values, strict=True))


def _write_csv(file: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with Path(file).open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> str:
    """Return a cell as the evaluation reads it from CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return SEPARATOR.join(map(str, value)) if isinstance(value, list) else str(value)
