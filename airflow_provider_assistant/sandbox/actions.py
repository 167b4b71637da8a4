"""Actions of faults, parsed from short texts such as ``store-then-status:502``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from pydantic import AfterValidator

Kind = Literal["status", "html", "retry-after", "drop", "empty", "truncate", "delay", "hold"]

_STORE_FIRST = "store-then-"
# Lowest and highest number of the actions that have one.
_RANGE_BY_KIND = {
    "status": (200, 599),
    "html": (200, 599),
    "retry-after": (0, 86_400),
    "delay": (0, 86_400),
}
_ALWAYS_STORE = frozenset({"empty", "truncate", "delay", "hold"})


@dataclass(frozen=True, slots=True)
class Action:
    """Define what a fault does to a request.

    docs/reference/sandbox.md lists the actions.

    :param number: N, or 0 for an action without a number.
    :param stores: whether the service executes the request before it fails.
    """

    kind: Kind
    number: float = 0
    stores: bool = False

    @classmethod
    def parse(cls, text: str) -> Action:
        """Parse a text such as ``drop`` or ``store-then-status:502``.

        :raises ValueError: the text is not a valid action.
        """
        kind, _, number = text.removeprefix(_STORE_FIRST).partition(":")
        if kind not in get_args(Kind):
            raise ValueError(f"{text!r} is not an action; known are {', '.join(get_args(Kind))}")
        stores = text.startswith(_STORE_FIRST) or kind in _ALWAYS_STORE
        if kind not in _RANGE_BY_KIND:
            if number:
                raise ValueError(f"{kind} takes no number, as in {text!r}")
            return cls(kind=cast("Kind", kind), stores=stores)
        low, high = _RANGE_BY_KIND[kind]
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"{kind} needs a number, as in {kind}:{high}") from None
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{kind} needs a number from {low} to {high}, not {number}")
        return cls(kind=cast("Kind", kind), number=value, stores=stores)


def _checked_action(text: str) -> str:
    Action.parse(text)
    return text


ActionText = Annotated[str, AfterValidator(_checked_action)]
