"""Arbitrary replies."""

from __future__ import annotations

import random

from hypothesis import strategies as st

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=25
)


def leaves(value):
    if isinstance(value, dict) and value:
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list) and value:
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


def sent_numbers(count=300):
    """Numbers as JSON may write them, beside the odd ones."""
    dice = random.Random(9)
    numbers = ["12345678901234.123456789", "1.10", "1e400", "-1e400", "-0.0", "-0", "0e0", "1E5", "1E+05", "1e-400"]
    numbers += ["9" * 400, "-" + "8" * 4000, "0." + "0" * 3000 + "1", "1e9999", "1e-9999"]
    for _ in range(count):
        number = dice.choice(["", "-"]) + dice.choice(["0", str(dice.randrange(1, 10 ** dice.randrange(1, 40)))])
        if dice.random() < 0.6:
            number += "." + "".join(dice.choices("0123456789", k=dice.randrange(1, 40)))
        if dice.random() < 0.4:
            number += dice.choice("eE") + dice.choice(["", "+", "-"]) + str(dice.randrange(10 ** dice.randrange(1, 4)))
        numbers.append(number)
    return numbers
