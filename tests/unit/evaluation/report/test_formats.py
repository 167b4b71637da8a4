# ruff: noqa: RUF001
from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.report import formats

CASES = {
    # Nearly all is not all, and hardly any is not none.
    formats.percent: {0.98765: "98.8\u202f%", 1.0: "100.0\u202f%", 0.9999: "99.9\u202f%", 0.0001: "0.1\u202f%"},
    # Only a full score is 1.
    formats.score: {0.5: "0.500", 1.0: "1.000", 0.99999: "0.999", None: "–"},
    formats.seconds: {0.1234: "0.12\u202fs", 12.34: "12.3\u202fs", 1234.5: "1,234\u202fs", None: "–"},
    formats.signed: {0.02: "+0.020", -0.02: "−0.020", -0.0001: "0.000", None: "–"},
    # A value beside the limit is seen to be beside it.
    formats.exact: {0.6: "0.6000", 0.82446: "0.8245", 0.599996: "0.59999600", -0.037: "−0.0370", None: "–"},
    formats.moment: {
        "2026-11-20T00:03:12Z": "2026-11-20 00:03 UTC",
        "2026-11-20T01:03:12+02:00": "2026-11-19 23:03 UTC",
        "2026-11-20T00:03:12": "2026-11-20 00:03 UTC",
        "yesterday": "yesterday",
        None: "–",
    },
    formats.day: {"2026-11-20T00:03:12+00:00": "11-20", "yesterday": "", None: ""},
    # What cannot be seen is made visible, and what can be read stays as it is.
    formats.legible: {
        "a\x00b\x1b[31m\x7f\x85": "a␀b␛[31m␡\N{REPLACEMENT CHARACTER}",
        "\ud800\uffff": 2 * "\N{REPLACEMENT CHARACTER}",
        "\N{RIGHT-TO-LEFT OVERRIDE}x\N{POP DIRECTIONAL ISOLATE}": "[U+202E]x[U+2069]",
        **{text: text for text in ("line\n\tline", "שלום", "नमस्ते", "🇩🇪👩‍👩‍👧", "a\N{RIGHT-TO-LEFT MARK}b")},
    },
}


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_values_are_written_for_people(write):
    assert {value: write(value) for value in CASES[write]} == CASES[write]
