"""Read golden sets, saved answers and gate files: the same arguments mean the same in every command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.asking.answers import COLUMNS
from airflow_provider_assistant.cli.rows import csv_options, pairs
from airflow_provider_assistant.evaluation.golden import Case, read_cases
from airflow_provider_assistant.evaluation.judge import Judge
from airflow_provider_assistant.evaluation.rules import DEFAULT_SCORERS, Criteria, parse_criteria
from airflow_provider_assistant.evaluation.scorers import Scorer, check_columns, scorers_of
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.tables import Columns, read_rows
from airflow_provider_assistant.tables.whole import table_of
from airflow_provider_assistant.texts import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

KEY, MESSAGE = "key", "message"
GATE_FIELDS = ("scorers", "judge", "pass_if", "gate", "refusal_phrases")
# Number of tags that a message lists.
LISTED = 20


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """
    A golden set.

    :param file: Path of the file, for messages.
    :param rows: The file as it is.
    :param table: The same with the question in the column ``message``, without the other columns of ``--column``.
    :param key_columns: Columns of the table that identify a question: ``--key``, else ``key``, else the message.
    :param key_columns_of_rows: The same in the file; empty if the message is the key.
    """

    file: str
    rows: pa.Table
    table: pa.Table
    key_columns: list[str]
    key_columns_of_rows: list[str]

    def cases(self) -> list[Case]:
        """Return the questions, without answers if the file has none; see :func:`cases_of`."""
        import pyarrow as pa

        table = self.table
        if "answer" not in table.column_names:
            table = table.append_column("answer", pa.nulls(table.num_rows, pa.string()))
        return cases_of(self.file, table, None, self.key_columns)


@dataclass(frozen=True, slots=True)
class GateFile:
    """The content of a gate file."""

    scorers: list[Scorer]
    criteria: Criteria
    judge: Judge


def read_golden(file: str, args: argparse.Namespace) -> GoldenSet:
    """
    Read a golden set, or saved answers, by the arguments of a command.

    :raises AssistantInputError: It cannot be read, or a column is missing.
    """
    rows = table_of(read_rows(file, Columns(rest=True), csv_options=csv_options(args)))
    if not rows.num_rows:
        raise AssistantInputError(f"{file} has no rows", safe=NOTHING_SENT, field="file")
    column_by_field = pairs("--column", args.column)
    message = column_by_field.pop(MESSAGE, MESSAGE)
    sent = set(column_by_field.values()) - {message}
    missing = sorted({message, *sent, *(args.key or ())} - set(rows.column_names))
    if missing:
        meant = did_you_mean(missing[0], rows.column_names)
        raise AssistantInputError(f"{file} has no column {', '.join(missing)}{meant}", safe=NOTHING_SENT, field="file")
    table = rows.drop_columns([name for name in rows.column_names if name in sent])
    table = table.rename_columns([MESSAGE if name == message else name for name in table.column_names])
    given = list(args.key or _default_key(table))
    key_columns = [MESSAGE if name == message else name for name in given]
    return GoldenSet(file, rows, table, key_columns or [MESSAGE], given)


def cases_of(file: str, answers: pa.Table, golden: GoldenSet | None, key_columns: list[str]) -> list[Case]:
    """
    Return the cases of answers and their expectations.

    :param file: Where the answers are from, for messages.
    :raises AssistantInputError: A cell cannot be read, a key is repeated, or the tables do not belong together.
    """
    try:
        return read_cases(answers, golden.table if golden else None, key_columns=key_columns)
    except AssistantInputError as error:
        todo = (error.todo or "").replace("key_columns", "--key")
        happened = f"{file}: {error.happened.removeprefix('answers: ')}"
        raise AssistantInputError(happened, safe=NOTHING_SENT, todo=todo, field=error.field) from error


def _default_key(table: pa.Table) -> list[str]:
    if KEY in table.column_names:
        return [KEY]
    for name in table.column_names:
        if name.strip().casefold() == KEY:
            raise AssistantInputError(
                f"column {name!r}: did you mean {KEY!r}? With this name, it does not identify the questions",
                todo=f"Rename it, or give --key {name!r}.",
                field="--key",
            )
    return []


def read_gate(path: str | None, *, has_baseline: bool) -> GateFile:
    """
    Read a gate file: a mapping with arguments of the operator.

    :param path: The file; None for the default scorers without rules.
    :raises AssistantInputError: The file is not such a mapping, or a scorer, the condition or a rule is invalid.
    """
    content = {} if path is None else _mapping_in(path)
    scorers = scorers_of(content.get("scorers") or DEFAULT_SCORERS, content.get("refusal_phrases") or ())
    names = [scorer.name for scorer in scorers]
    criteria = parse_criteria(content.get("pass_if"), content.get("gate") or [], names, has_baseline=has_baseline)
    return GateFile(scorers, criteria, Judge(content.get("judge"), names))


def _mapping_in(path: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        unknown = set(content) - set(GATE_FIELDS) if isinstance(content, dict) else ()
        problem = f"unknown fields {', '.join(sorted(map(str, unknown)))}" if unknown else "not a mapping"
    except OSError as error:
        problem, content = f"it cannot be read: {error.strerror}", None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem, content = f"not YAML: {error}", None
    if not isinstance(content, dict) or unknown:
        todo = f"A gate file has {', '.join(GATE_FIELDS)}."
        raise AssistantInputError(f"--gate {path}: {problem}", todo=todo, field="--gate")
    return content


def check_gate(gate: GateFile, cases: Sequence[Case], golden: GoldenSet | None = None) -> None:
    """
    Check that the questions have the tags of the rules and the columns of the scorers.

    :param golden: The golden set if its questions will be asked, so that the answers will have further columns.
    :raises AssistantInputError: No question has the tag of a rule, or a column is missing.
    """
    check_columns(gate.scorers, gate.criteria, cases, [*COLUMNS, *golden.rows.column_names] if golden else ())
    tags = {tag for case in cases for tag in case.tags}
    for rule in gate.criteria.rules:
        if rule.tag is not None and rule.tag not in tags:
            listed = ", ".join(sorted(tags)[:LISTED]) or "no tags"
            raise AssistantInputError(
                f"gate: {rule.text!r}: no question has the tag {rule.tag!r}; there are {listed}", field="gate"
            )
