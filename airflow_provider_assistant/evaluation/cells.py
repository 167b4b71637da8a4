"""Read the cells of answers and of a golden set, and find misspelt names of columns."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from typing import Any

from airflow_provider_assistant.evaluation.text import fault, is_address
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import storable

EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer", "weight", "tags")
# Similarity from which a name counts as misspelt: one letter of five may differ.
_SIMILAR = 0.8
# Beyond this, floats are approximations, and a Decimal may have millions of digits.
_LARGE = 2**63


def is_blank(value: Any) -> bool:
    """Return whether a cell is empty, which is the same as a missing column."""
    return not value.strip() if isinstance(value, str) else is_missing(value) or value == []


def as_text(value: Any) -> str | None:
    """Return a cell as text, or None if it is empty."""
    if is_blank(value):
        return None
    if isinstance(value, list | dict):
        return storable(json.dumps(value, default=str))
    if isinstance(value, float | Decimal) and -_LARGE < value < _LARGE and value == int(value):
        # pandas turns an integer column with missing values into floats.
        value = int(value)
    return storable(str(value))


def as_list(value: Any) -> tuple[str, ...]:
    """Return the texts of a cell: a list, a JSON list as text, or text with one item per line."""
    if isinstance(value, list | tuple):
        return _texts(value)
    text = (as_text(value) or "").strip()
    return _json_list(text) if text.startswith("[") and text.endswith("]") else _texts(text.splitlines())


def as_answers(value: Any) -> tuple[str, ...]:
    """Return the accepted answers of a cell: a list, a JSON list of texts, or text, which is one answer."""
    if isinstance(value, list | tuple):
        return _texts(value)
    text = (as_text(value) or "").strip()
    return _json_list(text) if re.fullmatch(r"""\[\s*['"].*['"]\s*\]""", text, re.DOTALL) else _texts([text])


def as_phrases(value: Any) -> tuple[str, ...]:
    """Return the phrases of a cell, for :func:`.has_phrase`."""
    return _checked(as_list(value), fault)


def as_addresses(value: Any) -> tuple[str, ...]:
    """Return the addresses of a cell. What is no address would never be found."""
    return _checked(
        as_list(value), lambda text: None if is_address(text) else f"{text!r} is not an address; write one per line"
    )


def as_tags(value: Any) -> tuple[str, ...]:
    """Return the tags of a cell."""
    return _checked(
        as_list(value),
        lambda tag: f"{tag!r}: write one tag per line, without | and brackets" if set(tag) & set("|[]") else None,
    )


def _checked(texts: tuple[str, ...], problem_of: Callable[[str], str | None]) -> tuple[str, ...]:
    for problem in filter(None, map(problem_of, texts)):
        raise ValueError(problem)
    return texts


def _json_list(text: str) -> tuple[str, ...]:
    try:
        return _texts(json.loads(text))
    except (json.JSONDecodeError, RecursionError):
        raise ValueError('it must be a list, a JSON list such as ["a", "b"], or text with one item per line') from None


def _texts(items: Iterable[Any]) -> tuple[str, ...]:
    """Return items as texts without empty and repeated ones."""
    items = list(items)
    if any(isinstance(item, list | dict) for item in items):
        # As one text, it would never be found.
        raise ValueError("it must be a list of texts; write alternatives as 'a || b'")
    texts = [(as_text(item) or "").strip() for item in items]
    return tuple(dict.fromkeys(filter(None, texts)))


def check_column_names(columns: Iterable[str], key_columns: Collection[str] = ()) -> None:
    """
    Check that no column has almost the name of an expectation, because it would check nothing.

    :raises AssistantInputError: A column has such a name, and the table does not have the right one.
    """
    names = list(columns)
    for name in names:
        meant = similar_expectation(name)
        if meant is None or name in key_columns:
            continue
        # If the expectation itself is there too, a column with other words is not a misspelt one.
        if meant in names and _words(name) != _words(meant):
            continue
        raise AssistantInputError(
            f"column {name!r}: did you mean {meant!r}? With this name, it checks nothing",
            todo=f"Rename it to {meant!r}, or give it a name that is less similar.",
            field=name,
        )


def similar_expectation(name: str) -> str | None:
    """Return the expectation that a name of a column almost is; None for the expectation itself and other names."""
    known = {"".join(_words(one)): one for one in (*EXPECTATIONS, "human")}
    if name in known.values():
        return None
    words = _words(name)
    joined = "".join(words)
    same_length = [one for one, meant in known.items() if len(_words(meant)) == len(words)]
    close = difflib.get_close_matches(joined, same_length, 1, _SIMILAR)
    return known.get(joined) or (known[close[0]] if close else None)


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", name).casefold())
