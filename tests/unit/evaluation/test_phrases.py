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
SAME = {
    "words": [
        (
            "refund",
            "REFUND. refund—except refund/exchange refund's Refund™ re\u00adfund \u200frefund\u200e",
            "refunds prefund",
        ),
        ("paid", "Paid!", "Prepaid unpaid"),
        ("can", "can", "can't can’t cannot"),
        ("can't", "can’t CAN´T can‘t", "can cant"),
        ("e-mail", "e‑mail E–Mail E—MAIL", "email"),
        ("café", "cafe\u0301 CAFÉ ｃａｆé", "cafe"),
        ("C#", "C#. (C#)", "C"),
        ("C", "C", "Ca"),
        ("A4", "A4 a4,", "A44 A"),
        ("mp3", "MP3", "mp mp33 3"),
        ("iPhone", "iPhoneを買う API/iPhone", "iPhonesを買う"),
        ("API", "API를 API는 והAPI", "APIs"),
    ],
    "casing": [
        ("İstanbul", "istanbul ISTANBUL İSTANBUL İstanbul'da İstanbul’un", "İstanbullu"),
        ("istanbul", "İSTANBUL I\u0307STANBUL", "İstanbullu"),
        ("kırmızı", "KIRMIZI Kırmızı", "kirmizi"),
        ("KIRMIZI", "kırmızı KIRMIZI", "kırmızılar"),
        ("sınır", "SINIR Sınır", "sinir SİNİR"),
        ("Ankara", "ANKARA'NIN Ankara'da Ankara’dan", "Ankaralı"),
        ("Straße", "STRASSE STRAẞE strasse", "Strass"),
        ("ΟΔΟΣ", "οδος οδοσ Οδος", "οδό"),
    ],
    "korean": [
        (
            "환불",
            "환불은 환불을 환불이 환불도 환불의 환불까지 환불로 환불만을 환불입니다 환불받을 환불됩니다",
            "미환불 환불불가 환불금액",
        ),
        ("회사", "회사는 회사가 회사를 회사와 회사로 회사에서는", "회사원 회사은 자회사"),
        ("서울", "서울로 서울은 서울에서 서울까지", "서울시민"),
        ("가능", "가능합니다 가능하며 가능은", "불가능 불가능합니다"),
        ("가", "가를", "가을"),
        ("물", "물은 물을", "물가 물건"),
        ("나", "나는", "나이 나무"),
        ("회", "회는", "회의 회사"),
        ("정", "정은", "정도"),
    ],
    "arabic": [
        ("رقم", "الرقم والرقم برقم بالرقم للرقم وللرقم رقمك رقمها رقمنا فالرقم رَقْمٌ رقـــم", "أرقام مرقم رقمي"),
        ("سياسة", "السياسة سياستنا بسياستنا وسياسة للسياسة", "سياسات سياسي"),
        ("الاسترداد", "والاسترداد بالاسترداد للاسترداد وللاسترداد", "استرداد"),
        ("إرجاع", "ارجاع الإرجاع لإرجاع وإرجاعها", "رجاع"),
        ("يوم", "يومًا يوما اليوم", "أيام يومين"),
        ("لا", "لا", "بلا إلا لازم كلا"),
        ("طاقة", "الطاقة", "بطاقة"),
        ("كتب", "الكتب وكتب", "مكتب مكتبة"),
        ("احد", "الاحد", "واحد"),
    ],
    "hebrew": [
        ("תשלום", "התשלום לתשלום בתשלום והתשלום שהתשלום מהתשלום כשהתשלום תַּשְׁלוּם", "תשלומים"),
        ("ימים", "הימים בימים לימים", "שמים"),
        ("לא", "לא", "מלא אלא"),
        ("ספר", "הספר בספר", "מספר סופר"),
        ("שקל", "השקל בשקל", "משקל"),
    ],
    "persian": [
        ("می‌توانید", "میتوانید می‌توانید مي‌توانيد", "توانید"),
        ("کتاب", "كتاب کتاب‌های", "کتابی"),
    ],
    "unspaced": [
        ("返金", "返金できます 即日返金", "返却金"),
        ("退款", "可以退款吗", "退货款"),
        ("เงิน", "คืนเงินได้", "เงา"),
        ("ท", "ท", "ที่"),
    ],
    "endings": [
        ("возврат", "Возврат возврат,", "возврата"),
        ("iade", "İADE iade.", "iadesi"),
        ("हिन्दी", "हिन्दी।", "हिन्द"),
        ("हिन्द", "हिन्द", "हिन्दी"),
    ],
    "numbers": [
        ("1000", "1,000 1.000 1’000 1'000 1\u00a0000 1\u202f000 1000.", "10,000 100 1,0000 1000000"),
        ("1,000", "1000 1.000", "1 1.0 1,001"),
        ("1.000", "1000 1", "1.001 10"),
        ("1234567.89", "1,234,567.89 1.234.567,89 1\u00a0234\u00a0567,89 12,34,567.89", "1,234,567 1234567.8"),
        ("3.5", "3,5 3,50 ٣٫٥", "35 13.5 3.51 3.5.1"),
        ("3.1", "3.1", "3.10 3.11"),
        ("5", "5 5, (5) 5% 5€ 5kg 5-10 5/6 5日 5일", "3.5 5,000 5.1 15 50 2FA5 v5 5th 5k -5 5:30 0,5"),
        ("007", "007", "7 07"),
        ("30", "٣٠ ۳۰ ३० ৩০ ๓๐ ３０ 30일 30日 ל30 ב-30", "300 3.0 ٣٠٠"),
        ("-5", "−5 –5 -5", "5 3-5"),
        ("10:30", "10.30 10:30am 10:30", "11:30 10:3 110:30"),
        ("10", "10:00 10-20", "10:30 10.5"),
        ("05.03.2026", "5.3.2026", "3.5.2026 05.03.2025"),
        ("192.168.0.1", "192.168.0.1", "192.168.0.10"),
    ],
}
# The same for spellings with spaces.
SPACED = [
    (
        "5 €",
        ["5€", "€5", "€ 5", "5 EUR", "EUR 5", "5,00 €", "€5.00", "5\u202f€", "- 5 €", "5,- €", "5,– €", "EUR5"],
        ["50 €", "15 €", "0,5 €", "5 $", "5"],
    ),
    ("$5", ["5 $", "US$5", "5 USD", "$5.00", "$ 5"], ["C$5", "$5.50", "$5,000", "$50"]),
    ("CHF 1'000", ["1000 CHF", "CHF1'000", "CHF 1,000.00", "CHF 1'000.-", "1 000 CHF"], ["CHF 1'001", "1000 EUR"]),
    ("50%", ["50 %", "50\u202f%", "%50", "٥٠٪", "50％"], ["150 %", "5 %", "50"]),
    ("3.5 kg", ["3,5 kg", "3.50 kg", "3,5kg"], ["35 kg", "3.5 g", "13.5 kg"]),
    ("1st", ["1 st", "the 1st."], ["21st", "1"]),
    ("1 000", ["1000", "1,000"], ["21 000", "1 000 000", "1"]),
    ("10 Uhr", ["10:00 Uhr", "10.00 Uhr"], ["10.30 Uhr"]),
    ("-5 °C", ["−5 °C", "-5℃"], ["5 °C", "3-5 °C"]),
    ("30 days", ["30\ndays", "**30** days", "٣٠ days", "30  Days"], ["130 days", "30, days", "30 working days"]),
    ("555 123 4567", ["555 123 4567"], ["5551234567"]),
    ("2020-2024", ["2020–2024", "2020 – 2024", "2020—2024"], ["2020, 2024"]),
    ("20", ["10 -20", "10-20"], ["10 -200"]),
    ("می توانید", ["می‌توانید"], ["نمی‌ توانید"]),
    ("رود", ["یک رود بزرگ"], ["ورود به سایت", "شکار کنید"]),
    ("סכום של ספר", ["סכום של ספר"], ["סכום של מספר"]),
    ("30 يوم", ["30 يومًا", "٣٠ يوما"], ["130 يوم"]),
    ("1½", ["1 1/2", "1 ½"], ["11/2"]),
    ("10²", ["10^2"], ["102"]),
    ('"quoted"', ["“quoted”", "«quoted»"], ["'quoted'"]),
    ("**", ["a **b** c"], ["a b c"]),
    ("5%", ["5% off"], ["5 days"]),
]


def spellings():
    """Yield phrases, texts, and whether the text has the phrase."""
    for group in SAME.values():
        for phrase, same, other in group:
            yield from ((phrase, text, True) for text in same.split(" "))
            yield from ((phrase, text, False) for text in other.split(" "))
    for phrase, same, other in SPACED:
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
