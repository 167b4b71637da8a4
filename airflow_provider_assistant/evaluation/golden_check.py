"""Check a golden set: repeated keys, questions without an expectation, contradictions, tags without questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_provider_assistant.evaluation.golden import Case, read_cases
from airflow_provider_assistant.evaluation.text import has_phrase, regular_expression
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.rules import Rule

_EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer")
# Name of an added column, which no table of a user has.
_ROW = "\0row"
_QUOTED = 60


@dataclass(frozen=True, slots=True)
class GoldenSetFinding:
    """
    Something in a golden set that a person should look at.

    :param keys: Keys of the questions concerned; empty for a tag.
    :param rows: Numbers of their rows, from 1.
    """

    finding: Literal["no_key", "duplicate_key", "no_expectation", "contradiction", "tag_without_questions"]
    keys: tuple[str, ...]
    rows: tuple[int, ...]
    reason: str


def check_golden_set(
    golden: pa.Table, key_columns: Sequence[str], rules: Sequence[Rule] = ()
) -> list[GoldenSetFinding]:
    """
    Return what a person should look at, grouped by kind, in the order of the rows.

    :param golden: Table with the column ``message`` and some of the expectations.
    :param rules: Rules of a gate.
    :raises AssistantInputError: A column is missing, or a cell cannot be read.
    """
    missing = [name for name in dict.fromkeys(("message", *key_columns)) if name not in golden.column_names]
    if missing:
        raise AssistantInputError(f"the golden set has no column {', '.join(missing)}", field="file")
    keys = _keys(golden, key_columns)
    cases = _numbered_cases(golden)
    return [
        *_key_findings(keys),
        *_without_expectation(keys, cases),
        *_contradictions(keys, cases),
        *_tags_without_questions(cases, rules),
    ]


def _keys(golden: pa.Table, key_columns: Sequence[str]) -> list[str | None]:
    """Return the key of each row, or None if a part of it is empty."""
    columns = [key_column(golden[name].to_pylist())[0] for name in key_columns]
    rows = zip(*columns, strict=True)
    return [None if None in parts else key_label(key_columns, parts) for parts in rows]


def _numbered_cases(golden: pa.Table) -> list[Case]:
    """Return the questions; the number of its row is the key of each, because repeated keys are a finding here."""
    import pyarrow as pa

    numbered = golden.append_column(_ROW, pa.array(range(1, golden.num_rows + 1)))
    if "answer" not in golden.column_names:
        numbered = numbered.append_column("answer", pa.nulls(golden.num_rows, pa.string()))
    return read_cases(numbered, key_columns=_ROW)


def _key_findings(keys: Sequence[str | None]) -> Iterator[GoldenSetFinding]:
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys, 1):
        if key is None:
            yield GoldenSetFinding("no_key", ("",), (row,), "the key is empty")
        else:
            rows[key].append(row)
    for key, found in rows.items():
        if len(found) > 1:
            reason = f"{counted(len(found), 'row')} with this key"
            yield GoldenSetFinding("duplicate_key", (key,) * len(found), tuple(found), reason)


def _without_expectation(keys: Sequence[str | None], cases: Sequence[Case]) -> Iterator[GoldenSetFinding]:
    for row, case in enumerate(cases):
        if not any(getattr(case, name) not in {None, ()} for name in _EXPECTATIONS):
            reason = f"none of {', '.join(_EXPECTATIONS)} is given"
            yield GoldenSetFinding("no_expectation", (keys[row] or "",), (row + 1,), reason)


def _contradictions(keys: Sequence[str | None], cases: Sequence[Case]) -> Iterator[GoldenSetFinding]:
    """Yield the expectations that the expected answer itself, or no answer at all, fulfils."""
    for row, case in enumerate(cases):
        for reason in _reasons(case):
            yield GoldenSetFinding("contradiction", (keys[row] or "",), (row + 1,), reason)


def _reasons(case: Case) -> Iterator[str]:
    if case.expect_no_answer and case.expected:
        yield "expect_no_answer is true, and there is an expected answer"
    for answer in case.expected:
        for phrase in case.must_include:
            if not has_phrase(answer, phrase):
                yield f"the expected answer {shortened(answer, _QUOTED)!r} lacks {phrase!r} of must_include"
    phrases = [phrase for phrase in case.must_include if regular_expression(phrase) is None]
    for text in (*case.expected, *phrases):
        for forbidden in case.must_not_include:
            if has_phrase(text, forbidden):
                yield f"{shortened(text, _QUOTED)!r} is expected and has {forbidden!r} of must_not_include"


def _tags_without_questions(cases: Sequence[Case], rules: Sequence[Rule]) -> Iterator[GoldenSetFinding]:
    used = {tag for case in cases for tag in case.tags}
    for tag in dict.fromkeys(rule.tag for rule in rules if rule.tag):
        if tag not in used:
            reason = f"a rule of the gate names the tag {tag!r}, and no question has it"
            yield GoldenSetFinding("tag_without_questions", (), (), reason)
