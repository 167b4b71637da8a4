"""``airflow assistant golden-set label`` and ``agreement``: files in which people label answers, for judges."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from airflow_provider_assistant.cli.golden_input import read_answered
from airflow_provider_assistant.cli.golden_set import TAGS, check_column, drawn
from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.runner import OK, command
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cells import SEPARATOR
from airflow_provider_assistant.evaluation.judging.label_files import (
    agreement_of_raters,
    label_file,
    label_rows,
    majorities,
    read_label_files,
)
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.private_files import open_to_write
from airflow_provider_assistant.texts import counted


@command
def label(out: Console, args: argparse.Namespace) -> int:
    """Write answers to a file, for people to label them."""
    if Path(args.to).exists():
        raise AssistantInputError(
            f"{args.to} exists, and may hold labels that a person has filled in", todo="Give another file.", field="to"
        )
    _table, cases = read_answered(argparse.Namespace(**{**vars(args), "file": args.golden}))
    answered = [case for case in cases if case.answer is not None]
    if not answered:
        raise AssistantInputError(f"{args.answers} has no answers", field="answers")
    rows = label_rows(_drawn(answered, args), args.rater or "")
    content = label_file(rows, args.judge or (), delimiter=";" if args.semicolons else ",")
    with open_to_write(Path(args.to)) as file:
        file.write(content)
    unanswered = len(cases) - len(answered)
    out.result({"path": args.to, "answers": len(rows), "unanswered": unanswered})
    out.line(f"{args.to}: {counted(len(rows), 'answer')} to label, {unanswered} of {len(cases)} without one", GOOD)
    return OK


@command
def agreement(out: Console, args: argparse.Namespace) -> int:
    """Show how far people agree with each other."""
    labels = read_label_files(args.files)
    if not labels:
        raise AssistantInputError("the files have no label", todo="Write pass or fail into the column label.")
    decided = majorities(labels)
    passed = sum(majority.passes is True for majority in decided)
    ties = sum(majority.passes is None for majority in decided)
    failed = len(decided) - passed - ties
    counts = {"answers": len(decided), "labels": len(labels), "pass": passed, "fail": failed, "ties": ties}
    raters: list[dict[str, Any]] = []
    cells = []
    for (column, first, second), found in agreement_of_raters(labels).items():
        figures = {"both": found.labels, "kappa": found.kappa, "low": found.low, "high": found.high}
        raters.append({"column": column, "raters": [first, second], **figures})
        shown = ["" if value is None else f"{value:.2f}" for value in (found.kappa, found.low, found.high)]
        cells.append((column, first, second, found.labels, *shown))
    out.result({**counts, "raters": raters})
    out.table(("column", "rater", "rater", "both", "kappa", "low", "high"), cells)
    out.line(
        f"{counted(len(labels), 'label')} for {counted(len(decided), 'answer')}: {passed} pass, {failed} fail, "
        f"{counted(ties, 'tie')}",
        GOOD,
    )
    return OK


def _drawn(cases: list[Case], args: argparse.Namespace) -> list[Case]:
    """Return the answers of a stratified sample; all without ``--size``."""
    if args.size is None:
        return cases
    columns = {name for case in cases for name in case.row}
    check_column(args.by, {TAGS, *columns}, args.answers, "--by")
    strata = []
    for case in cases:
        group = case.tags[0] if args.by == TAGS and case.tags else str(case.row.get(args.by) or "")
        strata.append(group.partition(SEPARATOR)[0])
    return [cases[index] for index in drawn(strata, args)]
