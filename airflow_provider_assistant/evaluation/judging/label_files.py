"""
Label files: answers for people to label in a spreadsheet, and their labels.

A file does not show what a judge says: people who know it agree with it. A row is about one answer, with all that a
person and a judge need, so its label stays true when the golden set changes.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import NamedTuple, TypeAlias

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.evaluation.agreement import agreement
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.judge_summary import Agreement
from airflow_provider_assistant.evaluation.judging.requests import Turns, passages_of
from airflow_provider_assistant.evaluation.judging.values import UnclearError, flag
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import reading
from airflow_provider_assistant.storage.source_files import storage_files
from airflow_provider_assistant.texts import for_spreadsheet, from_spreadsheet

# What a label is about: its column and the texts of its row.
Subject: TypeAlias = tuple[str, ...]

LABEL, RATER = "label", "rater"
_TEXTS = ("earlier_turns", "question", "answer", "expected", "expect_no_answer", "passages")
_USER, _ASSISTANT = "User: ", "Assistant: "
_TURN = re.compile(rf"^(?={_USER}|{_ASSISTANT})", re.MULTILINE)
# Words of labels besides those of judges. Spreadsheets translate true and false.
_PASSES = {
    **dict.fromkeys(("t", "y", "good", "wahr", "richtig", "vrai"), True),
    **dict.fromkeys(("f", "n", "bad", "falsch", "faux"), False),
}


class FileLabel(NamedTuple):
    """
    The label of one person for one answer.

    :param column: ``label``, or ``label.<rubric>`` if a file has labels for several judges.
    :param row: The texts of the row by column.
    """

    column: str
    rater: str
    row: Mapping[str, str]
    passes: bool

    @property
    def subject(self) -> Subject:
        """What the label is about. Labels of several people are about the same."""
        return self.column, *_texts(self.row)


class Majority(NamedTuple):
    """
    The labels of all people for one answer.

    :param passes: What most of them say; None for a tie.
    """

    label: FileLabel
    passes: bool | None


def label_rows(cases: Iterable[Case], rater: str = "") -> list[dict[str, str]]:
    """Return the rows of a label file: one for each answer, equal answers to equal questions once."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for case in cases:
        if case.answer is None:
            continue
        row = {
            "key": case.key,
            "earlier_turns": _text_of_turns(case.transcript),
            "question": case.message,
            "answer": case.answer,
            "expected": case.reference or "",
            "expect_no_answer": "" if case.expect_no_answer is None else str(case.expect_no_answer).lower(),
            "passages": "\n\n".join(passages_of(case.key, case.row.get("passages"))),
            RATER: rater,
        }
        rows.setdefault(_texts(row), row)
    return list(rows.values())


def label_file(rows: Sequence[Mapping[str, str]], rubrics: Sequence[str] = (), *, delimiter: str = ",") -> bytes:
    """
    Return the content of a label file: CSV in UTF-8 with a byte order mark, which spreadsheets need.

    :param rubrics: Names of the rubrics, if there is a column for each.
    """
    labels = [f"{LABEL}.{name}" for name in rubrics] or [LABEL]
    columns = ["key"]
    for name in _TEXTS:
        is_optional = name in {"earlier_turns", "expect_no_answer", "passages"}
        if not is_optional or any(row.get(name) for row in rows):
            columns.append(name)
    columns += [*labels, RATER, "note"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, delimiter=delimiter, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: for_spreadsheet(cell) for name, cell in row.items()})
    return text.getvalue().encode("utf-8-sig")


def read_label_files(files: str | Sequence[str]) -> list[FileLabel]:
    """
    Return the labels of files.

    :param files: A path, a folder or a glob, or several.
    :raises AssistantInputError: There are no files, or one is not a label file.
    """
    paths = [path for _name, path in storage_files(files)]
    paths_by_name = Counter(path.name for path in paths)
    labels = []
    for path in paths:
        with reading(path):
            content = path.read_bytes()
        # The name is that of a person, if it is the only one.
        name = path.name if paths_by_name[path.name] == 1 else str(path)
        labels += read_labels(name, content)
    return labels


def read_labels(name: str, content: bytes) -> list[FileLabel]:
    """
    Return the labels of a file. Rows without a label have none.

    :param name: Name of the file, for messages. It is the rater of rows whose column ``rater`` is empty.
    :raises AssistantInputError: The file is not CSV in a known encoding, lacks a column, or a label is another word.
    """
    try:
        text = strict_json.decoded(content)
    except ValueError as error:
        raise _refused(f"{name}: it is not text in UTF-8", "Save it as CSV UTF-8.") from error
    first_line = text.partition("\n")[0]
    # Spreadsheets choose the delimiter by their language.
    delimiter = max(",;\t", key=first_line.count)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows = list(reader)
    except csv.Error as error:
        raise _refused(f"{name}: it is not CSV: {error}") from error
    names = reader.fieldnames or ()
    columns = [column for column in names if column.partition(".")[0] == LABEL]
    missing = [column for column in ("question", "answer") if column not in names]
    if not columns:
        missing.append(LABEL)
    if missing:
        raise _refused(f"{name} has no column {', '.join(missing)}", "Write it with 'golden-set label'.")
    labels = []
    for number, cells in enumerate(rows, start=2):
        row = {column: from_spreadsheet(cell or "") for column, cell in cells.items() if isinstance(cell, str | None)}
        for column in columns:
            passes = passes_of(row[column], f"{name}, row {number}: {column}")
            if passes is not None:
                labels.append(FileLabel(column, row.get(RATER, "").strip() or name, row, passes))
    return labels


def majorities(labels: Iterable[FileLabel]) -> list[Majority]:
    """Return what most people say about each answer. Equal labels of one person count once."""
    labels_by_subject: defaultdict[Subject, list[FileLabel]] = defaultdict(list)
    for label in labels:
        labels_by_subject[label.subject].append(label)
    found = []
    for same in labels_by_subject.values():
        votes = Counter(passes for _rater, passes in {(label.rater, label.passes) for label in same})
        passes = None if votes[True] == votes[False] else votes[True] > votes[False]
        found.append(Majority(same[0], passes))
    return found


def agreement_of_raters(labels: Iterable[FileLabel]) -> dict[tuple[str, str, str], Agreement]:
    """Return the agreement of every two people, by column and their names, over the answers that both labelled."""
    passes_by_rater: defaultdict[tuple[str, str], dict[Subject, bool]] = defaultdict(dict)
    for label in labels:
        passes_by_rater[label.column, label.rater][label.subject] = label.passes
    found = {}
    for (column, first), (other_column, second) in combinations(sorted(passes_by_rater), 2):
        if column != other_column:
            continue
        of_first, of_second = passes_by_rater[column, first], passes_by_rater[column, second]
        both = [(of_first[subject], of_second[subject]) for subject in of_first if subject in of_second]
        found[column, first, second] = agreement(both)
    return found


def turns_in(text: str) -> Turns:
    """Return the earlier turns that :func:`label_rows` wrote."""
    turns: list[tuple[str, str | None]] = []
    for part in _TURN.split(text):
        said = part.strip().replace("\n  ", "\n")
        if said.startswith(_USER.strip()):
            turns.append((said.removeprefix(_USER.strip()).lstrip(" "), None))
        elif turns and said:
            turns[-1] = (turns[-1][0], said.removeprefix(_ASSISTANT.strip()).lstrip(" "))
    return tuple(turns)


def passes_of(cell: str | None, place: str) -> bool | None:
    """
    Return whether an answer passes by a label; None if the cell is empty.

    :param place: The cell, for messages.
    :raises AssistantInputError: The cell has another word.
    """
    text = (cell or "").strip()
    if not text:
        return None
    if text.casefold() in _PASSES:
        return _PASSES[text.casefold()]
    word = None
    with suppress(UnclearError):
        word = flag(text, None)
    if word is None:
        raise _refused(f"{place} must be pass, fail or empty, not {text[:50]!r}")
    return word == "pass"


def _texts(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a row is about, without its key."""
    return tuple(row.get(name, "").strip() for name in _TEXTS)


def _text_of_turns(turns: Turns) -> str:
    lines = []
    for message, answer in turns:
        lines.append(_USER + _indented(message))
        if answer is not None:
            lines.append(_ASSISTANT + _indented(answer))
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n  ".join(text.strip().splitlines())


def _refused(happened: str, todo: str | None = None) -> AssistantInputError:
    return AssistantInputError(happened, todo=todo, field="labels")
