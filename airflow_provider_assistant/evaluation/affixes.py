# ruff: noqa: RUF001
"""
Particles that some languages write together with a word: ``환불은``, ``والرقم``, ``להחזר``.

They do not change the word, unlike the endings of other languages, which are not known here.
"""

from __future__ import annotations

import re

_HANGUL = re.compile("[가-힣]+")
_ARABIC = re.compile("[\u0620-\u064a]+")
_HEBREW = re.compile("[א-ת]+")
# Persian and Urdu use Arabic letters, but not these particles. Their texts contain these letters.
OTHER_ARABIC_SCRIPT = re.compile("[پچژگکیےٹڈڑں]")

# Korean particles, by whether the syllable before them ends with a consonant.
_ANY = "의|에|에서|에게|에게서|께|께서|한테|도|만|까지|부터|마다|보다|처럼|밖에|하고|만큼|뿐|대로|조차|마저|들"
_TAIL = "(?:은|는|이|가|을|를|도|만|의|까지|부터|로|에|에서|에게|보다|서|요)?"
_AFTER_CONSONANT = re.compile(f"(?:{_ANY}|은|이|을|과|으로|이나|이며|이고|이란|이라|이랑|이든){_TAIL}")
_AFTER_VOWEL = re.compile(f"(?:{_ANY}|는|가|를|와|로|나|며|고|란|라|랑|든){_TAIL}")
# "Is", after a particle or not: 30일까지입니다
_COPULA = re.compile(f"(?:{_ANY}|으로|로)?(?:(?:입니|이에요|예요|이다|이지|이므로|인데|인가|인지|이었|였)[가-힣]*|인)")
# Verbs that make an action of a noun, as in 가능합니다 and 환불받을
_VERB = re.compile("(?:하|한|할|합|해|했|함|되|된|될|됩|돼|됐|됨|받|시키|시켜)[가-힣]*")
_FIRST_SYLLABLE, _FINALS, _FINAL_L = ord("가"), 28, 8

# And, so; with, like, to; the
_ARABIC_PREFIXES = frozenset(
    joined + preposition for joined in ("", "و", "ف") for preposition in ("", "ب", "ك", "ل", "ال", "بال", "كال", "لل")
)
# His, her, their, your, our; the ending of counted nouns
_ARABIC_SUFFIXES = frozenset(("", "ه", "ها", "هم", "هن", "هما", "ك", "كم", "كن", "نا", "ا"))
# And; when, that; in, as, to, from; the
_HEBREW_PREFIX = re.compile("ו?(?:כש|לכש|מש|ש)?[בכלמ]?ה?")
_SHORTEST_STEM = 3
# Common words that only look as if they had a particle: بطاقة is a card, and طاقة is energy.
_WHOLE_WORDS = frozenset(
    (
        *("정도", "속도", "온도", "제도", "시도", "지도", "태도", "회의", "주의"),
        *("동의", "정의", "합의", "사고", "최고", "추가", "허가", "통과", "결과"),
        *("효과", "학과", "개인", "본인", "원인", "성인", "주인", "법인", "할인"),
        *("확인", "같이", "많이", "없이", "종이", "놀이", "바로", "서로", "별로"),
        *("주로", "대로", "사랑", "아들", "수도", "기도", "بطاقة", "فكرة", "وجهة"),
        *("ورقة", "وسائل", "وحدة", "بعيد", "كحول", "لجنة", "مالك", "بضائع", "بحرية"),
        *("كامل", "كانت", "كان", "واحد", "واحدا", "كلها", "كلهم", "كلما", "كلنا"),
        *("سوريا", "تركيا", "מספר", "מספרים", "בקשה", "משלוח", "החזר", "שמים", "מכתב"),
        *("מועד", "משרד", "מידע", "מערכת", "מכשיר", "שאלה", "המשך", "מחלקה", "כניסה"),
        *("ועדה", "הנחה", "מקום", "משקל", "מקרה", "מעבר", "משחק", "מבנה", "מפתח"),
        *("מאמר", "מחשב", "מהלך", "מעמד", "משנה", "מפעל", "משותף", "כמות", "כדור"),
        *("מאות", "הרבה", "כלים", "שמונה", "מפני"),
    )
)


def has_particles(word: str) -> bool:
    """Return whether a word is of a language whose particles are known here: Korean, Arabic or Hebrew."""
    return any(script.fullmatch(word) for script in (_HANGUL, _ARABIC, _HEBREW))


def is_with_particles(word: str, stem: str) -> bool:
    """
    Return whether a word is a given one with particles.

    :param word: The word, in folded form.
    :param stem: Another word, for which :func:`has_particles` holds.
    """
    if word in _WHOLE_WORDS:
        return False
    if _HANGUL.match(stem):
        return word.startswith(stem) and _is_korean(stem, word.removeprefix(stem))
    if len(stem) < _SHORTEST_STEM:
        return False
    if _HEBREW.match(stem):
        return word.endswith(stem) and bool(_HEBREW_PREFIX.fullmatch(word.removesuffix(stem)))
    return _is_arabic(word, stem)


def _is_korean(stem: str, particles: str) -> bool:
    final = (ord(stem[-1]) - _FIRST_SYLLABLE) % _FINALS
    known = [_COPULA, _AFTER_CONSONANT if final else _AFTER_VOWEL]
    if final == _FINAL_L and particles.startswith("로"):
        known.append(_AFTER_VOWEL)
    if len(stem) > 1:
        known.append(_VERB)
    return any(pattern.fullmatch(particles) for pattern in known)


def _is_arabic(word: str, stem: str) -> bool:
    # After ل, the article loses its first letter.
    contracted = "ل" + stem.removeprefix("ا")
    if stem.startswith("ال") and word.endswith(contracted):
        return word.removesuffix(contracted) in {"", "و", "ف"}
    # Before a suffix, ة becomes ت.
    stem_with_suffix = stem[:-1] + "ت" if stem.endswith("ة") else stem
    for form, suffixes in ((stem, {""}), (stem_with_suffix, _ARABIC_SUFFIXES)):
        prefix, found, suffix = word.partition(form)
        if found and prefix in _ARABIC_PREFIXES and suffix in suffixes:
            return True
    return False
