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
    expected_tokens, expected_left_out = _tokens(expected)
    answer_tokens, answer_left_out = _tokens(answer)
    expected_words = _comparable(expected_tokens)
    answer_words = _comparable(answer_tokens)
    # With autojunk, difflib ignores the most frequent tokens, which makes a long comparison fast.
    is_expensive = _number_of_pairs(expected_words, answer_words) > MAX_PAIRS
    matcher = SequenceMatcher(None, expected_words, answer_words, autojunk=is_expensive)
    blocks = matcher.get_matching_blocks()
    # A block is a run of equal tokens, which begins at "a" in the first text and at "b" in the second.
    expected_pieces = _pieces(expected_tokens, [(block.a, block.size) for block in blocks])
    answer_pieces = _pieces(answer_tokens, [(block.b, block.size) for block in blocks])
    return Side(expected_pieces, expected_left_out), Side(answer_pieces, answer_left_out)


def plain(text: str) -> Side:
    """Return a text without comparison, cut to the same limits."""
    tokens, left_out = _tokens(text)
    return Side((Piece("".join(tokens), differs=False),), left_out)


def split(text: str) -> list[str]:
    """Split a text into words, marks and, in scripts without spaces, characters. Spaces belong to the token before."""
    tokens: list[str] = []
    previous = ""
    for character in text:
        if not tokens or _begins_token(previous, character):
            tokens.append(character)
        else:
            tokens[-1] += character
        previous = character
    return tokens


def _begins_token(previous: str, character: str) -> bool:
    # Category M: an accent belongs to the letter before.
    if character.isspace() or unicodedata.category(character)[0] == "M":
        return False
    return not (_is_in_word(previous) and _is_in_word(character))


def _is_in_word(character: str) -> bool:
    # Letters, numbers and accents.
    category = unicodedata.category(character)[0]
    return category in "LNM" and not UNSPACED.match(character)


def _tokens(text: str) -> tuple[list[str], int]:
    """Return the tokens that are compared, and the number of characters after them."""
    # A legible text may be longer: a direction mark becomes a code point of eight characters.
    shown = legible(text[:MAX_CHARACTERS])[:MAX_CHARACTERS]
    tokens = split(shown)
    if len(tokens) <= MAX_TOKENS:
        return tokens, max(0, len(text) - MAX_CHARACTERS)
    kept = tokens[:MAX_TOKENS]
    return kept, len(text) - len("".join(kept))


def _comparable(tokens: list[str]) -> list[str]:
    return [token.strip().casefold() for token in tokens]


def _number_of_pairs(expected_words: list[str], answer_words: list[str]) -> int:
    """Return the number of position pairs with equal tokens, which determines the cost of the comparison."""
    counts = Counter(answer_words)
    return sum(counts[word] for word in expected_words)


def _pieces(tokens: list[str], equal_runs: list[tuple[int, int]]) -> tuple[Piece, ...]:
    """
    Return a text as pieces.

    :param equal_runs: Start and length of each run of tokens that the other text has, too. The last
        one is empty and starts at the end of the text.
    """
    pieces: list[Piece] = []
    end_of_last_run = 0
    for start, size in equal_runs:
        changed = "".join(tokens[end_of_last_run:start])
        words = changed.rstrip()
        # Do not mark the space after the last changed word.
        spaces = changed[len(words) :]
        end = start + size
        pieces.append(Piece(words, differs=True))
        pieces.append(Piece(spaces, differs=False))
        pieces.append(Piece("".join(tokens[start:end]), differs=False))
        end_of_last_run = end
    return tuple(piece for piece in pieces if piece.text)
