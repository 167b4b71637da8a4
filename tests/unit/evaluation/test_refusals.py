"""
Refusals on labelled answers.

Each file of the folder ``refusals`` has answers of one language, one a line: refusals, and answers that help although
they have words of refusals, such as conditions, quotations and what the customer cannot do. A question back to the
customer helps, and so does an answer that ends with a disclaimer. The phrases were written with a look at one part; the
other part was held out. English is here in full; of the other languages, every tenth or so of the answers is.
"""

from __future__ import annotations

import random
import time
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_assistant.evaluation.refusals import REFUSALS, refuses

FOLDER = Path(__file__).with_name("refusals")
LANGUAGES = [phrases.language for phrases in REFUSALS]
PARTS = ["refusals", "refusals, held out", "answers", "answers, held out"]


def labelled(language: str) -> dict[str, list[str]]:
    """Return the lines of a file by the headings of its parts."""
    parts: dict[str, list[str]] = {}
    for line in (FOLDER / f"{language.lower()}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            lines = parts.setdefault(line.removeprefix("== "), [])
        else:
            lines.append(line)
    assert list(parts) == PARTS
    return parts


@cache
def shares(language: str) -> list[float]:
    """Return the share of answers that refuse, for each part of a file."""
    return [sum(map(refuses, lines)) / len(lines) for lines in labelled(language).values()]


@pytest.mark.promise("evaluation", "Refusals are found in 19 languages, and help is not taken for one.")
@pytest.mark.parametrize("language", LANGUAGES)
def test_refusals_are_found_and_help_is_not_taken_for_one(language):
    *recall, false_alarms, false_alarms_held_out = shares(language)
    assert min(recall) >= 0.8
    assert max(false_alarms, false_alarms_held_out) <= 0.05


NOISE: dict[str, Callable[[str], str]] = {
    "upper case": str.upper,
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "emphasis": lambda text: f"**{text}**",
    "in quotation marks": lambda text: text if set(text) & set('"“”„«「') else f"“{text}”",
    "curly apostrophes": lambda text: text.replace("'", "\u2019"),
    "spaces": lambda text: "\n " + text.replace(" ", " \u00a0\n "),
    "emoji": lambda text: f"😔 {text} 🙏",
    "a continuation": lambda text: f"{text}\n\n- https://example.com/help" + " 1 2 3." * 200,
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_the_form_of_an_answer_does_not_matter(noise):
    chance = random.Random(20)
    for language in LANGUAGES:
        for lines in labelled(language).values():
            for text in chance.sample(lines, 2):
                assert refuses(noise(text)) == refuses(text), text


def test_a_refusal_counts_only_at_the_beginning_and_outside_of_quotations_and_conditions():
    """Each refusal in English that is found, inside of answers that help."""
    refusals = [text.rstrip(".!") for text in labelled("English")["refusals"] if refuses(text)]
    for refusal in refusals:
        assert refuses(f"I'm sorry to hear that. {refusal}.")
        assert not refuses(f"Yes, within 30 days. {refusal}.")
        assert not refuses(f'When the device says "{refusal}", restart it.')
        clause = refusal.replace(".", ",").replace("!", ",").replace(", but", " and")
        assert not refuses(f"If this message appears, {clause}, then restart the device.")
        assert not refuses(f"What does it mean: {clause}?")


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is no.",
        "Sorry for the delay! Your refund is on its way.",
        "I don't know anyone who regrets it.",
        "There is nothing to worry about.",
        "I don't know which model you have. Is it the X1 or the X2?",
        "?!",
        "…",
    ],
)
def test_these_answers_help(answer):
    assert not refuses(answer)


@pytest.mark.parametrize(
    "answer", ["", " \n\u00a0", "Sorry, but I can't assist with that.", "🙂. Dear Ms Lee,\n\nI don't know."]
)
def test_these_answers_refuse(answer):
    assert refuses(answer)


def test_phrases_of_your_own_may_occur_anywhere():
    assert refuses("That is a matter of taste. Ask in the shop.", ["ask in the shop"])
    assert refuses("Please ask in a shop.", (*REFUSALS, "ask in a shop"))
    assert not refuses("I don't know.", ["ask in the shop"])
    german = [phrases for phrases in REFUSALS if phrases.language == "German"]
    assert refuses("Das weiß ich nicht.", german)
    assert not refuses("I don't know.", german)


def test_long_answers_take_no_time():
    """Only the beginning is read, and no pattern tries all combinations of its words."""
    words = [
        "i ",
        "i can't ",
        "no ",
        "sorry, but ",
        "'a ",
        '"',
        "documents ",
        "ich ",
        "je ne ",
        "我",
        "ฉัน",
        "मैं ",
        "\n",
        "a b ",
        "no.",
    ]
    started = time.process_time()
    for word in words:
        refuses(word * (100_000 // len(word)))
    assert time.process_time() - started < 0.05 * len(words)
