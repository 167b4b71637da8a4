"""The page on capacity agrees with the simulation."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks.capacity import measured
from tests.docs.capacity import BEGIN, END, PAGE, SCENARIOS, SLOTS, night, written


@pytest.mark.slow  # simulates a night of a thousand sites
def test_page_has_the_tables_of_the_simulation() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == written(), "make capacity writes it"


def test_summary_agrees_with_the_tables() -> None:
    costs = measured("new")
    text = PAGE.read_text().partition(BEGIN)[0]
    first, nightly = (night(name, SLOTS[-1]).hours for name in list(SCENARIOS)[:2])
    assert re.search(rf"first load takes {first:.0f} hours with {SLOTS[-1]} slots", text)
    ledger = 100e6 * (costs.table_bytes + costs.index_bytes) / 1e9
    assert f"{ledger:.0f} GB after the first load" in text
    assert 0.75 <= nightly <= 1.5, "the text says about an hour"
