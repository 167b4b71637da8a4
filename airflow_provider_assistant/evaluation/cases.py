"""Join questions, answers and expectations into cases, the input of the scorers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.addresses import is_address
from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.transcripts import with_transcripts
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing, key_column, key_label, key_names
from airflow_provider_assistant.texts import counted, storable

if TYPE_CHECKING:
    import pyarrow as pa

NOT_ASKED = "not_asked"
EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer", "weight", "tags")
# Separates the phrases of one cell, because CSV has no lists.
SEPARATOR = "|"
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NAMED = 5
# Beyond this, floats are approximations, and a Decimal may have millions of digits.
LARGE = 2**63


def read_cases(
    answers: pa.Table, expectations: pa.Table | None = None, *, key_columns: str | Sequence[str] = "key"
) -> list[Case]:
    """
    Return the questions in the order of the answers, followed by those that were not asked.

    If the answers have a column ``repetition``, each of its numbers is a case of its own; the expectations of a
    question are those of all its repetitions.

    If both tables have a column, those in ``EXPECTATIONS`` are taken from the expectations, others from the answers. A
    cell with several phrases or tags is a list, or text separated by ``|``. An empty cell means no expectation.

    :param answers: Table with the columns of the key, ``answer``, and optionally the other columns of a chat batch.
        Without the column ``status``, a question with an answer is ``complete`` and any other ``failed``.
    :param expectations: Table with the columns of the key and some of ``EXPECTATIONS``. Default: None, they are columns
        of ``answers``.
    :param key_columns: Column or columns that identify a question, in both tables. Default: ``key``.
    :return: The cases.
    :raises AssistantInputError: A column is missing, a key is empty or a duplicate, the tables have no key in common, a
        question has a different text in the two tables, or a cell of ``EXPECTATIONS``, ``seconds`` or ``repetition`` is
        invalid.
    """
    import pyarrow as pa

    # A reader of files leaves free memory of about the size of the table. Without this, Python cannot use it.
    pa.default_memory_pool().release_unused()
    names = key_names(key_columns)
    if "answer" not in answers.column_names:
        raise AssistantInputError(f"answers have no column 'answer', only {_listed(answers.column_names)}")
    answered = _keyed(answers, names, "answers")
    expected: dict[str, dict[str, Any]] = {}
    if expectations is not None:
        rows = _keyed(expectations, names, "expectations")
        expected = {key: row for (key, _), row in rows.items()}
        _check_pair(answered, expected, expectations.column_names)
    cases = []
    for (key, repetition), row in answered.items():
        cases.append(_case(key, _joined(row, expected.get(key)), repetition))
    asked = {key for key, _ in answered}
    not_asked = []
    for key, row in expected.items():
        if key not in asked:
            unanswered = {"answer": None, "status": NOT_ASKED, "error": "it is not among the answers"}
            not_asked.append(_case(key, {**row, **unanswered}))
    return with_transcripts(cases) + not_asked


def _keyed(table: pa.Table, names: Sequence[str], what: str) -> dict[Identity, dict[str, Any]]:
    """Return the rows by key, in its readable form, and repetition; expectations have no repetitions."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise AssistantInputError(
            f"{what} have no column {_listed(missing)}, only {_listed(table.column_names)}",
            todo="Give key_columns the columns that identify a question, in answers and in expectations.",
            field="key_columns",
        )
    if not names:
        raise AssistantInputError("key_columns must name at least one column", field="key_columns")
    rows = table.to_pylist()
    columns = [key_column(row[name] for row in rows)[0] for name in names]
    empty: list[int] = []
    twice: dict[str, None] = {}
    found: dict[Identity, dict[str, Any]] = {}
    for number, (row, *texts) in enumerate(zip(rows, *columns, strict=True), start=1):
        if None in texts:
            empty.append(number)
            continue
        key = key_label(names, texts)
        identity = key, _repetition(key, row) if what == "answers" else 1
        if identity in found:
            twice[key] = None
        found[identity] = row
    if empty:
        raise AssistantInputError(
            f"{what}: {_listed(names)} is empty in {counted(len(empty), 'row')}, such as number {_listed(empty)}",
            field="key_columns",
        )
    if twice:
        raise AssistantInputError(
            f"{what}: {counted(len(twice), 'duplicate key')}, such as {_listed(twice)}",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    return found


def _repetition(key: str, row: Mapping[str, Any]) -> int:
    """Return the number of a repetition. An answer without the column is the first."""
    number = _number(key, "repetition", row.get("repetition"))
    if number is None:
        return 1
    if number < 1 or not number.is_integer():
        raise _unreadable(key, "repetition", row.get("repetition"), "a whole number from 1")
    return int(number)


def _check_pair(
    answered: Mapping[Identity, Mapping[str, Any]],
    expected: Mapping[str, Mapping[str, Any]],
    columns: Sequence[str],
) -> None:
    if not set(columns) & set(EXPECTATIONS):
        raise AssistantInputError(
            f"expectations have none of the columns {_listed(EXPECTATIONS)}, only {_listed(columns)}",
            field="expectations",
        )
    asked = {key: row for (key, _), row in answered.items()}
    if asked and expected and not asked.keys() & expected.keys():
        raise AssistantInputError(
            f"answers and expectations have no key in common: {_listed(asked)} in the answers, {_listed(expected)} in "
            "the expectations",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    other = [key for key, row in expected.items() if key in asked and _differ(row, asked[key])]
    if other:
        raise AssistantInputError(
            f"{counted(len(other), 'question')} with a different text in the expectations, such as "
            f"{_listed(other)}: their answers cannot be scored against these expectations",
            todo="Ask them again.",
            field="expectations",
        )


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    mine, yours = _text(one.get("message")), _text(other.get("message"))
    return mine is not None and yours is not None and mine.split() != yours.split()


def _joined(answered: Mapping[str, Any], expected: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if expected is None:
        return answered
    expectations = {name: expected[name] for name in EXPECTATIONS if name in expected}
    return {**expected, **answered, **expectations}


def _case(key: str, row: Mapping[str, Any], repetition: int = 1) -> Case:
    answer = row["answer"]
    status = _text(row.get("status"))
    if status is None:
        status = "complete" if _text(answer) else "failed"
    return Case(
        key=key,
        message=_text(row.get("message")) or key,
        # A complete request without text counts as an empty answer.
        answer=("" if answer is None else str(answer)) if status == "complete" else None,
        status=status,
        error=_text(row.get("error")),
        seconds=_number(key, "seconds", row.get("seconds")),
        session_id=_text(row.get("session_id")),
        request_id=_text(row.get("request_id")),
        expected=_text(row.get("expected")),
        must_include=_several(key, "must_include", row.get("must_include")),
        must_not_include=_several(key, "must_not_include", row.get("must_not_include")),
        expected_url=_addresses(key, row.get("expected_url")),
        expect_no_answer=truth(key, "expect_no_answer", row.get("expect_no_answer")),
        weight=_weight(key, row.get("weight")),
        tags=_several(key, "tags", row.get("tags")),
        row=row,
        noticed_after=_number(key, "noticed_after", row.get("noticed_after")),
        repetition=repetition,
    )


def _text(value: Any) -> str | None:
    """Return a cell as text, or None if it is empty."""
    if type(value) is str and value.isascii():
        # Not a copy: the texts are most of the memory of an evaluation.
        return value if value.strip() else None
    if is_missing(value):
        return None
    # pandas turns an integer column with missing values into floats.
    is_whole = isinstance(value, float | Decimal) and -LARGE < value < LARGE and value == int(value)
    text = storable(str(int(value) if is_whole else value))
    return text if text.strip() else None


def _several(key: str, column: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        text = (_text(value) or "").strip()
        if text.startswith("[") and text.endswith("]"):
            # Taken as one phrase, it would never be found, and must_not_include would always pass.
            raise _unreadable(key, column, value, f"a list, or text with {SEPARATOR} between the phrases")
        value = text.split(SEPARATOR)
    phrases: dict[str, None] = {}
    for part in value:
        phrase = _text(part)
        if phrase is not None:
            phrases[phrase.strip()] = None
    return tuple(phrases)


def _addresses(key: str, value: Any) -> tuple[str, ...]:
    urls = _several(key, "expected_url", value)
    if not all(map(is_address, urls)):
        # It would never be found.
        raise _unreadable(key, "expected_url", value, f"an address, or several with {SEPARATOR} between them")
    return urls


def truth(key: str, column: str, value: Any) -> bool | None:
    """
    Return a cell as a bool, or None if it is empty.

    :param value: The cell: a bool, or a word such as ``true``, ``no`` or ``1``.
    :raises AssistantInputError: The cell is something else.
    """
    text = _text(value)
    if text is None:
        return None
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise _unreadable(key, column, value, "true, false or empty") from None


def _number(key: str, column: str, value: Any) -> float | None:
    text = _text(value)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise _unreadable(key, column, value, "a number") from None
    if not math.isfinite(number):
        raise _unreadable(key, column, value, "a finite number")
    return number


def _weight(key: str, value: Any) -> float:
    weight = _number(key, "weight", value)
    if weight is None:
        return 1.0
    if weight <= 0:
        raise _unreadable(key, "weight", value, "more than 0; remove the row to exclude a question")
    return weight


def _unreadable(key: str, column: str, value: Any, instead: str) -> AssistantInputError:
    return AssistantInputError(f"question {key!r}: {column} must be {instead}, not {value!r}", field=column)


def _listed(values: Iterable[Any]) -> str:
    texts = [repr(value) for value in values]
    return ", ".join(texts[:_NAMED]) + (", …" if len(texts) > _NAMED else "")
