"""
Checks of parameters: what a task or a hook accepts, and in which type it is used.

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

# More requests in flight, days or repetitions than any service takes.
MOST = 10_000
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


def anything(value: Any) -> Any:
    """Accept any value except None and blank text, such as a source of rows; the code that uses it checks the rest."""
    if value is None or (isinstance(value, str) and not value.strip()):
        hint = "; if it is the result of a task, that task has returned nothing" if value is None else ""
        raise ValueError(f"is empty ({value!r}){hint}")
    return value


def text(value: Any) -> str:
    """
    Accept text, and a whole number as its digits. The text of any other number is not certain.

    The error does not repeat other values: the query of a read may identify a user.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        raise ValueError(f"must be text, but is the number {value!r}, which can be written in several ways: quote it")  # noqa: TRY004
    if isinstance(value, Mapping):
        keys = ", ".join(map(repr, [*value][:3]))
        raise ValueError(f"must be text, not a mapping; take one of its values ({keys}, …)")  # noqa: TRY004
    if _is_list(value):
        raise ValueError("must be text, not a list; map the task over a list with expand()")
    if value is not None and not isinstance(value, str):
        raise ValueError(f"must be text, not a value of type {type(value).__name__}")
    return str(anything(value))


def path(value: Any) -> str:
    """Accept a path: text, or any path object."""
    if isinstance(value, str | os.PathLike) or hasattr(value, "protocol"):
        return text(str(value))
    raise ValueError(f"must be a path or an object storage URL, not {_short(value)}")


def folder(value: Any) -> str:
    """Accept the path of a folder in which the task writes."""
    return path(value)


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


def text_list(value: Any) -> list[str]:
    """Accept a sequence of texts, which may be empty."""
    if not _is_list(value):
        raise ValueError(f"must be a list of texts, not {_short(value)}")
    return [_item(f"item {number}", item) for number, item in enumerate(value, start=1)]


def names(value: Any) -> Any:
    """Accept text, or a sequence of texts, which may be empty."""
    return text_list(value) if _is_list(value) else text(value)


def text_map(value: Any) -> dict[str, str]:
    """Accept a mapping from names to texts."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping of texts, not {_short(value)}")  # noqa: TRY004
    return {str(name): _item(repr(name), item) for name, item in value.items()}


def csv_options(value: Any) -> dict[str, Any]:
    """Accept a mapping from names to options of files. Texts may be white space, such as a tab between columns."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping, not {_short(value)}")  # noqa: TRY004
    options: dict[str, Any] = {}
    for name, option in value.items():
        is_plain = option is None or isinstance(option, str | bool) or _is_list(option)
        options[str(name)] = option if is_plain else _item(repr(name), option)
    return options


def flag(value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {_short(value)}")  # noqa: TRY004
    return value


def count(value: Any) -> int:
    """Accept a whole number from 1 to 10,000."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise ValueError(f"must be a whole number from 1 to {MOST}, not {_short(value)}")
    return value


def tolerated(value: Any) -> float:
    """Accept a number of failures: a count, or a fraction below 1."""
    if not _is_number(value) or value < 0:
        raise ValueError(f"must be a count or a fraction below 1, not {_short(value)}")
    limit: float = value
    return limit


def tolerance(limit: float, total: int) -> float:
    """Return a number of failures that is a count, or a fraction of ``total`` if it is below 1, as a count."""
    # Rounded because 0.29 * 100 is less than 29 in binary floating point.
    return limit if limit >= 1 else round(limit * total, 6)


def seconds(value: Any) -> float:
    """Accept a duration of 0 or more: a number of seconds, or a timedelta."""
    duration = value.total_seconds() if isinstance(value, timedelta) else value
    if not _is_number(duration) or not 0 <= duration <= LONGEST_WAIT:
        raise ValueError(f"must be a number of seconds or a timedelta, at most ten years, not {_short(value)}")
    return float(duration)


def interval(value: Any) -> float:
    """Accept a duration of more than 0: a number of seconds, or a timedelta."""
    duration = seconds(value)
    if not duration:
        raise ValueError(f"must be more than 0 seconds, not {_short(value)}")
    return duration


def choice(*choices: str) -> Check:
    """Return a check that accepts some texts, at least two."""
    *first_choices, last_choice = map(repr, choices)
    listed_choices = f"{', '.join(first_choices)} or {last_choice}"

    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"must be {listed_choices}, not {_short(value)}")
        return value

    return check


def _item(name: str, value: Any) -> str:
    """Return an item of a list or mapping as text; an error names the item."""
    try:
        return text(value)
    except ValueError as error:
        raise ValueError(f"has an invalid value: {name} {error}") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number; a bool is an int of Python, but not a number here."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return repr(value)[:100]
