# ruff: noqa: RUF001
"""Words, phrases and addresses in texts of many scripts."""

from __future__ import annotations

import random
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.text import addresses_in, has_phrase, normalise, tokens

SCRIPTS = {
    "russian": "Возврат возможен в течение 30 дней.",
    "japanese": "返金は三十日以内に可能です。パスワードを変更してください。",
    "thai": "คืนเงินได้ภายใน 30 วัน น้ำ",
    "arabic": "يمكنك استرداد المبلغ خلال 30 يومًا.",
    "hindi": "आप 30 दिनों के भीतर वापसी कर सकते हैं।",
    "korean": "30일 이내에 환불받을 수 있습니다.",
    "emoji": "👍🏽 ❤ 🇩🇪",
}


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Quick,\tbrown\nFOX! ", "quick brown fox"),
        ("Straße", "strasse"),
        ("ＡＢＣ　１２３", "abc 123"),
        ("“Don’t”—she said…", "dont she said"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("cafe\u0301", "café"),
        ("5 € 🙂", "5 € 🙂"),
        (" \t", ""),
        ("The A", "the a"),
        ("?!", "?!"),
    ],
)
def test_normal_form(text, normal):
    assert normalise(text) == normal


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_no_script_loses_a_letter_a_mark_or_a_symbol(text):
    kept = [char for char in unicodedata.normalize("NFKC", text).casefold() if unicodedata.category(char)[0] in "LMNS"]
    assert [char for char in normalise(text) if unicodedata.category(char)[0] in "LMNS"] == kept
    assert "".join(tokens(text)) == normalise(text).replace(" ", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iPhone15を買う", ["iphone15", "を", "買", "う"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("good job", ["good", "job"]),
    ],
)
def test_words_and_where_there_are_none_characters(text, words):
    assert tokens(text) == words


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_nothing_is_left_of_blank_text_only(text):
    visible = [char for char in text if not char.isspace() and unicodedata.category(char) not in {"Cf", "Mn"}]
    assert normalise(text) or not visible


FOUND = [
    ("It costs 1.5 EUR.", "1.5"),
    ("It costs 5 EUR.", "5"),
    ("(100)", "100"),
    ("**Press** `Save` now", "press save now"),
    ("_Within_ **__30 days__**.", "within 30 days"),
    ("Within _30 days_.", r"regex:\b30 days\b"),
    ("It calls __init__ of my_var", "__init__"),
    ("It calls __init__ of my_var", "regex:__init__"),
    ("It calls __init__ of my_var", "my_var"),
    ("don’t – ever", "don't - ever"),
    ("EIN  FUSS", "ein Fuß"),
    ("価格は5ユーロです", "5ユーロ"),
    ("คืนเงินได้ภายใน 30 วัน", "คืนเงิน"),
    ("Thirty days", "30 days || thirty days"),
    ("order AB-12", "regex:ab-\\d+"),
    ("zero\u200bwidth", "zerowidth"),
]
NOT_FOUND = [
    ("It costs 1.500 EUR", "1.5"),
    ("It costs 1,500 EUR", "1"),
    ("It costs 1.5 EUR", "5"),
    ("100,000 people", "100"),
    ("we can't do it", "can"),
    ("education", "cat"),
    ("foo_bar, foo__bar", "foo"),
    ("forty days", "30 days || thirty days"),
    ("order AB12", "regex:ab-\\d+"),
]


@pytest.mark.promise("evaluation", "A phrase is found as whole words, and a number not inside of another one.")
def test_a_phrase_is_found_as_whole_words_and_not_inside_of_a_number():
    assert [pair for pair in FOUND if not has_phrase(*pair)] == []
    assert [pair for pair in NOT_FOUND if has_phrase(*pair)] == []


def test_every_run_of_words_of_a_text_is_found_and_no_part_of_a_word_is():
    chance = random.Random(59)
    letters = "abcdefghij"
    for _ in range(200):
        words = ["".join(chance.choices(letters, k=chance.randint(3, 6))) for _ in range(8)]
        text = "".join(word + chance.choice([" ", ", ", "\n", " - ", ") "]) for word in words)
        start = chance.randrange(7)
        assert has_phrase(text, words[start])
        part = words[start][1:]
        assert has_phrase(text, part) == (part in words)


def test_hostile_phrases_and_texts_take_no_time():
    started = time.perf_counter()
    assert not has_phrase("a" * 200_000, "regex:(a+)+b")
    assert not has_phrase("1." * 100_000, "1.5")
    assert not has_phrase(f"a{'_' * 200_000}b", "b")
    assert len(addresses_in("https://example.com/(" * 20_000)) >= 0
    assert time.perf_counter() - started < 5


def test_addresses_are_found_in_plain_text_markdown_and_html():
    text = (
        "See [terms](https://Example.com/a_(b)), http://foo.org/x/#part, bar.com/y?z=1. "
        '<a href="https://shop.example/%C3%A4/">here</a>、詳細:https://jp.example/返金。'
    )
    assert addresses_in(text) == {
        "example.com/a_(b)",
        "foo.org/x",
        "bar.com/y?z=1",
        "shop.example/ä",
        "jp.example/返金",
    }
