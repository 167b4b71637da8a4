"""The values of each scorer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.refusals import refuses
from airflow_provider_assistant.evaluation.scorers import SCORERS, scorers_of
from airflow_provider_assistant.evaluation.scores import score_cases
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.evaluation.test_text import SCRIPTS

OWN = "tests.unit.evaluation.own"


def score(name, answer="Yes.", *, refusal_phrases=(), **fields):
    [scorer] = scorers_of([name], refusal_phrases)
    return scorer.score(Case(**{"key": "q1", "message": "Refund?", "answer": answer, **fields}))


@pytest.mark.parametrize(
    ("name", "answer", "fields", "value"),
    [
        ("exact_match", "five DAYS!", {"expected": ("Five days.",)}, True),
        ("exact_match", "six days", {"expected": ("Five days.", "Six days.")}, True),
        ("token_f1", "refund in 30 days", {"expected": ("30 days",)}, pytest.approx(4 / 6)),
        ("token_f1", "", {"expected": ("30 days",)}, 0.0),
        ("must_include", "30 days", {"must_include": ("30 days", "refund")}, 0.5),
        ("must_not_include", "1.500 EUR", {"must_not_include": ("1.5",)}, True),
        ("must_not_include", "1.5 EUR", {"must_not_include": ("1.5", "2")}, False),
        ("cites", "see example.com/a", {"expected_url": ("https://example.com/a/", "b.example")}, 0.5),
        ("refusal", "I don't know.", {"expect_no_answer": True}, True),
        ("refusal", "I don't know.", {"expect_no_answer": False}, False),
        ("refusal", "In 30 days.", {"expect_no_answer": True}, False),
        ("latency", "x", {"seconds": 2.5}, 2.5),
        ("confidence_score", "x", {"confidence_score": 0.4}, 0.4),
        ("low_confidence", "x", {"confidence_level": " Low "}, True),
        ("low_confidence", "x", {"confidence_score": 0.9}, False),
        ("column:faithfulness", "x", {"row": {"faithfulness": "0.75"}}, 0.75),
        ("column:faithfulness", "x", {"row": {"faithfulness": None}}, None),
    ],
)
def test_the_value_of_each_scorer(name, answer, fields, value):
    assert score(name, answer, **fields) == value


@pytest.mark.parametrize("name", SCORERS)
def test_without_an_expectation_or_a_value_there_is_nothing_to_score_by(name):
    assert score(name) is None


@pytest.mark.parametrize("name", ["exact_match", "token_f1"])
@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_identical_text_scores_1_in_every_script(name, text):
    assert score(name, text, expected=(text,)) == 1.0


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "at least one name"),
        ("token_f1", "must be a list"),
        (["chrf"], "there is no scorer 'chrf', only exact_match"),
        (["latency", "latency"], "latency more than once"),
        (["no_such_module.score"], "cannot be imported"),
        ([f"{OWN}.number"], "must be a function"),
        ([f"{OWN}.too_few"], r"must be called as score\(question, expected, answer, row\)"),
    ],
)
def test_scorers_that_cannot_be_used_are_refused(names, says, monkeypatch):
    monkeypatch.setitem(sys.modules, OWN, SimpleNamespace(number=3, too_few=lambda answer: 1))
    with pytest.raises(AssistantInputError, match=says):
        scorers_of(names)


@pytest.mark.parametrize("cell", ["high", float("inf")])
def test_a_column_that_is_no_number_is_refused(cell):
    with pytest.raises(AssistantInputError, match="faithfulness"):
        score("column:faithfulness", row={"faithfulness": cell})


@pytest.mark.promise("evaluation", "An answer that a scorer cannot score has its worst score, and is counted.")
def test_an_answer_that_a_scorer_cannot_score_has_its_worst_score(monkeypatch):
    def own(question, expected, answer, row):
        return {"raise": 1 / 0 if answer == "raise" else 0, "text": "no", "nan": float("nan"), "two": 2}.get(
            answer, 0.5
        )

    monkeypatch.setitem(sys.modules, OWN, SimpleNamespace(own=own))
    answers = ["raise", "text", "nan", "two", "fine", None]
    cases = [Case(key=str(number), message="?", answer=answer) for number, answer in enumerate(answers)]
    scores = score_cases(cases, scorers_of([f"{OWN}.own"]))
    values = scores.values[f"{OWN}.own"].tolist()
    assert values[:5] == [0, 0, 0, 0, 0.5]
    assert values[5] != values[5]
    assert sorted(scores.errors) == [0, 1, 2, 3]
    assert "ZeroDivisionError" in scores.errors[0][f"{OWN}.own"]


def labelled():
    parts = {}
    for line in Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            lines = parts[line.removeprefix("== ")] = []
        elif not line.startswith("#"):
            lines.append(line)
    return parts


@pytest.mark.promise("evaluation", "Refusals in English are found, and help is not taken for one.")
def test_refusals_in_english_are_found_and_help_is_not_taken_for_one():
    shares = {name: sum(map(refuses, lines)) / len(lines) for name, lines in labelled().items()}
    assert shares["english: refusals"] >= 0.95
    assert shares["english: refusals, held out"] >= 0.8
    # One line for each further language finds about half of them.
    assert min(share for name, share in shares.items() if ": refusals" in name) >= 0.4
    assert max(share for name, share in shares.items() if ": answers" in name) == 0


@pytest.mark.promise("evaluation", "Your own sentences of refusal are found, in any language.")
def test_own_sentences_of_refusal_are_found():
    answer = "Det har jeg desværre ingen oplysninger om. Kontakt os gerne."
    assert score("refusal", answer, expect_no_answer=False) is True
    phrases = ["ingen oplysninger om", "regex:det ved jeg ikke"]
    assert score("refusal", answer, refusal_phrases=phrases, expect_no_answer=False) is False
    with pytest.raises(AssistantInputError, match="refusal_phrases"):
        scorers_of(["refusal"], ["a|b"])


def test_a_refusal_counts_only_at_the_beginning_and_outside_of_quotations_and_conditions():
    for text in labelled()["english: refusals"]:
        refusal = text.rstrip(".!")
        if refuses(text):
            assert refuses(f"I'm sorry to hear that. {refusal}.")
            assert refuses(f"**{text.replace(chr(39), chr(0x2019)).upper()}**")
            assert not refuses(f"Yes, within 30 days. {refusal}.")
    assert not refuses('The message "I do not know" means that the sensor is off.')
