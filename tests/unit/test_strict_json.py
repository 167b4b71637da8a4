"""JSON from outside: what is read exactly, what is replaced, and what is refused before it is parsed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.strict_json import MAX_DEPTH, LimitError, loads_row, read

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
        assert loads_row(text) == json.loads(text)
    else:
        with pytest.raises(LimitError):
            loads_row(text)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b"[", b"")])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 300, 100_000])
def test_what_is_too_deep_is_never_parsed(opening, closing, levels, monkeypatch):
    monkeypatch.setattr(strict_json, "_STRICT", None)
    with pytest.raises(LimitError, match="nested more than 100 levels deep"):
        read(opening * levels + b"1" + closing * levels)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_the_encoding(encoding):
    value = {"[" * 200: ['"[', "\\", "\u5b5b" * 200]}
    text = json.dumps(value, ensure_ascii=False)
    found = read(text.encode(encoding))
    assert (found.value, found.text) == (value, text)
    with pytest.raises(LimitError):
        read(("[" * 100_000 + '"\\""').encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("value", [{"a": 1}, {"\u4e2d\u6587": "\u0141"}, 7])
def test_the_encoding_is_never_guessed(encoding, value):
    with pytest.raises(ValueError, match="NUL bytes"):
        read(json.dumps(value, ensure_ascii=False).encode(encoding))


# -- numbers --------------------------------------------------------------------------------------------

EXACT = ["12345678901234.123456789", "1.10", "1e400", "-1e-400", "0.0", "-0", "1E5", "123456789012345678901234567890"]


@pytest.mark.parametrize("number", [*EXACT, "1" * 4300, "0." + "1" * 4000])
def test_the_text_keeps_every_digit(number):
    text = f'{{"n": {number}, "list": [{number}]}}'
    assert read(text.encode()).text == text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "9" * 400 + ".5"])
def test_a_number_without_a_size_is_none(number):
    assert read(f'{{"a": [{number}, 1.5], "b": "NaN"}}'.encode()).value == {"a": [None, 1.5], "b": "NaN"}


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "Infinity", "1e10000", "1e-10000", "0e-99999", "1" * 4301, "0." + "0" * 4300 + "1"]
)
def test_the_text_has_only_numbers_that_every_database_takes(number):
    text = f'{{"NaN": "NaN, \\"Infinity", "n": [{number}, 1.10, {number}], "e": 1e400}}'
    found = read(text.encode())
    assert found.text == '{"NaN": "NaN, \\"Infinity", "n": [null, 1.10, null], "e": 1e400}'
    assert found.value == {"NaN": 'NaN, "Infinity', "n": [None, 1.1, None], "e": None}


@given(VALUES | st.floats(allow_nan=False, allow_infinity=False))
def test_ordinary_json_is_read_as_by_the_standard_library(value):
    text = json.dumps([value, 0.1, 2.5e-8])
    assert loads_row(text) == json.loads(text)


# -- characters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (r"a\ud83d", "a\ufffd"),
        (r"\ude00a", "\ufffda"),
        (r"\ud83d\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d\\ude00", "\\\ufffd\\ude00"),
        (r"\\ud83d\ude00", r"\ud83d" + "\ufffd"),
        (r"\u0000\u0000", "\ufffd\ufffd"),
        (r"\\u0000", r"\u0000"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_half_a_character_and_nul_are_replaced(sent, text):
    found = read(f'{{"{sent}": ["{sent}"]}}'.encode())
    assert found.value == {text: [text]}
    assert json.loads(found.text) == found.value


@pytest.mark.parametrize(("sent", "text"), [(b"\xed\xa0\xbd", "\ufffd"), (b"\xed\xa0\xbd\xed\xb8\x80", "\U0001f600")])
def test_encoded_halves_are_joined_or_replaced(sent, text):
    found = read(b'["' + sent + b'"]')
    assert (found.value, found.text) == ([text], f'["{text}"]')


def test_a_row_keeps_its_characters():
    text = r'{"a": "\u0000 \ud83d\ude00 \\ud83d"}'
    assert loads_row(text) == json.loads(text)


def test_the_last_of_equal_names_counts():
    found = read(b'{"a": 1, "a": 2}')
    assert (found.value, found.text) == ({"a": 2}, '{"a": 1, "a": 2}')


# -- size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (b"[" + b'{"a":{}},' * 130_000 + b"1]", "more than 250,000 objects and arrays"),
        (b"[" + b'"[{,",1,' * 500_001 + b"1]", "more values than 1,000,000"),
    ],
    ids=["objects", "values"],
)
def test_the_number_of_values_is_limited_before_they_are_built(text, limit, monkeypatch):
    monkeypatch.setattr(strict_json, "_STRICT", None)
    with pytest.raises(LimitError, match=limit):
        read(text)


def test_what_looks_like_values_in_a_text_is_not_counted():
    text = '[{,"' * 300_000
    assert read(json.dumps([text]).encode()).value == [text]


BOMBS = {
    "objects": """b'[' + b'{"a":{}},' * 1_864_000 + b'1]'""",
    "chains": """b'[' + (b'{"a":' * 98 + b'1' + b'}' * 98 + b',') * 28_000 + b'1]'""",
    "texts": """b'[' + b'"ab",' * 3_355_000 + b'1]'""",
    "most": """b'[' + b'{"a":{}},' * 124_000 + b'1]'""",
}
READ = """
import resource, sys
from airflow_provider_assistant import strict_json
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
try:
    strict_json.read(eval(sys.argv[1]))
except strict_json.LimitError:
    pass
print("done")
"""


@pytest.mark.promise("security", "A small reply needs little memory, whatever it describes.")
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_reply_needs_little_memory_whatever_it_describes(bomb):
    """Each of these 16 MiB is some 60 kB of gzip. Their values take up to 890 MB."""
    read = subprocess.run(
        [sys.executable, "-c", READ, BOMBS[bomb], str(300 << 20)], capture_output=True, text=True, check=False
    )
    assert read.stdout == "done\n", read.stderr[-500:]


@pytest.mark.parametrize("text", [b"", b"{", b'"', b'"' * 200_001, b"[" * 50 + b'"\\' * 100, b"]" * 300, b"\xff\xfe["])
def test_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 (the message is the standard library's)
        read(text)


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
        read(text)
