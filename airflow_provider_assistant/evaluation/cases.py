"""Join questions, answers and expectations into cases, the input of the scorers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.confidence import finite
from airflow_provider_assistant.evaluation.addresses import is_address
from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.column_names import check_column_names
from airflow_provider_assistant.evaluation.phrases import ANY_OF, REGEX, alternatives, fault, regular_expression
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
# Two of them separate alternatives.
_SINGLE_SEPARATOR = re.compile(r"(?<!\|)\|(?!\|)")
# A list that became text in Python or numpy.
_PYTHON_LIST = re.compile(r"""\[\s*['"].*['"]\s*\]""", re.DOTALL)
_LIST_EXAMPLE = '["a", "b"]'
_LIST = f"a list, or a JSON list such as {_LIST_EXAMPLE}"
_TRUTH_BY_WORD = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
# Number of values that a message lists.
_LISTED = 5
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
    :raises AssistantInputError: A column is missing or has almost the name of one of
        ``EXPECTATIONS``, a key is empty or a duplicate, the tables have no key in common, a question
        has a different text in the two tables, or a cell of ``EXPECTATIONS``, ``seconds`` or
        ``repetition`` is invalid.
    """
    import pyarrow as pa

    # A reader of files leaves free memory of about the size of the table. Without this, Python cannot use it.
    pa.default_memory_pool().release_unused()
    key_column_names = key_names(key_columns)
    if "answer" not in answers.column_names:
        raise AssistantInputError(f"answers have no column 'answer', only {_listed(answers.column_names)}")
    table_with_expectations = answers if expectations is None else expectations
    check_column_names(table_with_expectations.column_names, EXPECTATIONS, key_column_names)
    answer_rows = _rows_by_identity(answers, key_column_names, "answers")
    expectation_rows: dict[str, dict[str, Any]] = {}
    if expectations is not None:
        rows = _rows_by_identity(expectations, key_column_names, "expectations")
        for (key, _repetition), row in rows.items():
            expectation_rows[key] = row
        _check_pair(answer_rows, expectation_rows, expectations.column_names)
    cases = []
    for (key, repetition), answer_row in answer_rows.items():
        row_of_both = _joined(answer_row, expectation_rows.get(key))
        cases.append(_case(key, row_of_both, repetition))
    asked_keys = {key for key, _repetition in answer_rows}
    no_answer = {"answer": None, "status": NOT_ASKED, "error": "it is not among the answers"}
    not_asked = []
    for key, expectation_row in expectation_rows.items():
        if key not in asked_keys:
            not_asked.append(_case(key, {**expectation_row, **no_answer}))
    return with_transcripts(cases) + not_asked


def _rows_by_identity(
    table: pa.Table,
    names: Sequence[str],
    what: str,
) -> dict[Identity, dict[str, Any]]:
    """
    Return the rows by key, in its readable form, and repetition.

    :param names: Columns of the key.
    :param what: ``answers``, or ``expectations``, which have no repetitions.
    """
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
    columns = []
    for name in names:
        key_texts, _ = key_column(row[name] for row in rows)
        columns.append(key_texts)
    rows_without_key: list[int] = []
    # A dict keeps the order of the rows.
    duplicate_keys: dict[str, None] = {}
    rows_by_identity: dict[Identity, dict[str, Any]] = {}
    for position, row in enumerate(rows):
        key_parts = [key_texts[position] for key_texts in columns]
        if None in key_parts:
            rows_without_key.append(position + 1)
            continue
        key = key_label(names, key_parts)
        repetition = 1
        if what == "answers":
            repetition = _repetition(key, row)
        if (key, repetition) in rows_by_identity:
            duplicate_keys[key] = None
        rows_by_identity[key, repetition] = row
    if rows_without_key:
        raise AssistantInputError(
            f"{what}: {_listed(names)} is empty in {counted(len(rows_without_key), 'row')}, "
            f"such as number {_listed(rows_without_key)}",
            field="key_columns",
        )
    if duplicate_keys:
        duplicates = counted(len(duplicate_keys), "duplicate key")
        raise AssistantInputError(
            f"{what}: {duplicates}, such as {_listed(duplicate_keys)}",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    return rows_by_identity


def _repetition(key: str, row: Mapping[str, Any]) -> int:
    """Return the number of a repetition. An answer without the column is the first."""
    number = _number(key, "repetition", row.get("repetition"))
    if number is None:
        return 1
    if number < 1 or not number.is_integer():
        raise _cell_error(key, "repetition", row.get("repetition"), "a whole number from 1")
    return int(number)


def _check_pair(
    answer_rows: Mapping[Identity, Mapping[str, Any]],
    expectation_rows: Mapping[str, Mapping[str, Any]],
    columns: Sequence[str],
) -> None:
    """
    Check that the expectations belong to the answers.

    :param columns: Columns of the expectations.
    """
    if not set(columns) & set(EXPECTATIONS):
        raise AssistantInputError(
            f"expectations have none of the columns {_listed(EXPECTATIONS)}, only {_listed(columns)}",
            field="expectations",
        )
    # Of several repetitions, the last one stays.
    answer_rows_by_key = {}
    for (key, _repetition), row in answer_rows.items():
        answer_rows_by_key[key] = row
    common_keys = answer_rows_by_key.keys() & expectation_rows.keys()
    if answer_rows and expectation_rows and not common_keys:
        raise AssistantInputError(
            f"answers and expectations have no key in common: "
            f"{_listed(answer_rows_by_key)} in the answers, "
            f"{_listed(expectation_rows)} in the expectations",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    differing = []
    for key, row in expectation_rows.items():
        if key in common_keys and _have_different_messages(row, answer_rows_by_key[key]):
            differing.append(key)
    if differing:
        questions = counted(len(differing), "question")
        raise AssistantInputError(
            f"{questions} with a different text in the expectations, such as {_listed(differing)}: "
            "their answers cannot be scored against these expectations",
            todo="Ask them again.",
            field="expectations",
        )


def _have_different_messages(
    expectation_row: Mapping[str, Any],
    answer_row: Mapping[str, Any],
) -> bool:
    expected_message = _text(expectation_row.get("message"))
    asked_message = _text(answer_row.get("message"))
    if expected_message is None or asked_message is None:
        return False
    # Differences in white space do not matter.
    return expected_message.split() != asked_message.split()


def _joined(
    answer_row: Mapping[str, Any],
    expectation_row: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """Return the columns of both rows: the expectations of one, everything else of the other."""
    if expectation_row is None:
        return answer_row
    expectations = {name: expectation_row[name] for name in EXPECTATIONS if name in expectation_row}
    return {**expectation_row, **answer_row, **expectations}


def _case(key: str, row: Mapping[str, Any], repetition: int = 1) -> Case:
    status = _text(row.get("status"))
    if status is None:
        status = "complete" if _text(row["answer"]) else "failed"
    answer = None
    if status == "complete":
        # A complete request without text counts as an empty answer.
        answer = "" if row["answer"] is None else str(row["answer"])
    expected, *also_expected = _expected(key, row.get("expected")) or (None,)
    return Case(
        key=key,
        message=_text(row.get("message")) or key,
        answer=answer,
        status=status,
        error=_text(row.get("error")),
        seconds=_number(key, "seconds", row.get("seconds")),
        session_id=_text(row.get("session_id")),
        request_id=_text(row.get("request_id")),
        expected=expected,
        must_include=_phrases(key, "must_include", row.get("must_include")),
        must_not_include=_phrases(key, "must_not_include", row.get("must_not_include")),
        expected_url=_addresses(key, row.get("expected_url")),
        expect_no_answer=truth(key, "expect_no_answer", row.get("expect_no_answer")),
        weight=_weight(key, row.get("weight")),
        tags=_texts(key, "tags", row.get("tags")),
        row=row,
        noticed_after=_number(key, "noticed_after", row.get("noticed_after")),
        repetition=repetition,
        seconds_source=_text(row.get("seconds_source")),
        seconds_error=_number(key, "seconds_error", row.get("seconds_error")),
        confidence_level=_text(row.get("confidence_level")),
        # The service decides what it sends here, so a text is not an error of the user.
        confidence_score=finite(row.get("confidence_score")),
        also_expected=tuple(also_expected),
    )


def _text(value: Any) -> str | None:
    """Return a cell as text, or None if it is empty."""
    if type(value) is str and value.isascii():
        # Not a copy: the texts are most of the memory of an evaluation.
        return value if value.strip() else None
    if is_missing(value):
        return None
    if isinstance(value, float | Decimal) and -LARGE < value < LARGE and value == int(value):
        # pandas turns an integer column with missing values into floats.
        value = int(value)
    text = storable(str(value))
    return text if text.strip() else None


def _expected(key: str, value: Any) -> tuple[str, ...]:
    """Return the accepted answers of a cell: a list of texts, or one text."""
    answers = value
    text = (_text(value) or "").strip() if isinstance(value, str) else ""
    if text.startswith("[") and text.endswith("]"):
        items = _json_list(text)
        if items is not None and all(isinstance(item, str) for item in items):
            answers = items
        elif _PYTHON_LIST.fullmatch(text):
            raise _cell_error(key, "expected", value, _LIST)
    items = answers if isinstance(answers, list) else [answers]
    if any(isinstance(item, list | tuple | dict) for item in items):
        raise _cell_error(key, "expected", value, _LIST)
    if isinstance(answers, list):
        return _without_duplicates(answers)
    one = _text(value)
    return () if one is None else (one,)


def _phrases(key: str, column: str, value: Any) -> tuple[str, ...]:
    """Return the phrases of a cell: a list, in which a list has alternatives, or text like ``a|b || c``."""
    parts = _list(key, column, value)
    if parts is None:
        text = (_text(value) or "").strip()
        parts = [text] if regular_expression(text) is not None else _SINGLE_SEPARATOR.split(text)
        if len(parts) > 1 and any(regular_expression(part.strip()) is not None for part in parts):
            # It is not certain which | belongs to the regular expression.
            raise _cell_error(key, column, value, f"a list, if {REGEX} is one of several phrases: {_LIST_EXAMPLE}")
    phrases = []
    for phrase in _without_duplicates(map(_with_alternatives, parts)):
        reason = fault(phrase)
        if reason:
            raise AssistantInputError(f"question {key!r}: {column}: {reason}", field=column)
        if regular_expression(phrase) is not None or alternatives(phrase):
            phrases.append(phrase)
    return tuple(phrases)


def _with_alternatives(part: Any) -> Any:
    return ANY_OF.join(_without_duplicates(part)) if isinstance(part, list) else part


def _texts(key: str, column: str, value: Any) -> tuple[str, ...]:
    """Return the tags or addresses of a cell: a list, or text like ``a|b``."""
    parts = _list(key, column, value)
    if parts is None:
        parts = (_text(value) or "").split(SEPARATOR)
    if any(isinstance(part, list) for part in parts):
        raise _cell_error(key, column, value, "a list of texts")
    return _without_duplicates(parts)


def _list(key: str, column: str, value: Any) -> list[Any] | None:
    """Return the items of a cell that is a list, or a JSON list as text. None for other text."""
    if isinstance(value, list):
        return value
    text = (_text(value) or "").strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    items = _json_list(text)
    if items is None or any(isinstance(item, dict) for item in items):
        # Taken as one phrase, it would never be found, and must_not_include would always pass.
        raise _cell_error(key, column, value, f"{_LIST}, or text with {SEPARATOR} between the phrases")
    return items


def _json_list(text: str) -> list[Any] | None:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) else None


def _without_duplicates(values: Iterable[Any]) -> tuple[str, ...]:
    """Return cells as texts, without empty and repeated ones."""
    # A dict keeps the order.
    texts: dict[str, None] = {}
    for value in values:
        text = _text(value)
        if text is not None:
            texts[text.strip()] = None
    return tuple(texts)


def _addresses(key: str, value: Any) -> tuple[str, ...]:
    urls = _texts(key, "expected_url", value)
    for url in urls:
        if not is_address(url):
            # It would never be found.
            instead = f"an address, or several with {SEPARATOR} between them"
            raise _cell_error(key, "expected_url", value, instead)
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
        return _TRUTH_BY_WORD[text.strip().lower()]
    except KeyError:
        raise _cell_error(key, column, value, "true, false or empty") from None


def _number(key: str, column: str, value: Any) -> float | None:
    text = _text(value)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise _cell_error(key, column, value, "a number") from None
    if not math.isfinite(number):
        raise _cell_error(key, column, value, "a finite number")
    return number


def _weight(key: str, value: Any) -> float:
    weight = _number(key, "weight", value)
    if weight is None:
        return 1.0
    if weight <= 0:
        raise _cell_error(key, "weight", value, "more than 0; remove the row to exclude a question")
    return weight


def _cell_error(key: str, column: str, value: Any, instead: str) -> AssistantInputError:
    return AssistantInputError(f"question {key!r}: {column} must be {instead}, not {value!r}", field=column)


def _listed(values: Iterable[Any]) -> str:
    texts = [repr(value) for value in values]
    listed = ", ".join(texts[:_LISTED])
    return f"{listed}, …" if len(texts) > _LISTED else listed
