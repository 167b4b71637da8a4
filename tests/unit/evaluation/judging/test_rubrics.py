"""The options of the judges, and the rubrics of the scorers."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.judging.rubrics import BUILT_IN, JudgeOptions
from airflow_provider_assistant.exceptions import AssistantInputError


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("judge_default", "it must be a mapping"),
        ({"max_in_flight": 3}, "there is no option 'max_in_flight', only conn_id"),
        ({"max_concurrency": 0}, "max_concurrency must be a whole number above 0, not 0"),
        ({"max_judge_tokens": 1.5}, "max_judge_tokens must be a whole number above 0, not 1.5"),
        ({"rubrics": {"tone": " "}}, "rubrics must map names to texts"),
        ({"rubrics": {"two words": "x"}}, "'two words' must consist of letters"),
        ({"conn_id": ""}, "conn_id must be text, not ''"),
        ({"price": 2}, "price must be a mapping with the numbers 'input' and 'output'"),
        ({"price": {"input": 2, "output": float("nan")}}, "price must be"),
        *[({"labels": given}, "labels must be a path or a list of paths") for given in (7, [7], "", [""], {"a": "b"})],
    ],
)
def test_bad_options_are_refused(given, says):
    with pytest.raises(AssistantInputError, match=says) as raised:
        JudgeOptions.parse(given)
    assert raised.value.field == "judge"


def test_the_defaults_have_no_limit_and_no_price():
    options = JudgeOptions.parse(None)
    assert (options.conn_id, options.max_concurrency, options.max_judge_tokens) == ("pydanticai_default", 16, None)
    assert options.cost(1000, 1000) is None
    priced = JudgeOptions.parse({"price": {"input": 0.5, "output": 2}})
    assert priced.cost(1_000_000, 250_000) == 1.0


def test_rubrics_are_those_of_the_scorers_in_their_order():
    options = JudgeOptions.parse({"rubrics": {"brand": "Name the shop.", "correctness": "Be strict."}})
    brand, correctness, tone = options.rubrics_of(["token_f1", "judge.brand", "judge.correctness", "judge.tone"])
    assert (brand.scorer, brand.text, brand.reference) == ("judge.brand", "Name the shop.", None)
    assert (correctness.text, correctness.reference) == ("Be strict.", "expected")
    assert tone == BUILT_IN["tone"]


@pytest.mark.parametrize(
    ("scorers", "rubrics", "says"),
    [
        (["judge.policy"], {}, "'judge.policy' needs the text of your policy"),
        (["judge.brand"], {}, "'judge.brand' needs a text that says when an answer passes"),
        (["token_f1"], {"brand": "x"}, "add 'judge.brand' to scorers"),
    ],
)
def test_every_rubric_has_a_text_and_every_text_a_scorer(scorers, rubrics, says):
    with pytest.raises(AssistantInputError, match=says):
        JudgeOptions.parse({"rubrics": rubrics}).rubrics_of(scorers)
