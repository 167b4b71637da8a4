# ruff: noqa: RUF001
"""Normalisation of texts in many scripts: which differences it ignores and which it keeps."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.text import normalise, tokens

SCRIPTS = {
    "russian": "Возврат возможен в течение 30 дней.",
    "ukrainian": "Їжак з'їв яблуко.",
    "japanese": "返金は三十日以内に可能です。パスワードを変更してください。",
    "chinese": "您可以在30天内申请退款。",
    "thai": "คืนเงินได้ภายใน 30 วัน น้ำ",
    "lao": "ສະບາຍດີ",
    "khmer": "សូមអរគុណ",
    "myanmar": "မင်္ဂလာပါ",
    "tibetan": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "arabic": "يمكنك استرداد المبلغ خلال 30 يومًا.",
    "persian": "می‌توانید بازپرداخت بگیرید؟",
    "hebrew": "ניתן לקבל החזר תוך 30 יום.",
    "hindi": "आप 30 दिनों के भीतर वापसी कर सकते हैं।",
    "tamil": "நீங்கள் பணத்தைத் திரும்பப் பெறலாம்.",
    "korean": "30일 이내에 환불받을 수 있습니다.",
    "greek": "Επιστροφή χρημάτων σε 30 ημέρες.",
    "emoji": "👍🏽 ❤️ 👨‍👩‍👧 🇩🇪",
}


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Quick,\tbrown\nFOX! ", "quick brown fox"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ＡＢＣ　１２３", "abc 123"),
        ("“Don’t”—she said…", "dont she said"),
        ("don't", "dont"),
        ("soft\u00adhyphen zero\u200bwidth \ufeffmark", "softhyphen zerowidth mark"),
        ("cafe\u0301", "café"),
        ("5 € 🙂", "5 € 🙂"),
        ("3.5", "35"),
        ("theatre banana", "theatre banana"),
        ("the€ a😀", "the€ a😀"),
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
    # Persian letters become Arabic ones, and vowel signs are optional in Arabic.
    kept = [{"ی": "ي", "ک": "ك"}.get(char, char) for char in kept if char not in "\ufe0f\u064b"]
    assert [char for char in normalise(text) if unicodedata.category(char)[0] in "LMNS"] == kept
    assert "".join(tokens(text)) == normalise(text).replace(" ", "")
    # A mark stays with its base.
    assert not [token for token in tokens(text) if unicodedata.category(token[0])[0] == "M"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iPhone15を買う", ["iphone15", "を", "買", "う"]),
        ("ｶﾞｽ代", ["ガ", "ス", "代"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد", ["محمد"]),
        ("๓๐วัน", ["30", "วั", "น"]),
        ("환불 가능", ["환불", "가능"]),
        ("𠮷野家", ["𠮷", "野", "家"]),
        ("good job", ["good", "job"]),
    ],
)
def test_words_and_where_there_are_none_characters(text, words):
    assert tokens(text) == [unicodedata.normalize("NFKC", word) for word in words]


@settings(deadline=None)
@given(st.text())
def test_nothing_is_left_of_blank_text_only(text):
    visible = [char for char in text if not char.isspace() and unicodedata.category(char) not in {"Cf", "Mn"}]
    assert normalise(text) or not visible
