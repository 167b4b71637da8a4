"""
Find the confidence of the service in an answer.

A reply may have a ``confidence_level``, of which one word is known, ``low``, and a ``confidence_score`` of unknown
range. Other names are a single field ``confidence``, or an object ``confidence`` with ``level`` and ``score``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from airflow_provider_assistant.api.json_objects import nested_objects

# Maximum length of a level in characters, because it is a column of the answers.
LEVEL_LENGTH = 100
# The only word for a level that the service is known to send.
LOW = "low"


def confidence_level(raw: Any) -> str | None:
    """
    Return the confidence as a word, such as ``low``.

    :param raw: The JSON value of a reply.
    :return: The first text that is not a number; None if there is none.
    """
    for value in _values(raw, "level"):
        # A number, also as text, is a score.
        if isinstance(value, str) and value.strip() and finite(value) is None:
            return value.strip()[:LEVEL_LENGTH]
    return None


def confidence_score(raw: Any) -> float | None:
    """
    Return the confidence as a number.

    :param raw: The JSON value of a reply.
    :return: The first finite number, also of a text; None if there is none.
    """
    for value in _values(raw, "score"):
        number = finite(value)
        if number is not None:
            return number
    return None


def is_low(level: str | None) -> bool:
    """Return whether a confidence level is ``low``, in any case."""
    return level is not None and level.strip().casefold() == LOW


def finite(value: Any) -> float | None:
    """Return a number, or a text that is one, as a float; None for anything else, such as NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _values(raw: Any, part: str) -> Iterator[Any]:
    """Yield the values of ``confidence_<part>``, then of ``confidence``, then of this part of ``confidence``."""
    objects = nested_objects(raw)
    for name in (f"confidence_{part}", "confidence"):
        for json_object in objects:
            if name in json_object:
                yield json_object[name]
    for json_object in objects:
        confidence = json_object.get("confidence")
        if isinstance(confidence, dict) and part in confidence:
            yield confidence[part]
