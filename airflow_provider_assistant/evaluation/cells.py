"""Read the cells of answers and of a golden set: one pydantic model of a row, and misspelt names of columns."""

from __future__ import annotations

import difflib
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from airflow_provider_assistant.api.confidence import finite
from airflow_provider_assistant.evaluation.text import fault, is_address
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import storable

EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer", "weight", "tags")
_OTHER_NAMES = ("human",)
# Similarity from which a name counts as misspelt: one letter of five may differ.
_SIMILAR = 0.8
# Beyond this, floats are approximations, and a Decimal may have millions of digits.
_LARGE = 2**63


def as_text(value: Any) -> str | None:
    """Return a cell as text, or None if it is empty."""
    if isinstance(value, str) and value.isascii():
        return value if value.strip() else None
    if isinstance(value, list | dict) or is_missing(value):
        return None if not value or is_missing(value) else storable(json.dumps(value, default=str))
    if isinstance(value, float | Decimal) and -_LARGE < value < _LARGE and value == int(value):
        # pandas turns an integer column with missing values into floats.
        value = int(value)
    text = storable(str(value))
    return text if text.strip() else None


def as_list(value: Any) -> tuple[str, ...]:
    """Return the texts of a cell: a list, a JSON list as text, or text with one item per line."""
    items = _listed(value)
    if items is None:
        items = (as_text(value) or "").splitlines()
    return _texts(items)


def as_answers(value: Any) -> tuple[str, ...]:
    """Return the accepted answers of a cell: a list, a JSON list of texts, or text, which is one answer."""
    text = value.strip() if isinstance(value, str) else ""
    is_list = isinstance(value, list) or re.fullmatch(r"""\[\s*['"].*['"]\s*\]""", text, re.DOTALL)
    return _texts(_listed(value) or ()) if is_list else _texts([value])


def as_phrases(value: Any) -> tuple[str, ...]:
    """Return the phrases of a cell, for :func:`.has_phrase`."""
    phrases = as_list(value)
    for phrase in phrases:
        if problem := fault(phrase):
            raise ValueError(problem)
    return phrases


def _addresses(value: Any) -> tuple[str, ...]:
    addresses = as_list(value)
    for address in addresses:
        if not is_address(address):
            # It would never be found.
            raise ValueError(f"{address!r} is not an address; write one per line")
    return addresses


def _tags(value: Any) -> tuple[str, ...]:
    tags = as_list(value)
    for tag in tags:
        if "|" in tag or "[" in tag or "]" in tag:
            raise ValueError(f"{tag!r}: write one tag per line, without | and brackets")
    return tags


def _listed(value: Any) -> list[Any] | None:
    """Return the items of a list, or of a JSON list as text; None for other text."""
    if isinstance(value, list | tuple):
        return list(value)
    text = value.strip() if isinstance(value, str) else ""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        items: list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError('it must be a list, a JSON list such as ["a", "b"], or text with one item per line') from None
    return items


def _texts(items: Iterable[Any]) -> tuple[str, ...]:
    """Return items as texts without empty and repeated ones."""
    texts: dict[str, None] = {}
    for item in items:
        if isinstance(item, list | dict):
            # As one text, it would never be found.
            raise ValueError("it must be a list of texts; write alternatives as 'a || b'")  # noqa: TRY004 (pydantic reports it)
        text = as_text(item)
        if text is not None:
            texts[text.strip()] = None
    return tuple(texts)


def _blank_is_none(value: Any) -> Any:
    return None if as_text(value) is None else value


def _number(value: Any) -> Any:
    """Return a cell without spaces, and None for a blank one."""
    return value.strip() if isinstance(value, str) and value.strip() else _blank_is_none(value)


Text: TypeAlias = Annotated[str | None, BeforeValidator(as_text)]
Phrases: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(as_phrases)]


class Row(BaseModel):
    """The columns that an evaluation reads. An empty cell is the same as a missing column."""

    message: Text = None
    status: Text = None
    error: Text = None
    request_id: Text = None
    session_id: Text = None
    seconds: Annotated[float | None, Field(ge=0, allow_inf_nan=False), BeforeValidator(_number)] = None
    confidence_level: Text = None
    # The service decides what it sends here, so a text is not an error of the user.
    confidence_score: Annotated[float | None, BeforeValidator(finite)] = None
    repetition: Annotated[int | None, Field(ge=1), BeforeValidator(_number)] = None
    turn: Annotated[int | None, BeforeValidator(_number)] = None
    expected: Annotated[tuple[str, ...], BeforeValidator(as_answers)] = ()
    must_include: Phrases = ()
    must_not_include: Phrases = ()
    expected_url: Annotated[tuple[str, ...], BeforeValidator(_addresses)] = ()
    expect_no_answer: Annotated[bool | None, BeforeValidator(_number)] = None
    weight: Annotated[float | None, Field(gt=0, allow_inf_nan=False), BeforeValidator(_number)] = None
    tags: Annotated[tuple[str, ...], BeforeValidator(_tags)] = ()


def read_row(key: str, row: Mapping[str, Any]) -> Row:
    """
    Return the columns of a row that an evaluation reads.

    :raises AssistantInputError: A cell cannot be read; the error names the question and the column.
    """
    known = {name: value for name, value in row.items() if name in Row.model_fields and value is not None}
    try:
        return Row.model_validate(known)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        column = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ")
        shown = repr(row[column])
        raise AssistantInputError(
            f"question {key!r}: {column} {shown if len(shown) <= 100 else shown[:99] + '…'}: {reason}", field=column
        ) from None


def number_in(key: str, column: str, row: Mapping[str, Any]) -> float | None:
    """
    Return the number in a column of the user, or None if the cell is empty.

    :raises AssistantInputError: The answers do not have the column, or the cell is not a finite number.
    """
    if column not in row:
        close = difflib.get_close_matches(column, row, 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise AssistantInputError(f"the answers have no column {column!r}{meant}", field="scorers")
    text = as_text(row[column])
    try:
        number = None if text is None else float(text)
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise AssistantInputError(f"question {key!r}: {column} must be a number, not {row[column]!r}", field=column)
    return number


def check_column_names(columns: Iterable[str], key_columns: Collection[str] = ()) -> None:
    """
    Check that no column has almost the name of an expectation, because it would check nothing.

    :raises AssistantInputError: A column has such a name, and the table does not have the right one.
    """
    names = list(columns)
    for name in names:
        meant = similar_expectation(name)
        if name in key_columns or meant is None or (meant in names and _joined(name) != _joined(meant)):
            continue
        raise AssistantInputError(
            f"column {name!r}: did you mean {meant!r}? With this name, it checks nothing",
            todo=f"Rename it to {meant!r}, or give it a name that is less similar.",
            field=name,
        )


def similar_expectation(name: str) -> str | None:
    """Return the expectation that a name of a column almost is; None for the expectation itself and other names."""
    known = (*EXPECTATIONS, *_OTHER_NAMES)
    if name in known:
        return None
    by_joined = {_joined(one): one for one in known}
    if _joined(name) in by_joined:
        return by_joined[_joined(name)]
    same_length = [joined for joined, one in by_joined.items() if len(_words(one)) == len(_words(name))]
    close = difflib.get_close_matches(_joined(name), same_length, 1, _SIMILAR)
    return by_joined[close[0]] if close else None


def _joined(name: str) -> str:
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", name).casefold())
