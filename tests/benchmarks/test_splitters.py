"""What the comparison of splitters counts."""

from __future__ import annotations

import pytest

from tests.benchmarks.splitters import TREES, compared, faults, ours

PAGE = "u1u words\n\n# u2u\n\nu3u"


@pytest.mark.parametrize(
    ("chunk", "fault"),
    [
        ("```python\ncode", "odd fences"),
        ("text\n\n| a |\n| b |", "headless tables"),
        ("---", "without prose"),
        ("```python\n```", "without prose"),
        ("[a]: https://x.org\n[b]: c", "without prose"),
        ("[![Build](x)](y) ![](z)", "without prose"),
        ("word " * 300, "too long"),
    ],
)
def test_faults_are_counted(chunk, fault):
    good = ("```sh\nu1u\n```\n\n| a |\n|---|\n| u2u |", "u3u")
    assert +faults(PAGE, [good, (chunk, "")]) == {"chunks": 2, "words": 3, fault: 1}


def test_lost_words_are_counted():
    assert faults(PAGE, [("u1u", "u2u")])["lost words"] == 1


@pytest.mark.parametrize("name", TREES)
def test_the_chunks_of_the_package_have_none(name):
    found, _ = compared(name, ours, 3)
    assert set(+found) == {"chunks", "words"}
