"""What the values in a reply mean: words such as ``Pass.``, and scores such as ``4/5``."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.evaluation.judging.rubrics import Scale
from airflow_provider_assistant.texts import shortened, storable

Word: TypeAlias = Literal["pass", "fail"]
Better: TypeAlias = Literal["first", "second", "tie"]

SHOWN = 120
# From this largest score of a scale on, a number between 0 and 1 is more likely on a scale from 0 to 1.
LARGE_SCALE = 5
AROUND_WORD = " \t\r\n*_`~\"'“”„«»‘’.!,;:()[]<>#-–—\ufe0f"  # noqa: RUF001 (marks that models use)

_PASSES = "pass passed passes yes true correct ok ✅ ✔ ja bestanden oui sí si sim да はい 是 예"
_FAILS = "fail failed fails failure no false incorrect ❌ ✗ nein non não nao нет いいえ 否 아니요"
_WORDS: dict[str, Word] = {
    **dict.fromkeys(_PASSES.split(), "pass"),
    **dict.fromkeys(_FAILS.split(), "fail"),
    **dict.fromkeys(("not pass", "not passed", "does not pass", "did not pass", "nicht bestanden"), "fail"),
}
_FIRST_WORD = re.compile(r"\w+|[✅✔❌✗]")
_AFTER_WORD = re.compile(r"[\s*_]*[.,;:!(\n–—-]")  # noqa: RUF001
# What must not follow a verdict in the same line.
_OPPOSITE = {
    "pass": re.compile(r"\b(?:fail\w*|incorrect|not (?:pass|correct))\b", re.IGNORECASE),
    "fail": re.compile(r"(?<!not )(?<!n't )\b(?:pass|passes|passed|(?:is|are) (?:correct|right))\b", re.IGNORECASE),
}
_HEDGE = re.compile(r"\b(?:but|however|although|part(?:ly|ially)|depends|unless)\b", re.IGNORECASE)
_PLACE = r"(?:the )?(?:answer |response |option )?(?:%s)(?: answer| response| one)?(?: is better)?"
_BETTER: dict[Better, re.Pattern[str]] = {
    "first": re.compile(_PLACE % "first|1|1st|a"),
    "second": re.compile(_PLACE % "second|2|2nd|b"),
    "tie": re.compile(r"(?:a )?(?:tie|draw)|both|neither|none|equal|equally good|(?:the )?same"),
}
_NUMBER = re.compile(r"\d{1,9}(?:[.,]\d{1,9})?")
_WITH_UNIT = re.compile(rf"{_NUMBER.pattern}(?: (?:points?|stars?|punkte))?")
_MINUS = re.compile(r"[-−–]\s*\d")  # noqa: RUF001
_PERCENT = re.compile(rf"({_NUMBER.pattern})\s*%")
_FRACTION = re.compile(rf"({_NUMBER.pattern})\s*(?:/|out of|von|sur)\s*({_NUMBER.pattern})", re.IGNORECASE)


class UnclearError(ValueError):
    """Raised for a reply whose meaning is not clear."""


def flag(value: Any, scale: Scale | None) -> Word | None:
    """
    Return the verdict that a value is: a word, a bool, or 1 or 0; None if it is another value.

    :param scale: The scale of the rubric. If there is one, 1 and 0 are scores.
    """
    if isinstance(value, bool):
        return "pass" if value else "fail"
    if isinstance(value, str):
        word = _word(value)
        if word is not None:
            return word
        value = _bare(value)
    if scale is None and value in (0, 1, "0", "1"):
        return "pass" if int(value) else "fail"
    return None


def score(value: Any, scale: Scale | None) -> float:
    """
    Return a score as a share of its scale.

    :param value: A number, or a text such as ``0.8``, ``4/5`` or ``80 %``.
    :param scale: The scale of the rubric; None if scores are from 0 to 1.
    """
    number: Any = value
    low: float
    high: float
    low, high = scale or (0, 1)
    if isinstance(value, str):
        if _MINUS.search(value):
            raise UnclearError(f"{beginning(value)} is not a score")
        text = _bare(value)
        percent = _PERCENT.fullmatch(text)
        fraction = _FRACTION.fullmatch(text)
        if percent:
            return score(_float(percent.group(1)), Scale(0, 100))
        if fraction:
            number, whole = _float(fraction.group(1)), _float(fraction.group(2))
            if scale and whole != high:
                raise UnclearError(f"the score {beginning(value)} is not on the scale of the rubric, {low} to {high}")
            high = whole
        elif _WITH_UNIT.fullmatch(text):
            number = _float(text.split()[0])
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnclearError(f"{beginning(value)} is not a score")
    return _share(number, low, high, has_scale=scale is not None)


def better(value: Any) -> Better:
    """Return which of two answers is better."""
    if value is not None:
        text = _bare(str(value))
        for which, pattern in _BETTER.items():
            if pattern.fullmatch(text):
                return which
    raise UnclearError(f"{beginning(value)} is neither first, second nor tie")


def beginning(value: Any) -> str:
    """Return the beginning of a value, for a message."""
    return repr(shortened(storable(str(value)), SHOWN))


def _share(number: float, low: float, high: float, *, has_scale: bool) -> float:
    if not low <= number <= high or low == high:
        hint = ""
        if not has_scale:
            hint = ". If the rubric has another scale, it must say so, such as 'score from 1 to 5'"
        raise UnclearError(f"the score {number:g} is not from {low:g} to {high:g}{hint}")
    if has_scale and 0 < number < 1 and high >= LARGE_SCALE:
        raise UnclearError(f"the score {number:g} may be on the scale from {low:g} to {high:g}, or from 0 to 1")
    return (number - low) / (high - low)


def _word(text: str) -> Word | None:
    """Return the verdict that a text is, or that it begins with: ``Pass.``, ``**Yes**``, ``FAIL: nine days``."""
    bare = _bare(text)
    if bare in _WORDS:
        return _WORDS[bare]
    start = text.lstrip(AROUND_WORD)
    first = _FIRST_WORD.match(start)
    if not first:
        return None
    first_word = first.group().casefold()
    rest = start[first.end() :]
    word = _WORDS.get(first_word)
    if word is None or not _AFTER_WORD.match(rest):
        return None
    # "Yes, but …" is not a clear verdict; "PASS: … but …" is.
    is_hedged = not first_word.startswith(word) and _HEDGE.search(rest)
    if is_hedged or _OPPOSITE[word].search(rest):
        raise UnclearError("it says both")
    return word


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _bare(text: str) -> str:
    """Return a text without the marks around it, in small letters and plain characters."""
    return unicodedata.normalize("NFKC", text).strip(AROUND_WORD).casefold()
