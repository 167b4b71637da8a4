"""The confidence of the service in an answer: a word, of which ``low`` is known, and a number of unknown range."""

from __future__ import annotations

import math
from typing import Any

# The only word for a level that the service is known to send.
LOW = "low"


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
