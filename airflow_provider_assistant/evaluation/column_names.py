"""Find misspelt names among the columns of a golden set: an expectation that nobody reads checks nothing."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable

from airflow_provider_assistant.exceptions import AssistantInputError

# Columns with the labels of people.
_OTHER_NAMES = ("human", "human_answer")
# Other words for a column, as people compare them. A misspelt one is closer to its own column.
_OTHER_WORDS = {
    "expectedanswer": "expected",
    "expectedurl": "expected_url",
    "expectnoanswer": "expect_no_answer",
    "mustcontain": "must_include",
    "mustexclude": "must_not_include",
    "mustnotcontain": "must_not_include",
}
# Similarity from which a name counts as misspelt: one letter of four may differ, or two of ten.
_SIMILAR = 0.8
# The same for one word of several.
_SIMILAR_WORD = 0.6


def check_column_names(columns: Iterable[str], expectations: Iterable[str], key_columns: Collection[str] = ()) -> None:
    """
    Check that no column has almost the name of a column with expectations.

    Case, white space and punctuation always count as a mistake. Other differences count only if
    the table does not have the right column as well.

    :param columns: Columns of the golden set.
    :param expectations: Names of the columns with expectations.
    :param key_columns: Columns that identify a question, whatever their names are.
    :raises AssistantInputError: A column has such a name.
    """
    for name, meant in misspelt_names(columns, expectations).items():
        if name not in key_columns:
            raise AssistantInputError(
                f"column {name!r}: did you mean {meant!r}? With this name, it checks nothing",
                todo=f"Rename it to {meant!r}, or give it a name that is less similar.",
                field=name,
            )


def misspelt_names(columns: Iterable[str], expectations: Iterable[str]) -> dict[str, str]:
    """Return the right name of each column that has almost the name of a column with expectations."""
    names = list(columns)
    known = (*expectations, *_OTHER_NAMES)
    misspelt = {}
    for name in names:
        meant = _similar_name(name, known)
        if name in known or meant is None:
            continue
        if meant not in names or compared(meant) == compared(name):
            misspelt[name] = meant
    return misspelt


def _similar_name(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a name is most similar to; None if it is not similar to any."""
    text = compared(name)
    other_word = _OTHER_WORDS.get(text)
    if other_word in known:
        return other_word
    for one in known:
        # Letters in another order.
        if sorted(compared(one)) == sorted(text):
            return one
    known_by_compared = {compared(one): one for one in known if not _adds_a_word(name, one)}
    similar = difflib.get_close_matches(text, known_by_compared, n=1, cutoff=_SIMILAR)
    return known_by_compared[similar[0]] if similar else None


def compared(name: str) -> str:
    """Return the letters and digits of a name, in one case."""
    return "".join(_words(name))


def _adds_a_word(name: str, known: str) -> bool:
    """Return whether a name has a word that is unlike all of a known name, such as ``expected_source``."""
    known_texts = [*_words(known), compared(known)]
    return not all(difflib.get_close_matches(word, known_texts, 1, _SIMILAR_WORD) for word in _words(name))


def _words(name: str) -> list[str]:
    text = unicodedata.normalize("NFKC", name).casefold()
    return re.findall(r"[^\W_]+", text)
