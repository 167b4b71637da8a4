"""Mark the words in which two texts differ."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

from airflow_provider_assistant.evaluation.report.formats import legible
from airflow_provider_assistant.evaluation.text import UNSPACED

# Length limits of a text that is shown. The comparison is quadratic in the number of tokens.
MAX_CHARACTERS = 1500
MAX_TOKENS = 600
# Prose has some thousands of pairs. Beyond this limit, the most frequent tokens are marked without comparison.
MAX_PAIRS = 30_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Side:
    """
    One of two compared texts.

    :param pieces: The text, up to the length limit.
    :param left_out: Number of characters after the limit.
    """

    pieces: tuple[Piece, ...]
    left_out: int


def compare(expected: str, answer: str) -> tuple[Side, Side]:
    """
    Mark the words that only one of two texts has. The comparison ignores case.

    Text beyond ``MAX_CHARACTERS`` or ``MAX_TOKENS`` is cut off.
    """
    left, left_out = _tokens(expected)
    right, right_out = _tokens(answer)
    left_keys, right_keys = _keys(left), _keys(right)
    is_long = _pairs(left_keys, right_keys) > MAX_PAIRS
    blocks = SequenceMatcher(None, left_keys, right_keys, autojunk=is_long).get_matching_blocks()
    expected_pieces = _pieces(left, [(block.a, block.size) for block in blocks])
    answer_pieces = _pieces(right, [(block.b, block.size) for block in blocks])
    return Side(expected_pieces, left_out), Side(answer_pieces, right_out)


def plain(text: str) -> Side:
    """Return a text without comparison, cut to the same limits."""
    tokens, left_out = _tokens(text)
    return Side((Piece("".join(tokens), differs=False),), left_out)


def split(text: str) -> list[str]:
    """Split a text into words, marks and, in scripts without spaces, characters. Spaces belong to the token before."""
    tokens: list[str] = []
    for character in text:
        if tokens and not _begins(tokens[-1][-1], character):
            tokens[-1] += character
        else:
            tokens.append(character)
    return tokens


def _begins(before: str, character: str) -> bool:
    if character.isspace() or unicodedata.category(character)[0] == "M":
        return False
    return not (_in_word(before) and _in_word(character))


def _in_word(character: str) -> bool:
    category = unicodedata.category(character)[0]
    return category in "LNM" and not UNSPACED.match(character)


def _tokens(text: str) -> tuple[list[str], int]:
    """Return the tokens that are compared, and the number of characters after them."""
    shown = legible(text[:MAX_CHARACTERS])[:MAX_CHARACTERS]
    tokens = split(shown)
    if len(tokens) <= MAX_TOKENS:
        return tokens, max(0, len(text) - MAX_CHARACTERS)
    kept = tokens[:MAX_TOKENS]
    return kept, len(text) - len("".join(kept))


def _keys(tokens: list[str]) -> list[str]:
    return [token.strip().casefold() for token in tokens]


def _pairs(left: list[str], right: list[str]) -> int:
    """Return the number of position pairs with equal tokens, which determines the cost of the comparison."""
    numbers = Counter(right)
    return sum(numbers[token] for token in left)


def _pieces(tokens: list[str], same: list[tuple[int, int]]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    place = 0
    for start, size in same:
        changed = "".join(tokens[place:start])
        words = changed.rstrip()
        pieces.append(Piece(words, differs=True))
        pieces.append(Piece(changed[len(words) :], differs=False))
        pieces.append(Piece("".join(tokens[start : start + size]), differs=False))
        place = start + size
    return tuple(piece for piece in pieces if piece.text)
