# ruff: noqa: RUF001
"""The values of each scorer, their known weaknesses, and the checks."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.scorers import SCORERS, chrf, scorers_of
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.evaluation.test_text import SCRIPTS

LEXICAL = [name for name, scorer in SCORERS.items() if scorer.kind == "lexical similarity"]
OWN = "tests.unit.evaluation.own"


def make_case(answer="Yes.", **fields):
    defaults = {
        "key": "q1",
        "message": "Refund?",
        "status": "complete",
        "error": None,
        "seconds": 1.5,
        "session_id": None,
        "request_id": None,
        "expected": None,
        "must_include": (),
        "must_not_include": (),
        "expect_no_answer": None,
        "weight": 1.0,
        "tags": (),
        "row": {},
    }
    return Case(answer=answer, **defaults | fields)


def score(name, answer, **fields):
    [scorer] = scorers_of([name])
    return scorer.score(make_case(answer, **fields))


@pytest.mark.parametrize("name", LEXICAL)
@pytest.mark.parametrize(
    "text", [*SCRIPTS.values(), "A", "?!", "can get a refund"], ids=[*SCRIPTS, "A", "?!", "english"]
)
def test_identical_text_scores_1_in_every_script(name, text):
    assert score(name, text, expected=text) == 1.0


@pytest.mark.parametrize("name", LEXICAL)
@pytest.mark.parametrize("answer", ["", "  ", "\u200b"])
def test_an_empty_answer_scores_0(name, answer):
    assert score(name, answer, expected="Yes.") == 0.0


@pytest.mark.parametrize("name", LEXICAL)
@settings(deadline=None)
@given(answer=st.text(max_size=40), expected=st.text(max_size=40))
def test_a_similarity_is_from_0_to_1(name, answer, expected):
    value = SCORERS[name].score(make_case(answer, expected=expected))
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("name", [name for name in SCORERS if name != "latency"])
def test_without_an_expectation_there_is_nothing_to_score_by(name):
    assert score(name, "Yes.") is None


@pytest.mark.promise("evaluation", "chrf is that of sacrebleu.")
@settings(deadline=None)
@given(answer=st.text(max_size=60), expected=st.text(max_size=60))
def test_chrf_is_that_of_sacrebleu(answer, expected):
    assert chrf(answer, expected) == sacrebleu.sentence_chrf(answer, [expected]).score / 100


# Short and long texts, of few and of many different characters.
@pytest.mark.parametrize("length", [5, 33, 400])
@pytest.mark.parametrize("characters", ["a", "ab", "abcdefghij. ", "ดีกา😀é ", "".join(map(chr, range(0x4E00, 0x5300)))])
def test_chrf_of_long_texts_is_that_of_sacrebleu(length, characters):
    chosen = random.Random(length)
    for _ in range(10):
        expected = "".join(chosen.choices(characters, k=length))
        answer = "".join(char if chosen.random() < 0.8 else chosen.choice(characters) for char in expected)
        for one, other in ((answer, expected), (answer[: length // 2], expected), (expected * 2, answer)):
            assert chrf(one, other) == sacrebleu.sentence_chrf(one, [other]).score / 100


@pytest.mark.parametrize("name", LEXICAL)
def test_of_several_accepted_answers_the_best_counts(name):
    accepted = ["no refund", "refund in 30 days", "返金 30 days"]
    scores = [score(name, "refund 30 days", expected=text) for text in accepted]
    value = score(name, "refund 30 days", expected=accepted[0], also_expected=tuple(accepted[1:]))
    assert value == max(scores)


def test_digits_and_turkish_letters_are_equal_in_every_similarity():
    pairs = [
        ("KIRMIZI", "kırmızı"),
        ("İADE", "iade"),
        ("٣٠ يومًا", "30 يوما"),
        ("๓๐ วัน", "30 วัน"),
        ("Windows™", "windows"),
    ]
    for name in LEXICAL:
        for answer, expected in pairs if name != "chrf" else ():
            assert score(name, answer, expected=expected) == score(name, expected, expected=answer) == 1.0, (
                name,
                answer,
            )


# What each scorer is blind to: users are told, and may rely on it.
@pytest.mark.parametrize(
    ("name", "answer", "expected", "value"),
    [
        ("ratio", "You can not get a refund", "You can get a refund", 0.9),
        ("token_set_ratio", "You can not get a refund", "You can get a refund", 1.0),
        ("token_set_ratio", "yes", "Yes, within 30 days of the purchase.", 1.0),
        ("token_f1", "dog bites man", "man bites dog", 1.0),
        ("exact_match", "dog bites man", "man bites dog", False),
        ("exact_match", "PASSWORD", "password", True),
        ("exact_match", "ｙｅｓ", "Yes!", True),
        ("chrf", "PASSWORD", "password", 0.0),
        ("exact_match", "35 kg", "3.5 kg", True),
        ("exact_match", "1,000", "1000", True),
        ("exact_match", "1 000", "1000", False),
        ("exact_match", "sinir", "sınır", False),
    ],
)
def test_the_known_weaknesses_of_a_similarity(name, answer, expected, value):
    assert score(name, answer, expected=expected) == value


def test_a_check_sees_what_a_similarity_does_not():
    assert score("must_not_include", "You can not get a refund", must_not_include=("can not",)) is False
    assert score("must_not_include", "You can't get it", must_not_include=("can't",)) is False
    assert score("must_include", "You can't get it", must_include=("can",)) == 0.0
    assert score("must_include", "35 kg", must_include=("3.5 kg",)) == 0.0


def test_must_include_is_the_share_of_phrases_found():
    assert score("must_include", "30 days, with receipt", must_include=("30 days", "receipt", "original box")) == 2 / 3


def test_one_forbidden_phrase_is_too_many():
    assert score("must_not_include", "Call us.", must_not_include=("call us", "fax")) is False
    assert score("must_not_include", "Write to us.", must_not_include=("call us", "fax")) is True


PAGE = "https://docs.example.com/guide/office hours"


@pytest.mark.parametrize(
    "answer",
    [
        "https://docs.example.com/guide/office%20hours",
        "See [the page](https://docs.example.com/guide/office%20hours#from-9).",
        "See [docs.example.com/guide/office%20hours](https://docs.example.com/guide/office%20hours)",
        "Source:**https://docs.example.com/guide/office%20hours**!",
        "<https://docs.example.com/guide/office%20hours>",
        "<a href='https://docs.example.com/guide/office%20hours'>x</a>",
        "詳しくはhttps://docs.example.com/guide/office%20hours。",
        "From 9 to 5.\n\nSource: https://docs.example.com/guide/office%20hours, 2026-11-22",
    ],
)
def test_an_address_is_found_as_people_write_it(answer):
    assert score("cites", answer, expected_url=(PAGE.replace(" ", "%20"),)) == 1.0
    assert score("cites", answer, expected_url=(PAGE.removeprefix("https://").replace(" ", "%20") + "/#x",)) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "https://docs.example.com/guide",
        "https://docs.example.com/guide/a/b",
        "https://docs.example.com/guide/a?v=2",
        "https://other.example.com/guide/a",
        "https://docs.example.com.evil.org/guide/a",
        "https://evil.org/docs.example.com/guide/a",
    ],
)
def test_another_address_is_not_the_page(answer):
    assert score("cites", answer, expected_url=("https://docs.example.com/guide/a",)) == 0.0


def test_cites_is_the_share_of_addresses_named():
    # A parenthesis can belong to the address.
    for answer in ("(https://x.org/A_(b)).", "[A](https://x.org/A_(b))", "x.org/A_(b)"):
        assert score("cites", answer, expected_url=("https://x.org/A_(b)",)) == 1.0
    answer = "See https://x.org/a?b=1 and https://x.org/c."
    assert score("cites", answer, expected_url=("https://x.org/a?b=1", "https://x.org/d")) == 0.5
    assert score("cites", answer, expected_url=("https://x.org/c", "http://x.org/c/")) == 1.0
    assert score("cites", answer) is None


@pytest.mark.parametrize("text", [")" * 1_000_000, "https://" * 100_000, "x.org/" + "(.)" * 300_000, "a." * 500_000])
def test_addresses_are_found_in_linear_time(text):
    """With quadratic time, this would take minutes."""
    assert score("cites", text, expected_url=("https://x.org/a",)) == 0.0


@pytest.mark.parametrize(("answer", "is_refusal"), [("I don't know.", True), ("", True), ("Within 30 days.", False)])
def test_a_refusal_is_right_where_no_answer_is_expected(answer, is_refusal):
    assert score("refusal", answer, expect_no_answer=True) is is_refusal
    assert score("refusal", answer, expect_no_answer=False) is not is_refusal
    assert score("refusal", answer) is None


@pytest.mark.parametrize("confidence", [0.0, 0.61, 1.0, 97.5, -3.0])
def test_the_confidence_is_the_number_of_the_reply_whatever_its_range(confidence):
    assert score("confidence_score", "x", confidence_score=confidence) == confidence
    assert score("confidence_score", "x") is None


@pytest.mark.parametrize(
    ("level", "confidence", "value"),
    [("low", None, 1), ("LOW", 0.9, 1), ("high", None, 0), (None, 0.1, 0), (None, None, None)],
)
def test_low_confidence_is_by_the_level_alone(level, confidence, value):
    assert score("low_confidence", "x", confidence_level=level, confidence_score=confidence) == value


def test_latency_is_seconds():
    assert score("latency", "x") == 1.5
    assert score("latency", "x", seconds=None) is None


def test_an_own_scorer_sees_question_expected_answer_and_row(own):
    row = {"language": "en"}
    assert score(f"{OWN}.length", "Yes.", expected="No", row=row) == 1.0
    assert own.seen == ("Refund?", "No", "Yes.", row)


def test_an_own_scorer_is_called_with_each_accepted_answer(own):
    own.length = lambda question, expected, answer, row: {"No": None, "Yes": 0.2, "Yes!": 0.7}[expected]
    for accepted, best in ((["Yes", "Yes!", "No"], 0.7), (["No", "Yes"], 0.2), (["No", "No"], None), (["Yes"], 0.2)):
        given = {"expected": accepted[0], "also_expected": tuple(accepted[1:])}
        assert score(f"{OWN}.length", "Yes.", **given) == best


@pytest.fixture
def own(monkeypatch):
    """A module with user-defined scorers."""

    def length(question, expected, answer, row):
        module.seen = (question, expected, answer, row)
        return 1.0

    async def later(question, expected, answer, row):
        return 1.0

    module = SimpleNamespace(length=length, later=later, few=lambda answer: 1.0, number=1, more=lambda *texts: 0.5)
    monkeypatch.setitem(sys.modules, OWN, module)
    return module


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "scorers must be a list of at least one name"),
        ("token_f1", "scorers must be a list of at least one name, not 'token_f1'"),
        (["token_f1", "token_f1"], "scorers name token_f1 more than once"),
        (["bleu"], "there is no scorer 'bleu', only exact_match, token_f1"),
        (["no.such.module"], "'no.such.module' cannot be imported: ModuleNotFoundError"),
        ([f"{OWN}.missing"], "own.missing' cannot be imported: AttributeError"),
        ([f"{OWN}.number"], "own.number' must be a function"),
        ([f"{OWN}.later"], "own.later' must be a function, and not an async one"),
        ([f"{OWN}.few"], r"own.few' must be called as score\(question, expected, answer, row\): too many"),
    ],
)
def test_scorers_that_cannot_be_used_are_refused(names, message):
    with pytest.raises(AssistantInputError, match=message) as caught:
        scorers_of(names)
    assert caught.value.field == "scorers"


@pytest.mark.usefixtures("own")
def test_any_function_of_four_arguments_is_a_scorer():
    [scorer] = scorers_of([f"{OWN}.more"])
    assert (scorer.name, scorer.kind, scorer.is_share, scorer.higher_is_better) == (f"{OWN}.more", "custom", True, True)


@pytest.mark.parametrize(
    ("name", "library"),
    [("ratio", "rapidfuzz"), ("token_set_ratio", "rapidfuzz")],
)
def test_a_library_that_is_not_there_is_named_with_what_to_type(name, library, monkeypatch):
    for module in [module for module in sys.modules if module.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        AssistantInputError, match=rf"{library} .*pip install 'airflow-provider-assistant\[evaluation\]'"
    ):
        scorers_of([name])


def test_the_others_need_no_library(monkeypatch):
    for library in ("rapidfuzz", "sacrebleu", "numpy"):
        for module in [module for module in sys.modules if module.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, library, None)
    names = [name for name in SCORERS if name not in {"ratio", "token_set_ratio"}]
    checked = {
        "must_include": ("a",),
        "must_not_include": ("b",),
        "expected_url": ("x.org",),
        "expect_no_answer": False,
    }
    case = make_case(expected="Yes", confidence_score=0.5, **checked)
    assert None not in [scorer.score(case) for scorer in scorers_of(names)]
