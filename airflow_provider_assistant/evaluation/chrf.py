"""
chrF2 (Popović 2015): the F2 score of the character 1- to 6-grams of two texts, without spaces.

The texts are not normalised. The scores equal those of sacrebleu to the last bit.
"""

from __future__ import annotations

from collections import Counter

_ORDER = 6
_BETA_SQUARED = 4


def chrf(answer: str, expected: str) -> float:
    """Return chrF2 of two texts, from 0 to 1."""
    answer = "".join(answer.split())
    expected = "".join(expected.split())
    # A text of three characters has no 4-grams.
    orders = min(_ORDER, len(answer), len(expected))
    if not orders:
        return 0.0
    precision = recall = 0.0
    for order in range(1, orders + 1):
        answer_ngrams = _ngrams(answer, order)
        expected_ngrams = _ngrams(expected, order)
        common = (answer_ngrams & expected_ngrams).total()
        precision += common / answer_ngrams.total()
        recall += common / expected_ngrams.total()
    precision /= orders
    recall /= orders
    if not precision + recall:
        return 0.0
    score = (1 + _BETA_SQUARED) * precision * recall
    score /= _BETA_SQUARED * precision + recall
    # sacrebleu returns percent. Round as it does.
    return 100 * score / 100


def _ngrams(text: str, order: int) -> Counter[str]:
    starts = range(len(text) - order + 1)
    return Counter([text[start : start + order] for start in starts])
