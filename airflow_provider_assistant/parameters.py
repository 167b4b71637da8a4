"""
Checks of parameters: what a task, a hook or a path accepts, and in which type it is used.

A parameter that is given but empty is an error, never "not given": an empty site must not mean the connection's site,
and an empty ``allowed_root`` must not mean every folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date as calendar_date
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_assistant.exceptions import AssistantInputError

# Takes a value and returns it in the type that is used. Raises ValueError with the end of a sentence, such as "must be
# text".
Check: TypeAlias = Callable[[Any], Any]

# More than any service or machine takes, and few enough to reserve a place for each.
MOST_IN_FLIGHT = 10_000
# Ten years, in seconds. Airflow cannot store the time of a deferral that ends much later.
LONGEST_WAIT = 10 * 365 * 86_400.0


def checked(name: str, value: Any, check: Check, task_id: str | None = None) -> Any:
    """
    Return the value of a parameter in the type that is used.

    :param task_id: None for parameters of hooks.
    :raises AssistantInputError: The value is empty or invalid. The message names the parameter and the task.
    """
    try:
        return check(value)
    except ValueError as error:
        raise AssistantInputError(f"{of_task(task_id)}{name} {error}", field=name) from None


def of_task(task_id: str | None) -> str:
    """Return the beginning of a message about a parameter."""
    return f"task {task_id!r}: " if task_id else ""


def prose(value: Any) -> str:
    """Accept text that people read, such as a message."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {_short(value)}")  # noqa: TRY004
    return text(value)


def text(value: Any) -> str:
    """
    Accept text.

    A whole number becomes its digits; the text of any other number is not certain.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        raise ValueError(f"must be text, but is the number {value!r}, which can be written in several ways: quote it")  # noqa: TRY004
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {_short(value)}")  # noqa: TRY004
    if not value.strip():
        raise ValueError(f"is empty ({value!r})")
    return value


def day(value: Any) -> str:
    """Accept a day: ``YYYY-MM-DD`` or a date."""
    if isinstance(value, calendar_date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        return calendar_date.fromisoformat(text(value)).isoformat()
    except ValueError:
        raise ValueError(f"must be YYYY-MM-DD, not {_short(value)}") from None


def timezone(value: Any) -> str:
    """Accept the IANA name of a time zone."""
    try:
        return ZoneInfo(text(value)).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(f"must be the name of a time zone, such as Europe/Berlin, not {_short(value)}") from None


def path(value: Any) -> str:
    """Accept a path: text, or any path object."""
    if isinstance(value, str | os.PathLike) or hasattr(value, "protocol"):
        return text(str(value))
    raise ValueError(f"must be a path or an object storage URL, not {_short(value)}")


def folder(value: Any) -> str:
    """Accept the path of a folder in which the task writes."""
    return path(value)


def names(value: Any) -> Any:
    """Accept text, or a sequence of texts, which may be empty."""
    if _is_list(value):
        return text_list(value)
    return text(value)


def text_list(value: Any) -> list[str]:
    """Accept a sequence of texts, which may be empty."""
    if not _is_list(value):
        raise ValueError(f"must be a list of texts, not {_short(value)}")
    return [_checked_text(f"item {number}", item) for number, item in enumerate(value, start=1)]


def text_map(value: Any) -> dict[str, str]:
    """Accept a mapping from names to texts."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping of texts, not {_short(value)}")  # noqa: TRY004
    return {str(name): _checked_text(repr(name), item) for name, item in value.items()}


def query(value: Any) -> dict[str, str]:
    """Accept the parameters of a query. The error does not repeat their values, which may identify a user."""
    try:
        return text_map(value)
    except ValueError:
        raise ValueError("must be a mapping of texts that are not empty") from None


def csv_options(value: Any) -> dict[str, Any]:
    """
    Accept a mapping from names to the values that options of files have.

    Texts may be white space, such as a tab between columns.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping, not {_short(value)}")  # noqa: TRY004
    options: dict[str, Any] = {}
    for name, option in value.items():
        if option is None or isinstance(option, str | bool) or _is_list(option):
            options[str(name)] = option
        else:
            options[str(name)] = _checked_text(repr(name), option)
    return options


def anything(value: Any) -> Any:
    """
    Accept any value except an empty text or None, such as a source of rows.

    The code that uses it checks the rest.
    """
    is_blank = isinstance(value, str) and not value.strip()
    if value is None or is_blank:
        raise ValueError(f"is empty ({value!r})")
    return value


def flag(value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {_short(value)}")  # noqa: TRY004
    return value


def count(value: Any) -> int:
    """Accept a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"must be a whole number, at least 1, not {_short(value)}")
    return value


def concurrency(value: Any) -> int:
    """Accept a number of requests in flight."""
    number = count(value)
    if number > MOST_IN_FLIGHT:
        raise ValueError(f"must be at most {MOST_IN_FLIGHT}, not {_short(value)}")
    return number


def tolerated(value: Any) -> float:
    """Accept a number of failures: a count, or a fraction below 1."""
    if not _is_number(value) or value < 0:
        raise ValueError(f"must be a count or a fraction below 1, not {_short(value)}")
    limit: float = value
    return limit


def tolerance(limit: float, total: int) -> float:
    """
    Return the number of failures that a limit allows.

    :param limit: A count, or a fraction of ``total`` if it is below 1.
    :return: The limit as a count, which may have a fraction.
    """
    if limit >= 1:
        return limit
    # Rounded because 0.29 * 100 is less than 29 in binary floating point.
    return round(limit * total, 6)


def seconds(value: Any) -> float:
    """Accept a duration of 0 or more: a number of seconds, or a timedelta."""
    duration = _in_seconds(value)
    if not _is_number(duration) or not 0 <= duration <= LONGEST_WAIT:
        raise ValueError(f"must be a number of seconds or a timedelta, at most ten years, not {_short(value)}")
    return float(duration)


def interval(value: Any) -> float:
    """Accept a duration of more than 0: a number of seconds, or a timedelta."""
    duration = _in_seconds(value)
    if not _is_number(duration) or not 0 < duration <= LONGEST_WAIT:
        raise ValueError(
            f"must be more than 0 seconds and at most ten years, as a number or a timedelta, not {_short(value)}"
        )
    return float(duration)


def positive(value: Any) -> float:
    """Accept a number of more than 0."""
    if not _is_number(value) or value <= 0:
        raise ValueError(f"must be a number of more than 0, not {_short(value)}")
    number: float = value
    return number


def choice(*choices: str) -> Check:
    """Return a check that accepts some texts, at least two."""
    *first_choices, last_choice = map(repr, choices)
    listed_choices = f"{', '.join(first_choices)} or {last_choice}"

    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"must be {listed_choices}, not {_short(value)}")
        return value

    return check


def _checked_text(item_name: str, value: Any) -> str:
    """Return an item of a list or mapping as text; an error names the item."""
    try:
        return text(value)
    except ValueError as error:
        raise ValueError(f"has an invalid value: {item_name} {error}") from None


def _in_seconds(value: Any) -> Any:
    """Return a timedelta in seconds, and any other value as it is."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number; a bool is an int of Python, but not a number here."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return repr(value)[:100]
