"""Judges: what they are asked, what their verdicts are, and what happens when the model is away."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.rubrics import BUILT_IN, JudgeOptions, Rubric, Task
from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantInputError,
    AssistantJudgeLimitError,
    AssistantStorageError,
)
from tests.unit.evaluation.judges import FRIENDLY, TOKENS, Model, ModelAPIError, ModelHTTPError, judge_of, tasks
from tests.virtual_time import simulated


def away(_number, _answer):
    return ModelAPIError("word-overlap", "connection refused")


def scores(judge, found):
    return [judge.judgement(task).score for task in found]


def used(judge):
    facts = judge.facts(FRIENDLY)
    return facts.input_tokens + facts.output_tokens


def test_a_judge_gives_each_answer_a_score_and_a_reason():
    model = Model()
    judge = judge_of(model)
    found = tasks("1", "0.5", "0")
    simulated(judge.ask(found))
    assert scores(judge, found) == [1.0, 0.5, 0.0]
    assert judge.judgement(found[1]).reason == "It says 0.5."
    assert used(judge) == 3 * TOKENS
    assert "The answer is friendly." in model.instructions[0]


def test_a_rubric_reads_what_it_compares_with_and_applies_only_where_that_is():
    expected = {"expected": ("In 5 days.",), "expect_no_answer": False}
    subject = Case("q", "Refunds?", "1", transcript=(("Hello?", "Hi."),), **expected)
    bare = Case("q", "Refunds?", "1")
    model = Model()
    judge = judge_of(model)
    found = [Task(rubric, one) for one in (subject, bare) for rubric in (*BUILT_IN.values(), FRIENDLY)]
    simulated(judge.ask(found))
    assert scores(judge, found) == [1, 1, 1, None, None, 1]
    turns = {"earlier_turns": [{"question": "Hello?", "answer": "Hi."}], "question": "Refunds?", "answer": "1"}
    assert sorted(map(str, model.asked)) == sorted(
        map(
            str,
            [
                {**turns, "expected": "In 5 days."},
                {**turns, "expected": "not a refusal"},
                {**turns, "expected": "In 5 days."},
                {"question": "Refunds?", "answer": "1"},
            ],
        )
    )


def test_of_a_long_conversation_a_judge_reads_the_latest_turns():
    model = Model()
    turns = tuple((f"Question {number}", "x" * 5_000) for number in range(5))
    simulated(judge_of(model).ask([Task(FRIENDLY, Case("q", "Refunds?", "1", transcript=turns))]))
    assert [turn["question"] for turn in model.asked[0]["earlier_turns"]] == ["Question 3", "Question 4"]


def test_equal_questions_are_asked_once():
    model = Model()
    judge = judge_of(model)
    simulated(judge.ask(tasks("1")[:1] * 50))
    assert len(model.asked) == 1
    assert used(judge) == TOKENS


@pytest.mark.promise("evaluation", "A reply of a judge that is no verdict is an error of this answer, and is counted.")
@pytest.mark.parametrize("reply", [{"score": 7, "reason": "?"}, {"reason": "?"}, {"score": "good", "reason": "?"}])
def test_a_reply_that_is_no_verdict_is_asked_for_again_and_then_an_error(reply):
    model = Model(lambda number, answer: reply if answer == "0" else None)
    judge = judge_of(model)
    found = tasks("1", "0")
    simulated(judge.ask(found))
    assert judge.judgement(found[0]).score == 1
    assert judge.judgement(found[1]).error.startswith("the model gave no verdict")
    assert len(model.asked) == 3


def test_a_request_that_fails_is_sent_again():
    faults = [ModelAPIError("m", "reset"), ModelHTTPError(503, "m"), ModelHTTPError(429, "m")]
    chance = random.Random(4)
    model = Model(lambda number, answer: chance.choice([None, *faults]) if chance.random() < 0.3 else None)
    judge = judge_of(model)
    found = tasks(*["1"] * 100)
    simulated(judge.ask(found))
    assert scores(judge, found) == [1] * 100


@pytest.mark.promise("evaluation", "A judge that is away ends the task and keeps its verdicts.")
def test_a_model_that_is_away_ends_the_task_and_keeps_its_verdicts():
    tables = []
    model = Model(lambda number, answer: away(number, answer) if number >= 30 else None)
    found = tasks(*["1"] * 100)
    with pytest.raises(AssistantIncompleteError, match=r"no reply: .*connection refused") as raised:
        simulated(judge_of(model, max_concurrency=4).ask(found, save=tables.append))
    assert "a retry asks only for the others" in str(raised.value)
    assert len(model.asked) < 60
    assert tables[-1].num_rows == 30
    model = Model()
    judge = judge_of(model)
    simulated(judge.ask(found, tables[-1]))
    assert len(model.asked) == 70
    assert scores(judge, found) == [1] * 100


def test_verdicts_are_saved_while_others_are_asked_for():
    """Every second, so a task that is killed pays for the last second's verdicts again, and for no others."""
    sizes = []
    judge = judge_of(Model(seconds=0.4), max_concurrency=1)
    simulated(judge.ask(tasks(*["1"] * 10), save=lambda table: sizes.append(table.num_rows)))
    assert (len(sizes), sizes[-1]) == (5, 10)
    assert max(after - before for before, after in pairwise(sizes)) <= 3


def test_verdicts_that_cannot_be_saved_end_the_task():
    """Otherwise, a retry would pay for all of them again."""

    def full(_table):
        raise AssistantStorageError("no space left")

    model = Model(seconds=0.4)
    with pytest.raises(AssistantStorageError, match="no space left"):
        simulated(judge_of(model, max_concurrency=1).ask(tasks(*["1"] * 100), save=full))
    assert len(model.asked) < 5


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "refuses the key or the model"), (404, "refuses the key or the model"), (400, "refuses every request")],
)
def test_a_host_that_refuses_everything_stops_the_task_soon(status, reason):
    model = Model(lambda number, answer: ModelHTTPError(status, "m", {"error": "no such model"}))
    with pytest.raises(AssistantInputError, match=f"{reason}.*no such model"):
        simulated(judge_of(model, max_concurrency=2).ask(tasks(*["1"] * 100)))
    assert len(model.asked) <= 7


def test_a_key_that_is_refused_after_it_has_worked_is_retryable():
    """It may have been rotated: the next try reads the new one."""
    model = Model(lambda number, answer: ModelHTTPError(401, "m") if number > 2 else None)
    with pytest.raises(AssistantIncompleteError, match="refuses the key"):
        simulated(judge_of(model, max_concurrency=2).ask(tasks(*["1"] * 100)))
    assert len(model.asked) <= 6


def test_a_request_that_alone_is_refused_is_an_error_of_this_answer():
    model = Model(lambda number, answer: ModelHTTPError(400, "m", {"error": "filtered"}) if answer == "0" else None)
    judge = judge_of(model)
    found = tasks("1", "0", "1")
    simulated(judge.ask(found))
    assert "filtered" in judge.judgement(found[1]).error
    assert scores(judge, found)[::2] == [1, 1]


def test_a_token_limit_holds_for_all_tries_together():
    tables = []
    found = tasks(*["1"] * 100)
    for _ in range(2):
        model = Model()
        saved = tables[-1] if tables else None
        with pytest.raises(AssistantJudgeLimitError, match="max_judge_tokens, 1,000"):
            simulated(judge_of(model, max_judge_tokens=1000, max_concurrency=2).ask(found, saved, tables.append))
        assert len(model.asked) <= 12
    assert tables[-1].num_rows <= 11


def test_another_model_rubric_question_or_expectation_is_another_verdict():
    subject = Case("q", "Refunds?", "1", expected=("In 5 days.",))
    base = Task(FRIENDLY, subject)
    others = [
        Task(Rubric("friendly", "The answer is short."), subject),
        *(Task(FRIENDLY, replace(subject, **{name: "x"})) for name in ("message", "answer", "expected")),
        Task(FRIENDLY, replace(subject, transcript=(("Hello?", None),))),
    ]
    hashes = {task.content_hash("m") for task in (base, *others)} | {base.content_hash("n")}
    assert len(hashes) == 7
    # Neither the name nor an expectation that the rubric does not read changes the verdict.
    assert base.content_hash("m") == Task(Rubric("kind", FRIENDLY.text), subject).content_hash("m")
    assert base.content_hash("m") == Task(FRIENDLY, replace(subject, expect_no_answer=True)).content_hash("m")


def test_a_damaged_file_of_verdicts_is_refused():
    with pytest.raises(AssistantInputError, match="has other columns: hash"):
        simulated(judge_of(Model()).ask([], pa.table({"hash": ["x"]})))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model_": "x"}, "there is no option 'model_', only conn_id"),
        ({"max_concurrency": 0}, "max_concurrency: Input should be greater than 0, not 0"),
        ({"max_judge_tokens": "many"}, "max_judge_tokens"),
        ({"rubrics": {"friendly": 1}}, "rubrics.friendly"),
        ("openai", "must be a mapping"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, reason):
    with pytest.raises(AssistantInputError, match=reason):
        JudgeOptions.parse(options)


def test_every_judge_needs_a_text_and_every_text_a_judge():
    assert [rubric.scorer for rubric in JudgeOptions.parse(None).rubrics_of(["equal", "judge.refusal"])] == [
        "judge.refusal"
    ]
    with pytest.raises(AssistantInputError, match=r"judge\.brand has no text"):
        JudgeOptions().rubrics_of(["judge.brand"])
    with pytest.raises(AssistantInputError, match=r"add 'judge\.brand' to scorers"):
        JudgeOptions(rubrics={"brand": "It names the shop."}).rubrics_of(["equal"])
    own = JudgeOptions(rubrics={"correctness": "Every number is right."}).rubrics_of(["judge.correctness"])
    assert own == [Rubric("correctness", "Every number is right.", "expected")]
