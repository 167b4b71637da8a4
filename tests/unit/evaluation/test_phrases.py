# ruff: noqa: RUF001
"""Phrases in answers of many languages: what is found, and what is not."""

from __future__ import annotations

import random
import time
import unicodedata

import pytest

from airflow_provider_assistant.evaluation.phrases import has_phrase, includes
from tests.unit.evaluation.test_text import SCRIPTS

# A phrase, spellings of it that are the same, and texts that are something else.
SAME = [
    ("refund", "REFUND. refund—except refund's Refund™ re\u00adfund \u200frefund\u200e", "refunds prefund"),
    ("can", "can", "can't can’t cannot"),
    ("can't", "can’t CAN´T can‘t", "can cant"),
    ("e-mail", "e‑mail E–Mail E—MAIL", "email"),
    ("café", "cafe\u0301 CAFÉ ｃａｆé", "cafe"),
    ("A4", "A4 a4,", "A44 A"),
    ("API", "API를 API는", "APIs"),
    ("İstanbul", "istanbul ISTANBUL İSTANBUL İstanbul'da İstanbul’un", "İstanbullu"),
    ("KIRMIZI", "kırmızı KIRMIZI", "kırmızılar"),
    ("Straße", "STRASSE STRAẞE strasse", "Strass"),
    ("ΟΔΟΣ", "οδος οδοσ Οδος", "οδό"),
    ("환불", "환불은 환불을 환불까지 환불만을 환불입니다 환불됩니다", "미환불 환불불가 환불금액"),
    ("회사", "회사는 회사가 회사에서는", "회사원 회사은 자회사"),
    ("서울", "서울로 서울은 서울까지", "서울시민"),
    ("가", "가를", "가을"),
    ("رقم", "الرقم والرقم برقم للرقم وللرقم رقمك رقمها رَقْمٌ رقـــم", "أرقام مرقم رقمي"),
    ("سياسة", "السياسة سياستنا بسياستنا للسياسة", "سياسات سياسي"),
    ("إرجاع", "ارجاع الإرجاع لإرجاع وإرجاعها", "رجاع"),
    ("الاسترداد", "والاسترداد بالاسترداد وللاسترداد", "استرداد"),
    ("لا", "لا", "بلا إلا لازم كلا"),
    ("תשלום", "התשלום לתשלום והתשלום כשהתשלום תַּשְׁלוּם", "תשלומים"),
    ("לא", "לא", "מלא אלא"),
    ("می‌توانید", "میتوانید می‌توانید مي‌توانيد", "توانید"),
    ("返金", "返金できます 即日返金", "返却金"),
    ("ท", "ท", "ที่"),
    ("возврат", "Возврат возврат,", "возврата"),
    ("हिन्द", "हिन्द", "हिन्दी"),
    ("1000", "1,000 1.000 1’000 1'000 1\u00a0000 1000.", "10,000 100 1,0000 1000000"),
    ("1.000", "1000 1", "1.001 10"),
    ("1234567.89", "1,234,567.89 1.234.567,89 12,34,567.89", "1,234,567 1234567.8"),
    ("3.5", "3,5 3,50 ٣٫٥", "35 13.5 3.51 3.5.1"),
    ("5", "5 5, (5) 5% 5€ 5kg 5-10 5/6 5日", "3.5 5,000 15 2FA5 v5 5th 5k -5 5:30 0,5"),
    ("30", "٣٠ ۳۰ ३० ๓๐ ３０ 30일 ל30", "300 3.0 ٣٠٠"),
    ("-5", "−5 –5 -5", "5 3-5"),
    ("10:30", "10.30 10:30am", "11:30 10:3 110:30"),
    ("05.03.2026", "5.3.2026", "3.5.2026 05.03.2025"),
]
# The same for spellings with spaces.
SPACED = [
    (
        "5 €",
        ["5€", "€5", "€ 5", "5 EUR", "EUR 5", "5,00 €", "€5.00", "5\u202f€", "- 5 €", "5,- €", "5,– €", "EUR5"],
        ["50 €", "15 €", "0,5 €", "5 $", "5"],
    ),
    ("$5", ["5 $", "US$5", "5 USD", "$5.00", "$ 5"], ["C$5", "$5.50", "$5,000", "$50"]),
    ("50%", ["50 %", "50\u202f%", "%50", "٥٠٪", "50％"], ["150 %", "5 %", "50"]),
    ("3.5 kg", ["3,5 kg", "3.50 kg", "3,5kg"], ["35 kg", "3.5 g", "13.5 kg"]),
    ("1st", ["1 st", "the 1st."], ["21st", "1"]),
    ("-5 °C", ["−5 °C", "-5℃"], ["5 °C", "3-5 °C"]),
    ("30 days", ["30\ndays", "**30** days", "٣٠ days", "30  Days"], ["130 days", "30, days", "30 working days"]),
    ("2020-2024", ["2020–2024", "2020 – 2024", "2020—2024"], ["2020, 2024"]),
    ("20", ["10 -20", "10-20"], ["10 -200"]),
    ("می توانید", ["می‌توانید"], ["نمی‌ توانید"]),
    ("1½", ["1 1/2", "1 ½"], ["11/2"]),
    ('"quoted"', ["“quoted”", "«quoted»"], ["'quoted'"]),
    ("**", ["a **b** c"], ["a b c"]),
]


def spellings():
    """Yield phrases, texts, and whether the text has the phrase."""
    for phrase, same, other in [*((one, same.split(" "), other.split(" ")) for one, same, other in SAME), *SPACED]:
        yield from ((phrase, text, True) for text in same)
        yield from ((phrase, text, False) for text in other)


def test_spellings_of_a_phrase_are_found_and_nothing_else():
    """Each of them at the beginning, in the middle and at the end of a sentence, in two Unicode forms."""
    wrong = []
    number = 0
    for phrase, text, is_same in spellings():
        for context in ("{}", "… {} …", "({})", "x\n{}\nx", "“{}”", "{}."):
            for form in ("NFC", "NFD"):
                number += 1
                answer = unicodedata.normalize(form, context.format(text))
                if includes(answer, phrase) is not is_same:
                    wrong.append((phrase, answer, is_same))
    assert not wrong, f"{len(wrong)} of {number}: {wrong[:40]}"


def test_numbers_are_equal_by_value_in_every_script_and_style():
    """Generated amounts, in every pair of styles; another amount is never found."""
    chosen = random.Random(20)
    zeros = [ord(char) for char in "0٠۰०০๐０០〇"[:8]]
    styles = (",.", ".,", " ,", "\u00a0.", "’.", "\u202f,")
    wrong = []
    for _ in range(150):
        cents = chosen.choice([chosen.randrange(1, 10_000), chosen.randrange(10_000, 10**10)])
        spelled = [amount(cents, *style, zero) for style in styles for zero in chosen.sample(zeros, 2)]
        other = amount(cents + chosen.choice([1, 10, 100, 100_000]), *chosen.choice(styles), zeros[0])
        phrase = f"{chosen.choice(spelled)} €"
        wrong += [(phrase, text) for text in spelled if not includes(f"It costs €{text}, or so.", phrase)]
        wrong += [(phrase, other)] if includes(f"It costs {other} €", phrase) else []
    assert not wrong, f"{len(wrong)}: {wrong[:40]}"


def amount(cents, group, point, zero):
    digits = f"{cents // 100:,}".replace(",", group) + f"{point}{cents % 100:02}"
    return "".join(chr(zero + int(char)) if char.isascii() and char.isdigit() else char for char in digits)


def test_every_text_includes_itself_and_each_of_its_words():
    for text in SCRIPTS.values():
        assert includes(text, text)
        assert includes(text, "")
        for word in text.split():
            assert includes(f"… {text} …", word.rstrip(".。、?؟।")), word


@pytest.mark.parametrize(
    ("phrase", "same", "other"),
    [
        ("30 days || one month", ["30 days", "A month? One month."], ["30", "one days", ""]),
        ("a||b || c", ["a", "b", "c"], ["ab", "|"]),
        (r"regex:\b\d+ (days|weeks)\b", ["30 days", "٣٠ DAYS", "in 2 weeks.", "**30** days"], ["days", "30 daysx"]),
        ("Regex: ^yes", ["Yes, you can", "YES"], ["Oh yes"]),
        (r"regex:(?s)^.{0,20}$", ["short", ""], ["a" * 21]),
        (r"regex:can't|don't", ["you can’t", "I don´t"], ["cant"]),
        (r"regex:(?-i)IT", ["IT"], ["it"]),
        (r"regex:\p{Greek}", ["α"], ["a"]),
    ],
)
def test_alternatives_and_regular_expressions(phrase, same, other):
    assert [text for text in same if not has_phrase(text, phrase)] == []
    assert [text for text in other if has_phrase(text, phrase)] == []


def test_hostile_texts_take_linear_time():
    """With quadratic time, this would take minutes."""
    started = time.process_time()
    for text in (
        "1 000 " * 30_000,
        "1,000." * 30_000,
        "- " * 90_000,
        "€" * 90_000,
        "환불" * 90_000,
        "'t" * 90_000,
        "لل" * 90_000,
    ):
        for phrase in ("1 000 x", "€ 7", "환불 x", "للل", "can't"):
            assert not includes(text, phrase)
    assert not has_phrase("a" * 100_000, "regex:(a+)+b$")
    assert time.process_time() - started < 30
