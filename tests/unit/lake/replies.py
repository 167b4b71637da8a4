"""Strategies for arbitrary replies."""

from __future__ import annotations

from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=25
)


def leaves(value):
    if isinstance(value, dict) and value:
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list) and value:
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]
