"""What a fault does to a request, written as one short text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast, get_args

Kind = Literal["status", "html", "retry-after", "drop", "empty", "truncate", "delay", "hold"]

_STORE_FIRST = "store-then-"
_NUMBERED = {
    "status": (200, 599),
    "html": (200, 599),
    "retry-after": (0, 86_400),
    "delay": (0, 86_400),
}
_ALWAYS_STORE = frozenset({"empty", "truncate", "delay", "hold"})


@dataclass(frozen=True, slots=True)
class Action:
    """One way to answer wrongly.

    ``status:N`` an error with status N; ``html:N`` a proxy's error page; ``retry-after:N`` a 429
    that asks to wait N seconds; ``drop`` the connection is closed without a response. These refuse
    the request, or, with ``store-then-`` before them, carry it out first. ``empty`` answers with
    the true status and no body, ``truncate`` breaks off in the middle of the body, ``delay:N``
    answers rightly N seconds later, ``hold`` as soon as the faults are changed or reset; the
    request is always carried out.

    :param kind: which of them.
    :param number: N, where there is one.
    :param stores: whether the request is carried out before the answer goes wrong.
    """

    kind: Kind
    number: float = 0
    stores: bool = False

    @classmethod
    def parse(cls, text: str) -> Action:
        """Read an action, or raise ``ValueError`` saying what is wrong with it.

        :param text: for example ``drop`` or ``store-then-status:502``.
        """
        kind, _, number = text.removeprefix(_STORE_FIRST).partition(":")
        if kind not in get_args(Kind):
            raise ValueError(f"{text!r} is not an action; known are {', '.join(get_args(Kind))}")
        stores = text.startswith(_STORE_FIRST) or kind in _ALWAYS_STORE
        if kind not in _NUMBERED:
            if number:
                raise ValueError(f"{kind} takes no number, as in {text!r}")
            return cls(cast("Kind", kind), stores=stores)
        low, high = _NUMBERED[kind]
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"{kind} needs a number, as in {kind}:{high}") from None
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{kind} needs a number from {low} to {high}, not {number}")
        return cls(cast("Kind", kind), value, stores)
