"""Read the cells of answers and expectations: texts, lists of texts, truths and numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from airflow_provider_assistant.evaluation.addresses import is_address
from airflow_provider_assistant.evaluation.phrases import ANY_OF, REGEX, fault, regular_expression
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import storable

# Separates the phrases of one cell, because CSV has no lists. Two of them separate alternatives.
SEPARATOR = "|"
_SINGLE_SEPARATOR = re.compile(r"(?<!\|)\|(?!\|)")
# A list that became text in Python or numpy
_PYTHON_LIST = re.compile(r"""\[\s*(?:(?:None|nan),\s*)*['"].*['"](?:,\s*(?:None|nan))*\s*\]""", re.DOTALL)
_A_LIST = 'a list, or a JSON list such as ["a", "b"]'
_TRUTH_BY_WORD = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
# Beyond this, floats are approximations, and a Decimal may have millions of digits.
LARGE = 2**63


def as_text(value: Any) -> str | None:
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


def as_answers(key: str, value: Any) -> tuple[str, ...]:
    """
    Return the accepted answers of a cell ``expected``.

    :param value: The cell: a list of texts, a JSON list of texts, or one text. Another JSON list, such as
        ``[1, 2]``, is one answer.
    :raises AssistantInputError: The cell is a nested list or a mapping, or a list that became text in Python.
    """
    items = value
    if isinstance(value, str) and value.strip().startswith("["):
        text = value.strip()
        parsed = _json_list(text)
        if parsed is not None and (not parsed or any(isinstance(item, str) for item in parsed)):
            items = parsed
        elif parsed is None and _PYTHON_LIST.fullmatch(text):
            raise cell_error(key, "expected", value, _A_LIST)
    if isinstance(items, list):
        if any(isinstance(item, list | dict) for item in items):
            raise cell_error(key, "expected", value, "a list of texts")
        return _without_duplicates(items)
    if isinstance(items, dict):
        raise cell_error(key, "expected", value, "text or a list of texts")
    answer = as_text(items)
    return () if answer is None else (answer,)


def as_phrases(key: str, column: str, value: Any) -> tuple[str, ...]:
    """
    Return the phrases of a cell, for :func:`has_phrase`.

    :param value: The cell: a list, in which a list has alternatives, or text such as ``a|b || c``.
    :raises AssistantInputError: The cell has a broken list or an invalid regular expression.
    """
    items = _items(key, column, value)
    if items is None:
        text = (as_text(value) or "").strip()
        is_pattern = regular_expression(text) is not None
        items = [text] if is_pattern else _SINGLE_SEPARATOR.split(text)
        if len(items) > 1 and any(item.strip().lower().startswith(REGEX) for item in items):
            # It is not certain which | belongs to the regular expression.
            instead = f'a JSON list such as ["a", "{REGEX}b"] if only a part of it is a regular expression'
            raise cell_error(key, column, value, instead)
    phrases = _without_duplicates(map(_with_alternatives, items))
    for phrase in phrases:
        reason = fault(phrase)
        if reason:
            raise AssistantInputError(f"question {key!r}: {column}: {reason}", field=column)
    # Bars with nothing between them are not a phrase.
    return tuple(phrase for phrase in phrases if phrase.strip("| "))


def as_texts(key: str, column: str, value: Any) -> tuple[str, ...]:
    """
    Return the tags or addresses of a cell.

    :param value: The cell: a list, or text such as ``a|b``.
    :raises AssistantInputError: The cell has a broken or nested list.
    """
    items = _items(key, column, value)
    if items is None:
        items = (as_text(value) or "").split(SEPARATOR)
    if any(isinstance(item, list) for item in items):
        raise cell_error(key, column, value, "a list of texts")
    return _without_duplicates(items)


def as_addresses(key: str, value: Any) -> tuple[str, ...]:
    """
    Return the addresses of a cell ``expected_url``.

    :raises AssistantInputError: A text is not an address.
    """
    urls = as_texts(key, "expected_url", value)
    for url in urls:
        if not is_address(url):
            # It would never be found.
            instead = f"an address, or several with {SEPARATOR} between them"
            raise cell_error(key, "expected_url", value, instead)
    return urls


def truth(key: str, column: str, value: Any) -> bool | None:
    """
    Return a cell as a bool, or None if it is empty.

    :param value: The cell: a bool, or a word such as ``true``, ``no`` or ``1``.
    :raises AssistantInputError: The cell is something else.
    """
    text = as_text(value)
    if text is None:
        return None
    try:
        return _TRUTH_BY_WORD[text.strip().lower()]
    except KeyError:
        raise cell_error(key, column, value, "true, false or empty") from None


def as_number(key: str, column: str, value: Any) -> float | None:
    """
    Return a cell as a number, or None if it is empty.

    :raises AssistantInputError: The cell is not a finite number.
    """
    text = as_text(value)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise cell_error(key, column, value, "a number") from None
    if not math.isfinite(number):
        raise cell_error(key, column, value, "a finite number")
    return number


def as_weight(key: str, value: Any) -> float:
    """
    Return the weight of a question, 1 if the cell is empty.

    :raises AssistantInputError: The cell is not a number above 0.
    """
    weight = as_number(key, "weight", value)
    if weight is None:
        return 1.0
    if weight <= 0:
        raise cell_error(key, "weight", value, "more than 0; remove the row to exclude a question")
    return weight


def cell_error(key: str, column: str, value: Any, instead: str) -> AssistantInputError:
    """Return the error of a cell that cannot be read."""
    return AssistantInputError(f"question {key!r}: {column} must be {instead}, not {value!r}", field=column)


def _items(key: str, column: str, value: Any) -> list[Any] | None:
    """Return the items of a cell that is a list, or a JSON list as text. None for other text."""
    if isinstance(value, list):
        return value
    text = (as_text(value) or "").strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    items = _json_list(text)
    if items is None or any(isinstance(item, dict) for item in items):
        # Taken as one phrase, it would never be found, and must_not_include would always pass.
        raise cell_error(key, column, value, f"{_A_LIST}, or text with {SEPARATOR} between the phrases")
    return items


def _json_list(text: str) -> list[Any] | None:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) else None


def _with_alternatives(item: Any) -> Any:
    if isinstance(item, list):
        return ANY_OF.join(_without_duplicates(item))
    return item


def _without_duplicates(values: Iterable[Any]) -> tuple[str, ...]:
    """Return cells as texts, without empty and repeated ones."""
    # A dict keeps the order.
    texts: dict[str, None] = {}
    for value in values:
        text = as_text(value)
        if text is not None:
            texts[text.strip()] = None
    return tuple(texts)
