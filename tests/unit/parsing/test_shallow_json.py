"""JSON of limited depth is decoded as by the standard library; deeper JSON is refused before it is parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.parsing import shallow_json
from airflow_provider_assistant.parsing.shallow_json import MAX_DEPTH, TooDeepError, loads

TEXTS = st.text(st.sampled_from('[]{}"\\\n\u20ac\U0001f600a,:')) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(value=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]), missing=st.integers(0, 1))
def test_the_limit_is_exact(value, ascii_only, indent, missing):
    levels = MAX_DEPTH - depth_of(value) + 1 - missing
    text = "[" * levels + json.dumps(value, ensure_ascii=ascii_only, indent=indent) + "]" * levels
    if missing:
        assert loads(text.encode()) == json.loads(text)
    else:
        with pytest.raises(TooDeepError):
            loads(text.encode())


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b"[", b"")])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 300, 100_000])
def test_what_is_too_deep_is_never_parsed(opening, closing, levels, monkeypatch):
    monkeypatch.setattr(shallow_json.json, "loads", None)
    with pytest.raises(TooDeepError, match="nested more than 100 levels deep"):
        loads(opening * levels + b"1" + closing * levels)


def test_half_a_surrogate_may_stand_beside_many_brackets():
    text = b'["' + b"[" * 200 + b'\xed\xa0\x80"]'
    assert loads(text) == json.loads(text)


def test_many_brackets_are_not_depth():
    assert len(loads(b"[" + b",".join([b"[{}]"] * 1000) + b"]")) == 1000
    assert loads(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    assert loads(b'["\\\\", "' + b'\\"[' * 1000 + b'"]') == ["\\", '"[' * 1000]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_other_encodings(encoding):
    value = {"[" * 200: ['"[', "\\", "\u5b5b" * 200]}
    assert loads(json.dumps(value, ensure_ascii=False).encode(encoding)) == value
    with pytest.raises(TooDeepError):
        loads(("[" * 100_000 + '"\\""').encode(encoding))


@pytest.mark.parametrize("text", [b"", b"{", b'"', b'"' * 200_001, b"[" * 50 + b'"\\' * 100, b"]" * 300, b"\xff\xfe["])
def test_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 (the message is the standard library's)
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 101 + b'"' * 3_000_001,
        b"[" * 101 + b'"' + b"\\" * 3_000_001,
        b"[" * 101 + b'"' + b'\\"' * 2_000_000,
        b'["' + b"x" * 5_000_000 + b'"' + b",[]" * 200 + b"}",
        b"[" * 3_000_000,
    ],
    ids=["quotes", "backslashes", "escaped quotes", "one string", "brackets"],
)
@pytest.mark.timeout(120)
def test_hostile_text_takes_linear_time(text):
    """Quadratic time would be hours."""
    with pytest.raises(ValueError):  # noqa: PT011 (one is too deep, the others are not JSON)
        loads(text)
