"""The list of promises is complete and up to date."""

from __future__ import annotations

from collections import Counter

from tests import promises


def test_the_list_is_generated_from_the_tests() -> None:
    assert promises.PAGE.read_text() == promises.page(), "run: python -m tests.promises"


def test_each_promise_is_stated_once_in_a_known_area() -> None:
    stated = promises.promises()
    assert {one.area for one in stated} <= set(promises.AREAS)
    sentences = Counter(one.sentence for one in stated)
    assert not [sentence for sentence, times in sentences.items() if times > 1]
    assert all(one.sentence.endswith(".") for one in stated)
