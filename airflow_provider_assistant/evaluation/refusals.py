"""
Detect refusals: answers that say that the assistant does not know or will not help.

``refusal_phrases.txt`` has the phrases: regular expressions for each language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_assistant.evaluation.phrases import includes
from airflow_provider_assistant.evaluation.text import fold

# A refusal comes early: only the first characters are read, which also bounds the time.
_OPENING = 300
_QUOTED = re.compile(r"\"[^\"]{1,200}\"|(?<!\w)'[^\"]{1,100}?'(?!\w)")
# The end of a sentence, a contrast such as ", but", or a space between Thai phrases.
_END = re.compile(
    r"[!。।॥]+|\.(?=\s|$)|(?<=[\u0e00-\u0e7f]) (?=[\u0e00-\u0e7f])"
    r"|, ?(?=(?:but(?! i (?:can|will)\b)|aber|mais|pero|mas|ma|но|але|لكن|ولكن|लेकिन|पर|maar|ale|ama|men)\b)"
)
# Languages without spaces between words, or whose vowel signs and endings are part of a word.
_UNSPACED = ("Japanese", "Chinese", "Thai", "Hindi", "Korean")
_DEFINITION = re.compile("([a-z]+): (.*)")
_NAME = re.compile("{([a-z]+)}")
_PARAGRAPH = re.compile(r"\n\s*\n")
_BEFORE_WORDS = re.compile(r"^\W+")
_QUESTION_MARK = re.compile("[?؟]+")
_MARKUP = str.maketrans("", "", "*_`#>")
# One spelling for characters that mean the same: apostrophes and quotation marks, letters of Hindi,
# Russian and Turkish, and the traditional Chinese characters of the phrases.
_SPELLINGS = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a「」『』"), '"'),
    **str.maketrans("ँёı", "ंеi", "\u093c"),  # noqa: RUF001
    **str.maketrans(
        "無關於沒資訊對問題幫協說這個僅處為與從並們點應該過還請見範圍議論詢據內學權許絕難確",
        "无关于没资讯对问题帮协说这个仅处为与从并们点应该过还请见范围议论询据内学权许绝难确",
    ),
}


@dataclass(frozen=True, slots=True)
class RefusalPhrases:
    """
    How assistants refuse in one language.

    :param refusal: Matches in a sentence that refuses.
    :param lead: Matches in a sentence that may precede the refusal, such as an apology.
    :param unless: Matches before a phrase that does not refuse, such as a condition.
    """

    language: str
    refusal: re.Pattern[str]
    lead: re.Pattern[str]
    unless: re.Pattern[str]


def _refusals() -> tuple[RefusalPhrases, ...]:
    """Read the languages of the table."""
    table = Path(__file__).with_name("refusal_phrases.txt").read_text(encoding="utf-8")
    sections = table.replace("\n  ", "").split("\n== ")
    return tuple(_phrases_of(section) for section in sections[1:])


def _phrases_of(section: str) -> RefusalPhrases:
    language, *lines = section.splitlines()
    names: dict[str, str] = {}
    refusals: list[str] = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        pattern = _NAME.sub(lambda name: names[name[1]], line)
        definition = _DEFINITION.fullmatch(pattern)
        if definition:
            names[definition[1]] = definition[2]
        else:
            refusals.append(pattern)
    is_spaced = language not in _UNSPACED
    # Where phrases start and end. The first test skips most positions quickly.
    start, end = (r"\b(?=\w)", r"(?!\w)") if is_spaced else (r"(?=[^\x00-\x7f])", "")
    return RefusalPhrases(
        language=language,
        refusal=_compiled(f"{start}(?:{'|'.join(refusals)})"),
        lead=_compiled(f"{start}(?:{names['lead']})"),
        unless=_compiled(f"{start}(?:{names['unless']}){end}"),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    # Groups that do not capture are faster.
    pattern = pattern.replace("…", "[^;:]{0,70}?").replace("(", "(?:").replace("(?:?", "(?")
    return re.compile(_plain(pattern))


def _plain(text: str) -> str:
    """Return a text in lower case, with single spaces and one spelling for equal characters."""
    return " ".join(fold(text).translate(_SPELLINGS).split())


# The phrases of all languages of the table.
REFUSALS: tuple[RefusalPhrases, ...] = _refusals()


def refuses(answer: str, phrases: Sequence[str | RefusalPhrases] = REFUSALS) -> bool:
    """
    Return whether an answer is empty, says that the assistant does not know, or will not help.

    Phrases of a language are looked for in the first sentence, and in the next ones as long as only
    an apology, thanks or the like precede. So an answer that ends with a disclaimer does not refuse,
    and an answer that says that it does not know, and then guesses, does. Questions, quotations,
    conditions and what the customer cannot do are not refusals. Your own texts may be anywhere.

    :param answer: Text of the answer.
    :param phrases: Phrases of languages, or texts, of which one is enough. Default: ``REFUSALS``,
        the phrases of all languages.
    """
    if not answer.strip():
        return True
    sentences = _opening(answer)
    for phrase in phrases:
        if isinstance(phrase, str):
            is_found = includes(answer, phrase)
        else:
            is_found = _is_refusal(sentences, phrase)
        if is_found:
            return True
    return False


def _opening(answer: str) -> list[str]:
    """Return the first sentences of an answer, without questions, quotations and markup."""
    beginning = answer.strip()[:_OPENING]
    text = _plain(_PARAGRAPH.sub("。", beginning)).translate(_MARKUP)
    without_quotations = _QUOTED.sub(" ", text)
    if any(char.isalnum() for char in without_quotations):
        text = without_quotations
    parts = _END.split(_QUESTION_MARK.sub("?。", text))
    sentences = [_BEFORE_WORDS.sub("", part) for part in parts if "?" not in part]
    return [sentence for sentence in sentences if sentence]


def _is_refusal(sentences: Sequence[str], phrases: RefusalPhrases) -> bool:
    for sentence in sentences:
        found = phrases.refusal.search(sentence)
        if found and not phrases.unless.search(sentence, 0, found.end()):
            return True
        if not phrases.lead.search(sentence):
            return False
    return False
